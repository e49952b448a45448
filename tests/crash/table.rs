//! Which points a process passes, by the part of an operation's life that it works on, by vendor, and by what it
//! meets there: the exact sequence. Every step of it is a pair of cells, one death before and one after.
//!
//! A cell that is not here cannot be reached, for one of these reasons:
//!
//! - A process that calls takes and redrives nothing, and one that recovers claims nothing.
//! - Nobody resends or looks up after a clear answer; nobody refuses, schedules or buries after another outcome
//!   than the one that calls for it.
//! - Only Stripe replays: what may have taken effect is resent there, and looked up at the others. Only a look-up
//!   that answers that there is nothing is followed by a send, and not at Postmark, where a miss is no proof.
//! - Before any send but the first of a claim, the lease is renewed.
//! - What hangs never answers: there is no *after* the send or the look-up.
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
    /// The redrive of a dead letter whose attempts all failed with 500.
    Redrive,
}

impl Life {
    pub const ALL: [Life; 3] = [Life::Call, Life::Sweep, Life::Redrive];
}

/// What a process's first request meets at the vendor's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Meeting {
    Nothing,
    /// The vendor refuses the operation on its merits.
    No,
    Fault(Fault),
}

impl Meeting {
    pub const fn is_hang(self) -> bool {
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

    /// Whether a wait is asked for that the call has no time for.
    pub const fn is_postponed(self) -> bool {
        matches!(self, Meeting::Fault(Fault::TooManyRequests(WaitForm::Seconds(_))))
    }
}

/// Every fault of the testkit, a long wait besides the short one, and none.
pub const MEETINGS: [Meeting; 17] = [
    Meeting::Nothing,
    Meeting::No,
    Meeting::Fault(Fault::DropBeforeRead),
    Meeting::Fault(Fault::DropAfterApply),
    Meeting::Fault(Fault::Reset),
    Meeting::Fault(Fault::ResetAfterApply),
    Meeting::Fault(Fault::Hang),
    Meeting::Fault(Fault::HangAfterApply),
    Meeting::Fault(Fault::SlowBody(Duration::from_millis(40))),
    Meeting::Fault(Fault::TruncatedBody),
    Meeting::Fault(Fault::Error500Before),
    Meeting::Fault(Fault::Error500After),
    Meeting::Fault(Fault::Stored500),
    Meeting::Fault(Fault::Html),
    Meeting::Fault(Fault::TooManyRequests(WaitForm::VendorForm(Duration::from_millis(40)))),
    Meeting::Fault(Fault::TooManyRequests(WaitForm::Seconds(1))),
    Meeting::Fault(Fault::KeyInUse),
];

const STRIPE: usize = 0;
const BIGCOMMERCE: usize = 1;

/// The points, in their order.
pub fn points(life: Life, vendor: usize, meeting: Meeting) -> Vec<Point> {
    let steps = match life {
        Life::Call => [&[Step::Claim][..], call(vendor, meeting)].concat(),
        // The longest exchange of whoever died, and the settle time, are more than a call's whole time here.
        Life::Sweep if vendor != STRIPE && meeting.is_postponed() => {
            vec![Step::TakeLapsed, Step::Schedule, Step::TakeDue]
        }
        Life::Sweep => [&[Step::TakeLapsed][..], &carry_on(vendor, meeting), &[Step::TakeDue]].concat(),
        Life::Redrive => {
            let opening = [Step::Redrive, Step::TakeLapsed, Step::TakeDue];
            let mut steps = carry_on(vendor, meeting);
            if steps.starts_with(&[Step::Renew, Step::LookUp]) {
                // The settle time is over, and on record: there is no wait that a renewal has to cover.
                steps.remove(0);
            }
            [&opening[..], &steps].concat()
        }
    };
    let first_request = steps.iter().position(|step| matches!(step, Step::Send | Step::LookUp));
    let mut points = Vec::new();
    for (at, step) in steps.into_iter().enumerate() {
        points.push(Point { moment: Moment::Before, step });
        if !(meeting.is_hang() && Some(at) == first_request) {
            points.push(Point { moment: Moment::After, step });
        }
    }
    points
}

fn call(vendor: usize, meeting: Meeting) -> &'static [Step] {
    use Step::{Bury, LookUp, Refuse, Renew, Resend, Schedule, Send, Succeed};

    let fault = match meeting {
        Meeting::Nothing => return &[Send, Succeed],
        Meeting::No => return &[Send, Refuse],
        Meeting::Fault(fault) => fault,
    };
    match (fault, vendor) {
        (Fault::SlowBody(_), _) => &[Send, Succeed],
        (Fault::KeyInUse, BIGCOMMERCE..) => &[Send, Succeed],
        (Fault::TooManyRequests(WaitForm::Seconds(_)), _) => &[Send, Schedule],
        (Fault::TooManyRequests(_), _) => &[Send, Renew, Renew, Resend, Succeed],
        // Stripe will say the same for a day: only a look-up can help.
        (Fault::Stored500, STRIPE) => &[Send, Renew, LookUp, Bury],
        (_, STRIPE) => &[Send, Renew, Renew, Resend, Succeed],
        (fault, _) if fault.applies() => &[Send, Renew, LookUp, Succeed],
        (_, BIGCOMMERCE) => &[Send, Renew, LookUp, Renew, Resend, Succeed],
        (_, _) => &[Send, Renew, LookUp, Bury],
    }
}

fn carry_on(vendor: usize, meeting: Meeting) -> Vec<Step> {
    use Step::{Bury, LookUp, Refuse, Renew, Send, Succeed};

    if vendor == STRIPE {
        // Whoever carries on has claimed nothing: its first send, too, takes a renewal.
        return [&[Renew][..], call(STRIPE, meeting)].concat();
    }
    let is_clear = match meeting {
        Meeting::Nothing | Meeting::No => true,
        Meeting::Fault(fault) => matches!(fault, Fault::SlowBody(_) | Fault::KeyInUse),
    };
    match (is_clear, meeting) {
        (false, _) => vec![Renew, LookUp, Bury],
        (true, Meeting::No) if vendor == BIGCOMMERCE => vec![Renew, LookUp, Renew, Send, Refuse],
        (true, Meeting::No) => vec![Renew, LookUp, Bury],
        (true, _) if meeting.was_applied() => vec![Renew, LookUp, Succeed],
        (true, _) if vendor == BIGCOMMERCE => vec![Renew, LookUp, Renew, Send, Succeed],
        (true, _) => vec![Renew, LookUp, Bury],
    }
}
