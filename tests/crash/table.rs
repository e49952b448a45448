//! Which points a process passes, by the part of an operation's life that it works on, by vendor, and by what it
//! meets there: the exact sequence. Every step of it is a pair of cells, one death before and one after.
//!
//! A cell that is not here cannot be reached, for one of these reasons:
//!
//! - A process that calls takes and redrives nothing, and one that recovers claims nothing.
//! - Nobody resends or looks up after a clear answer; nobody refuses, schedules or buries after another outcome
//!   than the one that calls for it.
//! - Only Stripe replays: what may have taken effect is resent there, and looked up at the others. Only a lookup
//!   that answers that there is nothing is followed by a send, and not at Postmark, where a miss is no proof.
//! - Before any send but the first of a claim, the lease is renewed.
//! - A request that hangs never answers: there is no *after* the send or the lookup.
//! - The engine appends no evidence by itself: its reports go with the transitions. `AppendEvidence` is for other
//!   users of a store.

use std::time::Duration;

use steadfast::testkit::{Fault, WaitForm};

use crate::point::{Moment, Point, Step};

/// The part of an operation's life in which a process dies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Life {
    /// Its first call.
    Call,
    /// Its recovery, after a process died around its first send.
    Sweep,
    /// The redrive of a dead letter whose attempts all failed with 500, and that a service without lookups left.
    Redrive,
}

impl Life {
    pub const ALL: [Life; 3] = [Life::Call, Life::Sweep, Life::Redrive];
}

/// The fault or the answer that a process's first request meets at the vendor's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Meeting {
    Nothing,
    /// The vendor refuses the operation on its merits.
    No,
    Fault(Fault),
}

impl Meeting {
    const fn is_hang(self) -> bool {
        matches!(self, Meeting::Fault(Fault::Hang | Fault::HangAfterApply))
    }

    /// Whether the operation had taken effect before, in the later parts of its life: as the fault itself would
    /// have it, so that there are plenty of both.
    pub const fn was_applied(self) -> bool {
        match self {
            Meeting::Nothing => true,
            Meeting::No => false,
            Meeting::Fault(fault) => fault.applies(),
        }
    }
}

/// Every fault of the testkit, a wait that no call has the time for besides the short one, and none.
pub const MEETINGS: [Meeting; 17] = [
    Meeting::Nothing,
    Meeting::No,
    Meeting::Fault(Fault::DropBeforeRead),
    Meeting::Fault(Fault::DropAfterApply),
    Meeting::Fault(Fault::Reset),
    Meeting::Fault(Fault::ResetAfterApply),
    Meeting::Fault(Fault::Hang),
    Meeting::Fault(Fault::HangAfterApply),
    // On the machine.
    Meeting::Fault(Fault::SlowBody(Duration::from_millis(40))),
    Meeting::Fault(Fault::TruncatedBody),
    Meeting::Fault(Fault::Error500Before),
    Meeting::Fault(Fault::Error500After),
    Meeting::Fault(Fault::Stored500),
    Meeting::Fault(Fault::Html),
    Meeting::Fault(Fault::TooManyRequests(WaitForm::VendorForm(Duration::from_secs(2)))),
    Meeting::Fault(Fault::TooManyRequests(WaitForm::Seconds(125))),
    Meeting::Fault(Fault::KeyInUse),
];

const STRIPE: usize = 0;
const BIGCOMMERCE: usize = 1;

/// The points, in their order.
pub fn points(life: Life, vendor: usize, meeting: Meeting) -> Vec<Point> {
    let mut steps = match life {
        Life::Call => vec![Step::Claim],
        // The longest exchange of whoever died, and the settle time, are left to the schedule.
        Life::Sweep if vendor != STRIPE => vec![Step::TakeLapsed, Step::Schedule, Step::TakeDue],
        Life::Sweep => vec![Step::TakeLapsed],
        // By another process's clock the settle time is over, but clocks differ.
        Life::Redrive if vendor != STRIPE => {
            vec![Step::Redrive, Step::TakeDue, Step::Schedule, Step::TakeDue]
        }
        Life::Redrive => vec![Step::Redrive, Step::TakeDue],
    };
    steps.extend(match (life, vendor) {
        (Life::Call, _) => call(vendor, meeting),
        (_, STRIPE) => resent(meeting),
        _ => looked_up(vendor, meeting),
    });
    let first_request = steps.iter().position(|step| matches!(step, Step::Send | Step::Lookup));
    let mut points = Vec::new();
    for (at, step) in steps.into_iter().enumerate() {
        points.push(Point { moment: Moment::Before, step });
        if !(meeting.is_hang() && Some(at) == first_request) {
            points.push(Point { moment: Moment::After, step });
        }
    }
    points
}

/// A call that waits in memory for all that it can wait for.
fn call(vendor: usize, meeting: Meeting) -> Vec<Step> {
    use Step::{Bury, Lookup, Refuse, Renew, Resend, Schedule, Send, Succeed};

    let fault = match meeting {
        Meeting::Nothing => return vec![Send, Succeed],
        Meeting::No => return vec![Send, Refuse],
        Meeting::Fault(fault) => fault,
    };
    let then: &[Step] = match (fault, vendor) {
        (Fault::SlowBody(_), _) | (Fault::KeyInUse, BIGCOMMERCE..) => &[Succeed],
        (Fault::TooManyRequests(WaitForm::Seconds(_)), _) => &[Schedule],
        (Fault::TooManyRequests(_), _) => &[Renew, Resend, Succeed],
        // Stripe will say the same for a day: only a lookup can help.
        (Fault::Stored500, STRIPE) => &[Renew, Lookup, Bury],
        (_, STRIPE) => &[Renew, Resend, Succeed],
        // The settle time is longer than what is left of the lease.
        (fault, BIGCOMMERCE) if fault.applies() => &[Renew, Lookup, Succeed],
        (_, BIGCOMMERCE) => &[Renew, Lookup, Renew, Resend, Succeed],
        // And here it is not.
        (fault, _) if fault.applies() => &[Lookup, Succeed],
        (_, _) => &[Lookup, Renew, Lookup, Lookup, Bury],
    };
    // A request that hangs takes the lease's time, and the wait behind it a renewal.
    let hung = if meeting.is_hang() { vec![Renew] } else { vec![] };
    [&[Send][..], &hung, then].concat()
}

/// The steps of an operation that is taken over at the vendor that replays.
fn resent(meeting: Meeting) -> Vec<Step> {
    use Step::{Bury, Lookup, Renew, Resend, Schedule, Send, Succeed, TakeDue};

    // Whoever carries on has claimed nothing: its first send, too, takes a renewal.
    match meeting {
        Meeting::Fault(Fault::TooManyRequests(WaitForm::Seconds(_))) => {
            vec![Renew, Send, Schedule, TakeDue, Renew, Resend, Succeed]
        }
        // Sent again it would be answered with the same 500: whoever takes it up looks.
        Meeting::Fault(Fault::Stored500) => vec![Renew, Send, Schedule, TakeDue, Lookup, Bury],
        _ => [&[Renew][..], &call(STRIPE, meeting)].concat(),
    }
}

/// The steps of an operation that is taken over at a vendor that does not, once its settle time is over.
fn looked_up(vendor: usize, meeting: Meeting) -> Vec<Step> {
    use Step::{Bury, Lookup, Refuse, Renew, Schedule, Send, Succeed, TakeDue};

    // A lookup that failed is none: another one follows.
    let failed: &[Step] = match meeting {
        Meeting::Nothing | Meeting::No | Meeting::Fault(Fault::SlowBody(_) | Fault::KeyInUse) => &[],
        Meeting::Fault(Fault::TooManyRequests(WaitForm::Seconds(_))) => &[Lookup, Schedule, TakeDue],
        Meeting::Fault(Fault::Hang | Fault::HangAfterApply) => &[Lookup, Renew],
        Meeting::Fault(_) => &[Lookup],
    };
    let answered: &[Step] = match meeting {
        _ if meeting.was_applied() => &[Lookup, Succeed],
        Meeting::No if vendor == BIGCOMMERCE => &[Lookup, Renew, Send, Refuse],
        _ if vendor == BIGCOMMERCE => &[Lookup, Renew, Send, Succeed],
        // Three of them that cannot tell, a settle time apart.
        _ => &[Lookup, Schedule, TakeDue, Lookup, Schedule, TakeDue, Lookup, Bury],
    };
    [failed, answered].concat()
}
