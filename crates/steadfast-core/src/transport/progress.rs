//! [`Progress`]: the progress of an exchange, reported by the transport and read by the engine.
//!
//! When time runs out, the engine drops the exchange. A request that was still waiting for its connection has no
//! effect; one whose first byte may have left has an unknown effect. Only the transport can distinguish them, and it
//! may be in the middle of sending on another thread. So the two sides do not read a flag: they decide one atomic step,
//! and the side that comes second obeys.
//!
//! A layer below may hold the request long after its exchange was dropped: a connection of HTTP/2 keeps it until a
//! stream is free. So a request that was given up stays given up, and a later poll for any of it is refused. An
//! exchange that is dropped with its call, before its time is over, gives it up too.
//!
//! A timer does not run while the host sleeps: a machine that was suspended as it connected would send hours later what
//! another process has carried on with. So the side that sends asks the wall clock too, at the last moment.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use crate::clock::{Clock, Timestamp};
use crate::guard::Guard;

/// Progress of one exchange: the state behind [`Limits`](super::Limits). Cheap to clone; clones are the same exchange.
#[derive(Clone, Debug, Default)]
pub struct Progress {
    /// `None`: no side asks.
    shared: Option<Arc<Shared>>,
}

#[derive(Debug)]
struct Shared {
    stage: AtomicU8,
    /// Time by the wall clock after which nothing leaves.
    until: Option<(Arc<dyn Clock>, Timestamp)>,
}

impl Shared {
    /// Moves on from [`WAITING`]; else gives the stage that it is at.
    fn leave_waiting(&self, to: u8) -> Result<u8, u8> {
        self.stage.compare_exchange(WAITING, to, Ordering::AcqRel, Ordering::Acquire)
    }

    fn is_too_late(&self) -> bool {
        self.until.as_ref().is_some_and(|(clock, until)| clock.wall() > *until)
    }
}

impl Progress {
    /// The progress of an exchange that is about to begin.
    pub fn new() -> Progress {
        Progress::with(None)
    }

    /// Creates the progress of an exchange that may not begin to send after `until`, by the wall clock.
    pub fn until(clock: Arc<dyn Clock>, until: Timestamp) -> Progress {
        Progress::with(Some((clock, until)))
    }

    fn with(until: Option<(Arc<dyn Clock>, Timestamp)>) -> Progress {
        Progress { shared: Some(Arc::new(Shared { stage: AtomicU8::new(MAY_HAVE_LEFT), until })) }
    }

    /// Creates the progress of an exchange that is not watched: it may always send, and has always perhaps sent. It
    /// allocates nothing.
    pub const fn unwatched() -> Progress {
        Progress { shared: None }
    }

    /// Reports, for transports, that nothing of the request has left, and that nothing leaves before
    /// [`begin_sending`](Progress::begin_sending) has returned `true`.
    ///
    /// It changes nothing after the first byte may have left, or after the caller gave up.
    pub fn nothing_sent(&self) {
        if let Some(Shared { stage, .. }) = self.shared.as_deref() {
            let fresh = stage.compare_exchange(MAY_HAVE_LEFT, WAITING, Ordering::AcqRel, Ordering::Acquire);
            debug_assert!(fresh != Err(SENDING), "a transport says this first, and once");
        }
    }

    /// Asks, for transports, for permission to send: the first byte is about to leave. `false` means that the caller
    /// gave up, or that it is too late, and nothing may leave. May be called more than once.
    #[must_use = "on `false` nothing may be sent"]
    pub fn begin_sending(&self) -> bool {
        let Some(shared) = &self.shared else { return true };
        let is_waiting = shared.stage.load(Ordering::Acquire) == WAITING;
        if Guard::WallAtFirstByte.keeps(is_waiting && shared.is_too_late()) && self.give_up() {
            return false;
        }
        match shared.leave_waiting(SENDING) {
            Ok(_) => true,
            Err(stage) => Guard::GivenUpStays.is_out() || !matches!(stage, GIVEN_UP | CUT_OFF),
        }
    }

    /// Gives the exchange up, for the side that drops it, so that no more of the request leaves. `true` means that
    /// nothing of it has.
    pub fn give_up(&self) -> bool {
        let Some(shared) = &self.shared else { return false };
        match shared.leave_waiting(GIVEN_UP) {
            Ok(_) | Err(GIVEN_UP) => true,
            Err(_) => {
                shared.stage.store(CUT_OFF, Ordering::Release);
                false
            }
        }
    }

    /// Gives the exchange up when the guard is dropped, unless it is [over](Exchange::over) by then.
    pub const fn until_over(&self) -> Exchange<'_> {
        Exchange(Some(self))
    }
}

/// An exchange that is under way.
#[must_use = "an exchange that is dropped at once is given up"]
pub struct Exchange<'a>(Option<&'a Progress>);

impl Exchange<'_> {
    /// Ends it: there is nothing to give up any more.
    pub fn over(mut self) {
        self.0 = None;
    }
}

impl Drop for Exchange<'_> {
    fn drop(&mut self) {
        if let Some(progress) = self.0 {
            progress.give_up();
        }
    }
}

/// The transport has not reported anything. The safe side.
const MAY_HAVE_LEFT: u8 = 0;
/// Nothing has left.
const WAITING: u8 = 1;
/// The first byte may have left.
const SENDING: u8 = 2;
/// Nothing has left, and nothing may.
const GIVEN_UP: u8 = 3;
/// Something may have left, and no more of it may.
const CUT_OFF: u8 = 4;

#[cfg(test)]
mod tests {
    use std::thread;
    use std::time::Duration;

    use super::*;
    use crate::test_clock::TestClock;

    #[test]
    fn a_transport_without_reports_may_have_sent() {
        for progress in [Progress::new(), Progress::unwatched(), Progress::default()] {
            assert!(progress.begin_sending());
            assert!(!progress.give_up());
        }
    }

    #[test]
    fn an_exchange_that_was_cut_off_sends_no_more() {
        let (silent, sending, waiting) = (Progress::new(), Progress::new(), Progress::new());
        sending.nothing_sent();
        assert!(sending.begin_sending());
        assert!(!silent.give_up() && !sending.give_up());
        silent.nothing_sent();
        assert!(!silent.begin_sending() && !sending.begin_sending());
        assert!(!silent.give_up() && !sending.give_up(), "it may have left");
        waiting.nothing_sent();
        waiting.until_over().over();
        drop(waiting.until_over());
        assert!(!waiting.begin_sending() && waiting.give_up(), "its call is gone");
    }

    #[test]
    fn a_request_that_was_given_up_is_never_sent() {
        let progress = Progress::new();
        progress.nothing_sent();
        let transport = progress.clone();
        assert!(progress.give_up());
        transport.nothing_sent();
        assert!(!transport.begin_sending());
        assert!(!transport.begin_sending());
        assert!(progress.give_up());
    }

    /// A host that slept while it connected.
    #[test]
    fn nothing_leaves_once_it_is_too_late_by_the_wall_clock() {
        let clock = TestClock::new();
        let until = clock.wall().plus(Duration::from_secs(30));
        let progress = || Progress::until(Arc::new(clock.clone()), until);
        let (sent, waiting, silent) = (progress(), progress(), progress());
        sent.nothing_sent();
        waiting.nothing_sent();
        clock.jump_wall(Duration::from_secs(30));
        assert!(sent.begin_sending(), "at the last moment");
        clock.jump_wall(Duration::from_millis(1));
        assert!(sent.begin_sending() && !sent.give_up(), "it has begun");
        assert!(!waiting.begin_sending() && waiting.give_up(), "nothing has left, and nothing does");
        assert!(silent.begin_sending() && !silent.give_up(), "it may have left");
    }

    #[test]
    fn an_unwatched_exchange_may_always_have_left() {
        let progress = Progress::unwatched();
        progress.nothing_sent();
        assert!(!progress.give_up());
        assert!(progress.begin_sending());
    }

    #[test]
    fn exactly_one_of_giving_up_and_sending_happens() {
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
