//! A clock under the test's control.
//!
//! Why not `tokio::time::pause`: it is the whole runtime's, so it also advances while a real socket is waited for, and
//! every answer that takes real time becomes a timeout. It has no wall time either, and a lease or a vendor's replay
//! window is wall time. Here the two ends of waiting are separate: only a wait with nothing else to do
//! ([`Clock::sleep_until`]) may move time, a limit on something under way ([`Clock::limit_until`]) never does.

use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::BoxFuture;
use crate::clock::{Clock, Instant, Timestamp};

/// Virtual time: it stands still until the test moves it ([`new`](TestClock::new)) or until a task waits
/// ([`auto`](TestClock::auto)).
///
/// Monotonic time starts at the clock's origin, wall time at [`TestClock::START`]. A clone is the same clock.
///
/// ```
/// use std::time::Duration;
/// use steadfast::clock::Clock;
/// use steadfast::testkit::TestClock;
///
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// let clock = TestClock::auto();
/// clock.sleep_until(clock.now().plus(Duration::from_secs(3600))).await; // takes no time
/// assert_eq!(clock.slept(), [Duration::from_secs(3600)]);
/// assert_eq!(clock.wall(), TestClock::START.plus(Duration::from_secs(3600)));
/// # });
/// ```
#[derive(Clone)]
pub struct TestClock(Arc<Shared>);

struct Shared {
    auto: bool,
    state: Mutex<State>,
    changed: Notify,
}

struct State {
    now: Instant,
    /// Wall time was this when monotonic time was that.
    wall_anchor: (Timestamp, Instant),
    timers: BTreeMap<u64, Timer>,
    timers_ever: u64,
    /// Counts what shows that another task makes progress: timers that come or go, time that moves.
    events: u64,
    slept: Vec<Duration>,
}

struct Timer {
    at: Instant,
    kind: Kind,
    waker: Waker,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// A wait of the code under test.
    Sleep,
    /// A wait of the simulated world: moves time like a sleep, but is none of the code under test.
    Latency,
    Limit,
    /// A limit on an answer over a socket: it takes real time, so that no sleep moves time meanwhile.
    SocketLimit,
}

impl Kind {
    const fn is_limit(self) -> bool {
        matches!(self, Kind::Limit | Kind::SocketLimit)
    }
}

impl TestClock {
    /// Start of wall time: Thu, 01 Jan 2026 00:00:00 GMT.
    pub const START: Timestamp = Timestamp::from_millis(1_767_225_600_000);

    /// A clock that stands still until [`advance`](TestClock::advance).
    pub fn new() -> TestClock {
        TestClock::with(false)
    }

    /// A clock that jumps when a task waits.
    ///
    /// A polled [`sleep_until`](Clock::sleep_until) first lets all other tasks run a few rounds. If no timer came or
    /// went meanwhile, time jumps to the *earliest* deadline of all sleeps and limits. If a limit ends before the
    /// sleep does, the limit fires first, at its exact time. A [`limit_until`](Clock::limit_until) alone never moves
    /// time, so an answer over a real socket may take as long as it takes.
    ///
    /// While a call waits for an answer over [`Http`](crate::transport::Http), a sleep of another task moves no time: the
    /// dispatcher's would be the call's timeout. It does after 5 s without an answer in real time, or while a
    /// [`latency`](TestClock::latency) is under way: then the other side waits on this clock. A task that waits for
    /// another socket is not seen.
    pub fn auto() -> TestClock {
        TestClock::with(true)
    }

    fn with(auto: bool) -> TestClock {
        let state = State {
            now: Instant::ORIGIN,
            wall_anchor: (TestClock::START, Instant::ORIGIN),
            timers: BTreeMap::new(),
            timers_ever: 0,
            events: 0,
            slept: Vec::new(),
        };
        TestClock(Arc::new(Shared { auto, state: Mutex::new(state), changed: Notify::new() }))
    }

    /// Moves monotonic and wall time by `by`, at once, and wakes what is due. A task that waits twice needs
    /// two calls: its second wait starts at the time it is woken at.
    pub fn advance(&self, by: Duration) {
        let due = {
            let mut state = self.0.state.lock();
            let to = state.now.plus(by);
            state.move_to(to)
        };
        self.wake(due);
    }

    /// Moves time to the earliest deadline of all, sleeps, latencies and limits alike, and wakes what is due. Returns
    /// true if there was one.
    ///
    /// For a simulation on one thread, which knows when no task has anything left to do: exact where the rounds of an
    /// [`auto`](TestClock::auto) clock are a guess, and cheaper. With tokio, `Builder::on_thread_park` is that
    /// moment:
    ///
    /// ```
    /// use std::time::Duration;
    /// use steadfast::clock::Clock;
    /// use steadfast::testkit::TestClock;
    ///
    /// let clock = TestClock::new();
    /// let stepped = clock.clone();
    /// let runtime = tokio::runtime::Builder::new_current_thread()
    ///     .on_thread_park(move || drop(stepped.step()))
    ///     .build()
    ///     .unwrap();
    /// runtime.block_on(clock.sleep_until(clock.now().plus(Duration::from_secs(3600)))); // takes no time
    /// ```
    pub fn step(&self) -> bool {
        let due = {
            let mut state = self.0.state.lock();
            let Some(to) = state.earliest() else { return false };
            state.move_to(to)
        };
        self.wake(due);
        true
    }

    /// Sets wall time alone, forward or back, as an operator or NTP does. Wakes nothing.
    pub fn set_wall(&self, wall: Timestamp) {
        let mut state = self.0.state.lock();
        state.wall_anchor = (wall, state.now);
    }

    /// Moves wall time alone forward by `by`; for back, [`set_wall`](TestClock::set_wall). Wakes nothing.
    pub fn jump_wall(&self, by: Duration) {
        let mut state = self.0.state.lock();
        state.wall_anchor = (state.wall().plus(by), state.now);
    }

    /// Each wait that the code under test asked for, in the order in which they began: exactly what its backoff
    /// decided on, also if the wait was cut short. Waits of zero are among them; limits and
    /// [latencies](TestClock::latency) are not.
    pub fn slept(&self) -> Vec<Duration> {
        self.0.state.lock().slept.clone()
    }

    /// Returns the number of sleeps and latencies that are under way: polled, not yet due, not dropped.
    pub fn sleeping(&self) -> usize {
        self.0.state.lock().sleepers().count()
    }

    /// Completes when at least `count` sleeps or latencies are under way. With it a test of a manual clock
    /// knows that the code under test has come to its wait, and may [`advance`](TestClock::advance).
    ///
    /// # Cancellation safety
    ///
    /// Safe: it only looks.
    pub async fn until_sleeping(&self, count: usize) {
        loop {
            let mut changed = pin!(self.0.changed.notified());
            changed.as_mut().enable();
            if self.sleeping() >= count {
                return;
            }
            changed.await;
        }
    }

    /// Completes after `by`: time that the other side takes, such as a slow vendor. Moves an
    /// [`auto`](TestClock::auto) clock like a sleep, but is not among [`slept`](TestClock::slept).
    ///
    /// `Duration::MAX` never completes; an auto clock then moves on to the next wait that is due, which is how a
    /// vendor that hangs meets the caller's timeout without real waiting.
    pub fn latency(&self, by: Duration) -> BoxFuture<'static, ()> {
        let at = self.now().plus(by);
        self.wait(at, Kind::Latency)
    }

    fn wait(&self, at: Instant, kind: Kind) -> BoxFuture<'static, ()> {
        let clock = self.clone();
        let (id, begun, rounds, events_seen, held_since) = (None, false, 0, 0, None);
        Box::pin(Wait { clock, at, kind, id, begun, rounds, events_seen, held_since })
    }

    /// Outside the lock: a waker may run anything.
    fn wake(&self, wakers: Vec<Waker>) {
        for waker in wakers {
            waker.wake();
        }
        self.0.changed.notify_waiters();
    }
}

impl Default for TestClock {
    fn default() -> TestClock {
        TestClock::new()
    }
}

impl Clock for TestClock {
    fn now(&self) -> Instant {
        self.0.state.lock().now
    }

    fn wall(&self) -> Timestamp {
        self.0.state.lock().wall()
    }

    fn sleep_until(&self, at: Instant) -> BoxFuture<'static, ()> {
        self.wait(at, Kind::Sleep)
    }

    fn limit_until(&self, at: Instant) -> BoxFuture<'static, ()> {
        self.wait(at, Kind::Limit)
    }

    fn socket_limit_until(&self, at: Instant) -> BoxFuture<'static, ()> {
        self.wait(at, Kind::SocketLimit)
    }
}

impl fmt::Debug for TestClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.0.state.lock();
        f.debug_struct("TestClock")
            .field("auto", &self.0.auto)
            .field("now", &state.now)
            .field("wall", &state.wall())
            .field("timers", &state.timers.len())
            .finish()
    }
}

impl State {
    /// Whole milliseconds, rounded down as a real clock's are.
    fn wall(&self) -> Timestamp {
        let (wall, at) = self.wall_anchor;
        let millis = u64::try_from(self.now.since(at).as_millis()).unwrap_or(u64::MAX);
        wall.plus(Duration::from_millis(millis))
    }

    fn sleepers(&self) -> impl Iterator<Item = &Timer> {
        self.timers.values().filter(|timer| !timer.kind.is_limit())
    }

    /// Whether an answer over a socket is on its way, and the other side does not wait on this clock.
    fn is_held_by_a_socket(&self) -> bool {
        let has = |kind: Kind| self.timers.values().any(|timer| timer.kind == kind);
        has(Kind::SocketLimit) && !has(Kind::Latency)
    }

    /// Moves monotonic time and returns the wakers to call.
    fn move_to(&mut self, to: Instant) -> Vec<Waker> {
        self.now = self.now.max(to);
        self.events += 1;
        let now = self.now;
        let due = self.timers.extract_if(.., |_, timer| timer.at <= now);
        due.map(|(_, timer)| timer.waker).collect()
    }

    fn earliest(&self) -> Option<Instant> {
        self.timers.values().map(|timer| timer.at).filter(|at| *at != NEVER).min()
    }
}

/// Future of one timer. Registers itself at its first poll, and takes itself out when dropped.
struct Wait {
    clock: TestClock,
    at: Instant,
    kind: Kind,
    id: Option<u64>,
    begun: bool,
    /// Number of rounds that it has let the others run since the last event.
    rounds: u32,
    events_seen: u64,
    /// Time since which a socket has held it, in real time.
    held_since: Option<std::time::Instant>,
}

impl Future for Wait {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let wait = &mut *self;
        let shared = Arc::clone(&wait.clock.0);
        let mut state = shared.state.lock();
        if !wait.begun {
            wait.begun = true;
            if wait.kind == Kind::Sleep {
                let duration = wait.at.since(state.now);
                state.slept.push(duration);
            }
        }
        if state.now >= wait.at && wait.at != NEVER {
            let timer = wait.unregister(&mut state);
            drop(state);
            drop(timer);
            return Poll::Ready(());
        }
        let replaced = wait.register(&mut state, context.waker());
        let mut wake = Vec::new();
        if shared.auto && replaced.is_none() {
            // New: sleepers that let the others run, or found nothing to jump to, look again.
            wake.extend(state.sleepers().map(|timer| timer.waker.clone()));
        }
        if shared.auto && !wait.kind.is_limit() {
            if wait.events_seen != state.events {
                wait.events_seen = state.events;
                wait.rounds = 0;
                wait.held_since = None;
            }
            if wait.rounds < ROUNDS {
                wait.rounds += 1;
                wake.push(context.waker().clone());
            } else if wait.kind == Kind::Sleep && state.is_held_by_a_socket() && wait.is_patient() {
                wake.push(context.waker().clone());
                // The other side may be a thread that wants this core.
                std::thread::yield_now();
            } else if let Some(at) = state.earliest() {
                // This sleep wakes again in any case: it is due, or it lets the others run and jumps on.
                wake.push(context.waker().clone());
                wake.extend(state.move_to(at));
            }
        }
        drop(state);
        drop(replaced);
        wait.clock.wake(wake);
        Poll::Pending
    }
}

impl Wait {
    #[allow(clippy::disallowed_methods, reason = "a socket takes real time")]
    fn is_patient(&mut self) -> bool {
        self.held_since.get_or_insert_with(std::time::Instant::now).elapsed() < SOCKET_PATIENCE
    }

    /// Gives the waker that it replaces, to be dropped outside the lock: dropping a waker may run anything.
    fn register(&mut self, state: &mut State, waker: &Waker) -> Option<Waker> {
        if let Some(timer) = self.id.and_then(|id| state.timers.get_mut(&id)) {
            return Some(std::mem::replace(&mut timer.waker, waker.clone()));
        }
        let id = state.timers_ever;
        state.timers_ever += 1;
        state.events += 1;
        state.timers.insert(id, Timer { at: self.at, kind: self.kind, waker: waker.clone() });
        self.id = Some(id);
        None
    }

    /// Gives what it took out, to be dropped outside the lock.
    fn unregister(&mut self, state: &mut State) -> Option<Timer> {
        let timer = state.timers.remove(&self.id.take()?);
        state.events += 1;
        timer
    }
}

impl Drop for Wait {
    fn drop(&mut self) {
        let shared = Arc::clone(&self.clock.0);
        let timer = self.unregister(&mut shared.state.lock());
        drop(timer);
    }
}

/// The far end of time: what [`Instant::plus`] gives when it overflows. Such a deadline never comes.
const NEVER: Instant = Instant::from_nanos(u64::MAX);

/// Number of rounds that a sleep lets the others run before time jumps. A chain of tasks that hand work to each other
/// needs one round a link, and the longest in this crate has few. But tokio's runtime of one thread polls the future of
/// its `block_on` once in 61 polls of tasks (`event_interval`). With fewer rounds than that, a single task that sleeps
/// moves time several times before the test itself, which was woken, gets to run.
const ROUNDS: u32 = 64;

/// Time for which an answer over a socket is waited for before time moves on: far above what one takes, also on a busy
/// machine.
const SOCKET_PATIENCE: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests;
