//! The orders in the database, held against what the vendor did.

use std::fmt::Write as _;

/// One order that was asked for.
pub struct Line {
    pub order: i64,
    /// Whether it should have come to an order.
    pub expected: bool,
    /// Whether it is in the database.
    pub placed: bool,
    /// In the vendor's ledger.
    pub charges: usize,
    /// Requests for it that reached the vendor.
    pub requests: u64,
}

pub struct Report {
    pub lines: Vec<Line>,
    /// Charges that belong to none of them.
    pub others: usize,
}

impl Report {
    /// Whether each order that was committed was charged once, and no other.
    pub fn is_well(&self) -> bool {
        let as_expected =
            |line: &Line| line.placed == line.expected && line.charges == usize::from(line.placed);
        self.others == 0 && self.lines.iter().all(as_expected)
    }

    pub fn text(&self) -> String {
        let mut text = "order  in the database  charges at Stripe".to_owned();
        for Line { order, placed, charges, requests, .. } in &self.lines {
            let placed = if *placed { "yes" } else { "no" };
            let requests = match requests {
                0 | 1 => String::new(),
                requests => format!(", in {requests} requests: an answer was lost"),
            };
            // Writing to a String cannot fail.
            let _ = write!(text, "\n{order:>5}  {placed:<15}  {charges}{requests}");
        }
        if self.others > 0 {
            let _ = write!(text, "\n{} CHARGES OF NO ORDER", self.others);
        }
        format!("{text}\n\n{}", self.verdict())
    }

    fn verdict(&self) -> String {
        let placed = self.lines.iter().filter(|line| line.placed).count();
        let not = self.lines.len() - placed;
        if self.is_well() {
            format!("all is well: {placed} orders placed, each charged once; {not} rolled back, none charged")
        } else {
            "NOT WELL: the orders and their charges do not agree".to_owned()
        }
    }
}
