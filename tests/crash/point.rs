//! The named failpoints: just before and just after each step that a driver takes through a seam.

use std::fmt;

use serde::{Deserialize, Serialize};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Point {
    pub moment: Moment,
    pub step: Step,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Moment {
    Before,
    After,
}

/// A step that a driver asks of its store or of its transport.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Step {
    Claim,
    /// The operation's first request that this process makes.
    Send,
    /// A further one.
    Resend,
    Lookup,
    Renew,
    Schedule,
    Succeed,
    Refuse,
    Bury,
    /// Takes what a dead process left, where there is something.
    TakeLapsed,
    /// Takes what is scheduled and due, where there is something.
    TakeDue,
    /// An operator's.
    Redrive,
    AppendEvidence,
}

impl Step {
    pub const fn before(self) -> Point {
        Point { moment: Moment::Before, step: self }
    }

    pub const fn after(self) -> Point {
        Point { moment: Moment::After, step: self }
    }
}

/// Where a process sends itself a signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failpoint {
    pub point: Point,
    pub signal: Sent,
    /// Only once so many operations wait there, each in its own file.
    pub operations: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Sent {
    Kill,
    Stop,
}

impl fmt::Display for Point {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let moment = match self.moment {
            Moment::Before => "before",
            Moment::After => "after",
        };
        write!(f, "{moment} {:?}", self.step)
    }
}
