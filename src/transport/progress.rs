//! [`Progress`]: how far an exchange has got, told by the transport and asked by the engine.
//!
//! When time runs out, the engine drops the exchange. A request that was still waiting for its connection has no
//! effect; one whose first byte may have left has an unknown effect. Only the transport can tell them apart, and it
//! may be in the middle of sending on another thread. So the two sides do not read a flag: they decide one atomic
//! step, and the side that comes second obeys.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

/// How far one exchange has got: what is behind [`Limits`](super::Limits). Cheap to clone; clones are the same exchange.
#[derive(Clone, Debug, Default)]
pub(crate) struct Progress {
    /// `None`: no side asks.
    stage: Option<Arc<AtomicU8>>,
}

impl Progress {
    /// The progress of an exchange that is about to begin.
    pub(crate) fn new() -> Progress {
        Progress { stage: Some(Arc::new(AtomicU8::new(MAY_HAVE_LEFT))) }
    }

    /// For an exchange whose progress is not asked for: it may always send, and has always perhaps sent. It allocates
    /// nothing.
    pub(crate) const fn unwatched() -> Progress {
        Progress { stage: None }
    }

    /// For transports: nothing of the request has left, and nothing leaves before
    /// [`begin_sending`](Progress::begin_sending) has said `true`.
    ///
    /// It changes nothing after the first byte may have left, or after the caller gave up.
    pub(crate) fn nothing_sent(&self) {
        if let Some(stage) = &self.stage {
            let fresh = stage.compare_exchange(MAY_HAVE_LEFT, WAITING, Ordering::AcqRel, Ordering::Acquire);
            debug_assert!(fresh != Err(SENDING), "a transport says this first, and once");
        }
    }

    /// For transports: the first byte is about to leave. `false` means that the caller gave up and nothing may
    /// leave. May be called more than once.
    #[must_use = "on `false` nothing may be sent"]
    pub(crate) fn begin_sending(&self) -> bool {
        let Some(stage) = &self.stage else { return true };
        match stage.compare_exchange(WAITING, SENDING, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => true,
            Err(stage) => stage != GIVEN_UP,
        }
    }

    /// For the side that drops the exchange: gives it up. `true` means that nothing of the request has left, and that
    /// nothing will.
    pub(crate) fn give_up(&self) -> bool {
        let Some(stage) = &self.stage else { return false };
        match stage.compare_exchange(WAITING, GIVEN_UP, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => true,
            Err(stage) => stage == GIVEN_UP,
        }
    }
}

/// The transport has not said anything. The safe side.
const MAY_HAVE_LEFT: u8 = 0;
/// Nothing has left.
const WAITING: u8 = 1;
/// The first byte may have left.
const SENDING: u8 = 2;
/// Nothing has left, and nothing may.
const GIVEN_UP: u8 = 3;

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    #[test]
    fn a_transport_that_never_says_anything_may_have_sent() {
        for progress in [Progress::new(), Progress::unwatched(), Progress::default()] {
            assert!(!progress.give_up());
            assert!(progress.begin_sending());
            assert!(!progress.give_up());
        }
    }

    #[test]
    fn what_was_given_up_is_never_sent_and_stays_so() {
        let progress = Progress::new();
        progress.nothing_sent();
        let transport = progress.clone();
        assert!(progress.give_up());
        transport.nothing_sent();
        assert!(!transport.begin_sending());
        assert!(!transport.begin_sending());
        assert!(progress.give_up());
    }

    #[test]
    fn an_exchange_that_nobody_watches_is_never_known_to_have_stayed() {
        let progress = Progress::unwatched();
        progress.nothing_sent();
        assert!(!progress.give_up());
        assert!(progress.begin_sending());
    }

    #[test]
    fn of_giving_up_and_sending_at_the_same_moment_exactly_one_happens() {
        for _ in 0..2_000 {
            let progress = Progress::new();
            progress.nothing_sent();
            let transport = progress.clone();
            let sending = thread::spawn(move || transport.begin_sending());
            let given_up = progress.give_up();
            let sent = sending.join().expect("no panic");
            assert_ne!(sent, given_up);
        }
    }
}
