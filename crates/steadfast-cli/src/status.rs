//! Waiting operations, with the reasons: the whole store in one screen, and the operations one by one.

use std::io;

use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use serde_json::json;

use steadfast::clock::Timestamp;
use steadfast::dead_letter::{AccountStatus, Closed, DeadLetters, RouteStatus, Status};
use steadfast::operation::record::{Filter, Phase, Summary};
use steadfast::store;

use crate::failure::{DONE, Failure};
use crate::output::Output;
use crate::place::StorePlace;
use crate::selection::{self, CommonFilter};
use crate::text::{Out, ago, attempts, plain, wrapped};

#[derive(Args, Debug)]
pub(crate) struct ListArguments {
    /// Maximum of results
    #[arg(long, value_name = "COUNT", default_value_t = 50, value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub limit: u16,
    /// Continues after a page: the cursor that the page printed as next
    #[arg(long, value_name = "CURSOR")]
    pub after: Option<String>,
    #[command(flatten)]
    pub select: SelectWaiting,
}

#[derive(Args, Clone, Debug)]
pub(crate) struct SelectWaiting {
    #[command(flatten, next_help_heading = HEADING)]
    common: CommonFilter,
    /// In this phase
    #[arg(long, value_parser = PossibleValuesParser::new(["scheduled", "in_progress"]).map(|name| phase(&name)), help_heading = HEADING)]
    phase: Option<Phase>,
    /// Due by now
    #[arg(long, conflicts_with = "due_within", help_heading = HEADING)]
    overdue: bool,
    /// Due by now, or within this time, such as 30m
    #[arg(long, value_name = "TIME", value_parser = selection::age, help_heading = HEADING)]
    due_within: Option<std::time::Duration>,
}

impl SelectWaiting {
    /// Returns the filter. Times are relative to `now`, the time in the store.
    pub(crate) fn filter(&self, now: Timestamp) -> Filter {
        let within = if self.overdue { Some(std::time::Duration::ZERO) } else { self.due_within };
        let just_after = std::time::Duration::from_millis(1);
        let now = self.common.counts_from(now);
        Filter {
            phases: self.phase.into_iter().collect(),
            due_before: within.map(|within| now.plus(within).plus(just_after)),
            ..self.common.filter(now)
        }
    }

    pub(crate) fn vendor(&self) -> Option<&str> {
        self.common.vendor()
    }

    pub(crate) fn is_frozen(&self) -> bool {
        self.common.is_frozen()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.filter(Timestamp::default()) == Filter::default()
    }
}

/// Returns the phase of a name; the parser has checked it.
fn phase(name: &str) -> Phase {
    if name == Phase::InProgress.name() { Phase::InProgress } else { Phase::Scheduled }
}

pub(crate) async fn list(
    place: &StorePlace,
    arguments: ListArguments,
    output: &mut Output<'_>,
) -> Result<u8, Failure> {
    let letters = place.open()?;
    let now = letters.now();
    let filter = arguments.select.filter(now);
    let page = letters.waiting(&filter, arguments.after.as_deref(), usize::from(arguments.limit)).await?;
    let next = page.next.as_deref();
    if page.rows.is_empty() {
        crate::named::absent_vendor(&letters, arguments.select.vendor(), output).await?;
    }
    output.put(
        DONE,
        &json!({ "operations": page.rows, "next": next, "now_ms": now.as_millis() }),
        |_, out| {
            if page.rows.is_empty() {
                writeln!(out, "no waiting operation matches")?;
            }
            page.rows.iter().try_for_each(|row| print_row(row, now, out))?;
            match next {
                Some(next) => writeln!(out, "more: --after {next}"),
                None => Ok(()),
            }
        },
    )
}

fn print_row(row: &Summary, now: Timestamp, out: Out<'_>) -> io::Result<()> {
    writeln!(out, "{}", plain(&row.id.to_string()))?;
    // Sends in an outage are not counted, nor is one in flight: a count of none does not mean that none was
    // sent.
    let sent = if row.attempts == 0 { "no attempt counted".to_owned() } else { attempts(row.attempts) };
    writeln!(out, "    {}, {sent}, effect {}", when(row, now), row.effect)
}

/// Returns when the operation next changes by itself.
fn when(row: &Summary, now: Timestamp) -> String {
    let behind = row.sequence.as_ref().and_then(|place| place.behind.as_ref());
    match (row.phase, row.until, behind) {
        (_, _, Some(ahead)) => format!("waits behind key {}", plain(ahead.id.key.as_str())),
        (Phase::InProgress, Some(until), _) if until <= now => "left by a process that is gone".to_owned(),
        (Phase::InProgress, Some(until), _) => format!("held until {until}"),
        (_, Some(due), _) if due <= now => format!("overdue since {due} ({})", ago(now, due)),
        (_, Some(due), _) => format!("due {due} (in {})", ago(due, now)),
        _ => row.phase.to_string(),
    }
}

pub(crate) async fn status(place: &StorePlace, output: &mut Output<'_>) -> Result<u8, Failure> {
    let (letters, opened) = place.open_both()?;
    let status = letters.status().await?;
    let here = store::here(&*opened, None, ("", ""), letters.now()).await.map_err(Failure::Upkeep)?;
    let mut result = json!(status);
    result["displaced"] = json!(here.displaced);
    output.put(DONE, &result, |_, out| {
        if let Some(why) = &here.displaced {
            let text = format!("the store takes nothing: {why}; `steadfast here` says what to do");
            writeln!(out, "{}", wrapped(&plain(&text), ""))?;
        }
        print(&status, &letters, out)
    })
}

/// Prints the status in one screen: accounts that are kept from delivering come first, and the rest is summed
/// up.
fn print(status: &Status, letters: &DeadLetters, out: Out<'_>) -> io::Result<()> {
    let Status { now, accounts, .. } = status;
    if accounts.is_empty() && status.rejected_rows == 0 {
        writeln!(out, "no operation waits, and there is no dead letter")?;
    }
    let (shown, rest) = accounts.split_at(accounts.len().min(ACCOUNTS_MAX));
    shown.iter().try_for_each(|account| print_account(account, *now, letters, out))?;
    if !rest.is_empty() {
        let waiting: u64 = rest.iter().map(|account| account.waiting).sum();
        let dead: u64 = rest.iter().map(|account| account.dead).sum();
        let kept_back =
            rest.iter().filter(|account| !account.closed.is_empty() || account.is_unknown).count();
        let held = if kept_back > 0 { format!(", {kept_back} of them kept back") } else { String::new() };
        let text = format!(
            "and {} more accounts{held}, in which {waiting} wait and {dead} are dead: --json has all",
            rest.len()
        );
        writeln!(out, "{}", wrapped(&text, ""))?;
    }
    if status.rejected_rows > 0 {
        writeln!(out, "{} rows of the outbox are rejected: steadfast outbox says why", status.rejected_rows)?;
    }
    Ok(())
}

fn print_account(
    account: &AccountStatus,
    now: Timestamp,
    letters: &DeadLetters,
    out: Out<'_>,
) -> io::Result<()> {
    writeln!(out, "{}", plain(&account.account))?;
    let mut texts: Vec<String> =
        account.closed.iter().map(|closed| closed_for(closed, account.dispatchers, now)).collect();
    if account.waiting > 0 {
        texts.push(waiting(account, now));
    }
    texts.extend(unattended(account, letters));
    texts.iter().try_for_each(|text| writeln!(out, "{}", wrapped(text, "    ")))?;
    let is_news = |route: &&RouteStatus| account.routes.len() > 1 || route.last.is_some();
    let mut lines = Vec::new();
    for route in account.routes.iter().filter(is_news) {
        let last = route.last.as_ref().map_or_else(String::new, |last| {
            let outcome = last.status.map(|status| status.to_string()).or_else(|| last.failure.clone());
            format!("; last {}, {} ago", outcome.unwrap_or_default(), ago(now, last.started_at))
        });
        let named = format!("{:>6}  {}", route.waiting, route.route);
        let joined = if named.len() + last.len() <= 76 { "" } else { "\n            " };
        lines.push(format!("    {}{joined}{}", plain(&named), plain(&last)));
    }
    lines.iter().try_for_each(|line| writeln!(out, "{line}"))?;
    let mut besides = Vec::new();
    for (count, what) in [
        (account.under_way, "under way"),
        (account.in_outbox, "in the outbox"),
        (account.late, "were sent and are due in more than a day"),
    ] {
        if count > 0 {
            besides.push(format!("{count} {what}"));
        }
    }
    if account.dead > 0 {
        besides.push(format!("{} dead letters, see dead-letters list", account.dead));
    }
    if besides.is_empty() { Ok(()) } else { writeln!(out, "{}", wrapped(&besides.join("; "), "    ")) }
}

/// Returns the effect of a closed gate on the account, and since when.
pub(crate) fn closed_for(closed: &Closed, dispatchers: u32, now: Timestamp) -> String {
    let route = closed.route.as_deref().map(plain).unwrap_or_default();
    let what = match closed.gate.as_str() {
        "circuit" => "DOWN: its circuit is open".to_owned(),
        "route" => format!("route {route} is DOWN: its circuit is open"),
        "held" => "HELD: its credentials were refused".to_owned(),
        "pause" => "PAUSED, as the vendor asked".to_owned(),
        "kill_switch" => "STOPPED by its kill switch".to_owned(),
        other => format!("kept back by {}", plain(other)),
    };
    let since =
        closed.since.map_or_else(String::new, |since| format!(" since {since} ({})", ago(now, since)));
    let until = closed.until.map_or_else(String::new, |until| match closed.gate.as_str() {
        "pause" => format!(", for {} more", ago(until, now)),
        _ if until > now => format!(", next probe in {}", ago(until, now)),
        _ => ", probed now".to_owned(),
    });
    let of = if closed.dispatchers < dispatchers {
        format!("; in {} of {dispatchers} processes", closed.dispatchers)
    } else {
        String::new()
    };
    format!("{what}{since}{until}{of}")
}

fn waiting(account: &AccountStatus, now: Timestamp) -> String {
    let AccountStatus { waiting, overdue, tried, behind, next_due, .. } = account;
    let mut text = format!("{waiting} wait");
    match next_due {
        Some(due) if *overdue > 0 => {
            text.push_str(&format!(", {overdue} overdue, the oldest for {}", ago(now, *due)));
        }
        Some(due) => text.push_str(&format!(", the next due in {}", ago(*due, now))),
        None => {}
    }
    if *tried > 0 {
        text.push_str(&format!(", {tried} were sent before"));
    }
    if *behind > 0 {
        text.push_str(&format!(", {behind} behind others of their sequence"));
    }
    if let Some(gone) = account.gone_in() {
        let gone = ago(now.plus(gone), now);
        text.push_str(&format!("; at {:.1} a second what is due is gone in {gone}", account.per_second));
    }
    text
}

/// Returns why no process takes due operations, where no dispatcher reports a reason.
pub(crate) fn unattended(account: &AccountStatus, letters: &DeadLetters) -> Option<String> {
    if account.overdue == 0 && account.in_outbox == 0 {
        return None;
    }
    if account.is_unknown || !letters.reaches(&account.account) {
        return Some("no client has this account, as far as is known: is its name right?".to_owned());
    }
    (account.dispatchers == 0 && account.overdue > 0)
        .then(|| "no process says that it delivers: does one recover for this account?".to_owned())
}

/// Maximum of accounts that are shown: as many as fit one screen.
const ACCOUNTS_MAX: usize = 5;

const HEADING: &str = "Which operations (all parts must match)";
