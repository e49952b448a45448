//! Sequences, on a store in memory: one line of operations, and what is done to them.

use std::time::Duration;

use steadfast::operation::record::{Act, Action, Claim, Claimed, Phase, Resolution, State, Takeover};
use steadfast::store::{Memory, Store};
use steadfast::{Effect, Reason, Sequence};

use crate::guards::life::{LEASE, at, says, wanted};
use crate::guards::wait;

/// `a`, and behind it `b`; all is due, and nothing is done yet.
struct Line(Memory);

impl Line {
    fn of_two() -> Line {
        let line = Line(Memory::new());
        for key in ["a", "b"] {
            let sequence = Some(Sequence::new("s"));
            let claimed = wait(line.0.claim(Claim { due: Some(at(0)), sequence, ..wanted(key, 0) }));
            assert!(matches!(claimed, Ok(Claimed::Fresh(_))), "{claimed:?}");
        }
        line
    }

    /// The keys of what is taken, each in a word.
    fn take(&self) -> String {
        let take = Takeover {
            phase: Phase::Scheduled,
            account: None,
            now: at(0),
            lease: LEASE,
            attempt_max: LEASE,
            vendor_clock_ms: None,
            holder: None,
            limit: 9,
            wanted: steadfast::operation::record::Wanted::default(),
        };
        let taken = wait(self.0.take(take)).expect("works");
        taken.iter().map(|record| record.id.key.as_str().to_owned()).collect()
    }

    fn says(&self, key: &str, to: State) {
        let held = wait(self.0.get(&wanted(key, 0).id)).expect("works").expect("on record");
        let said = wait(self.0.transition(&held, says(held.fence, 0, Effect::None, to)));
        said.expect("works").expect("its holder says so");
    }

    fn acted(&self, key: &str, action: Action) {
        let act = Act { action, by: "ada".to_owned(), why: "a proof".to_owned(), now: at(0), fence: None };
        wait(self.0.act(&wanted(key, 0).id, act)).expect("works").expect("allowed");
    }
}

const DEAD: State = State::Dead { reason: Reason::Exhausted, answer: None };

pub fn a_claim_does_not_jump_the_queue() -> bool {
    let line = Line::of_two();
    matches!(wait(line.0.claim(wanted("b", 0))), Ok(Claimed::Busy { .. }))
}

pub fn what_is_redriven_waits_for_the_one_that_is_being_sent() -> bool {
    let line = Line::of_two();
    line.take();
    line.says("a", DEAD);
    line.acted("a", Action::Resolve(Resolution::NotApplied));
    let second = line.take();
    line.acted("a", Action::Redrive { forced: false });
    (second.as_str(), line.take().as_str()) == ("b", "")
}

pub fn nothing_goes_past_a_dead_letter() -> bool {
    let line = Line::of_two();
    line.take();
    line.says("a", DEAD);
    line.take().is_empty()
}

pub fn nothing_goes_past_a_retry() -> bool {
    let line = Line::of_two();
    line.take();
    line.says("a", State::Scheduled { at: at(0).plus(Duration::from_secs(60)) });
    line.take().is_empty()
}
