//! A host of the search: the crate's own client, run again from what it has heard so far.
//!
//! The code under test awaits nothing but store, clock and network. Between two of these it is deterministic, so what
//! a host has heard *is* its state: a value that can be kept, compared and gone on from, which a future is not. To
//! take a host one step further, a new client is run from the start on everything that was heard before, and then hears
//! one thing more. Its questions to the store on the way must be what was asked before. No line of the engine is
//! written a second time here.
//!
//! A client remembers some things from one call to the next, and here it has none to remember: each run is the first of
//! its process. Of what it would remember,
//!
//! - recovery's rate only says when an operation is taken. The search takes it at every moment that matters anyway;
//! - the gates only say when a send leaves, and the search has none but the pause, for which no vendor of it asks;
//! - recent latency only says when a caller may ask again, which decides nothing here;
//! - what it measured of an operation that it let go of makes the settle time end earlier, so that without it the
//!   search waits for longer than a process does that takes its own again;
//! - the calls that wait for a holder are none, because a call that meets one is refused;
//! - what its two clocks said of each other when it began says whether its wall clock was set since, on which the
//!   settle time hangs. So it is part of the state too;
//! - the vendor's clock is written down with a claim, and decides which rows of a lookup are believed. So it is part
//!   of the state: a process that was [taught](teach) it knows it for as long as it lives, one that was not does not.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use parking_lot::Mutex;
use steadfast::BoxFuture;
use steadfast::clock::{Clock, Instant, Timestamp};
use steadfast::transport::{Answer, Limits, Request, SendError, SendErrorKind, Transport};
use steadfast::{Client, Disposition, Effect, Error};

use crate::states::shelf::{Shelf, Stored};

/// One thing that a host heard.
#[derive(Clone, Debug)]
pub enum Heard {
    /// It was woken.
    Woken(Wake),
    /// The store answered what it was asked.
    Store { asked: u64, stored: Arc<Stored> },
}

/// The moment at which a host goes on, and what came over the network.
#[derive(Clone, Debug)]
pub struct Wake {
    /// True time.
    pub now_ms: u64,
    /// By the host's own clock.
    pub wall: Timestamp,
    pub answer: Option<Result<Answer, SendErrorKind>>,
}

/// The work that a host has begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Doing {
    /// A caller waits for it.
    Call,
    /// Nobody does.
    Recovery,
}

/// The word that a caller was told.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Told {
    pub effect: Effect,
    pub disposition: Disposition,
    pub is_reply: bool,
}

/// How far a host came.
pub struct Came {
    pub heard: Vec<Heard>,
    pub shelf: Shelf,
    /// The exchange that it waits for: its number within this run, and its request.
    pub exchange: Option<(u32, Request)>,
    /// When it wants to be woken, in true time.
    pub alarms_ms: Vec<u64>,
    /// Whether it is done, and what its caller was told.
    pub ended: bool,
    pub told: Option<Told>,
}

/// The record of what passes between a client and the search.
#[derive(Default)]
pub struct Tape(pub Mutex<Inner>);

#[derive(Default)]
pub struct Inner {
    now_ms: u64,
    wall: Timestamp,
    answer: Option<Result<Answer, SendErrorKind>>,
    exchanges: u32,
    exchange: Option<(u32, Request)>,
    alarms_ms: Vec<u64>,
    wakers: Vec<Waker>,
    /// The answers that the store gave before, to be given again.
    pub before: std::collections::VecDeque<(u64, Arc<Stored>)>,
    /// The answers that the store gave in this step.
    pub heard: Vec<Heard>,
    pub shelf: Shelf,
}

impl Tape {
    pub fn begin(&self, before: &[Heard], shelf: Shelf) {
        let stored = before.iter().filter_map(|heard| match heard {
            Heard::Store { asked, stored } => Some((*asked, stored.clone())),
            Heard::Woken(_) => None,
        });
        *self.0.lock() = Inner { before: stored.collect(), shelf, ..Inner::default() };
    }

    pub fn wake(&self, wake: &Wake) {
        let mut inner = self.0.lock();
        (inner.now_ms, inner.wall, inner.answer) = (wake.now_ms, wake.wall, wake.answer.clone());
        // Whoever still waits says so again.
        inner.alarms_ms.clear();
        inner.exchange = None;
        let wakers = std::mem::take(&mut inner.wakers);
        drop(inner);
        wakers.into_iter().for_each(Waker::wake);
    }

    /// The shelf as it is now.
    pub fn shelf(&self) -> Shelf {
        self.0.lock().shelf.clone()
    }
}

/// Runs what a host does on from `before` by one wake more.
pub fn go_on(
    client: &Client,
    tape: &Arc<Tape>,
    (doing, call): (Doing, impl FnOnce() -> steadfast::Call),
    before: &[Heard],
    wake: Wake,
    shelf: Shelf,
) -> Came {
    tape.begin(before, shelf);
    let mut heard = before.to_vec();
    heard.push(Heard::Woken(wake));
    let wakes: Vec<&Wake> = heard
        .iter()
        .filter_map(|heard| if let Heard::Woken(wake) = heard { Some(wake) } else { None })
        .collect();
    tape.wake(wakes[0]);
    let (ended, told) = match doing {
        Doing::Call => {
            let mut sent: Pin<Box<dyn Future<Output = _>>> = Box::pin(call().send());
            let mut ended = None;
            for (number, wake) in wakes.iter().enumerate() {
                if number > 0 {
                    tape.wake(wake);
                }
                if let Poll::Ready(told) = sent.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
                    ended = Some(match told {
                        Ok(_) => {
                            Told { effect: Effect::Applied, disposition: Disposition::Ended, is_reply: true }
                        }
                        Err(error) => Told::of(&error),
                    });
                    break;
                }
            }
            (ended.is_some(), ended)
        }
        Doing::Recovery => (recover(client, tape, &wakes), None),
    };
    let mut inner = tape.0.lock();
    assert!(inner.before.is_empty(), "a host that hears the same does the same");
    heard.append(&mut inner.heard);
    Came {
        heard,
        shelf: std::mem::take(&mut inner.shelf),
        exchange: if ended { None } else { inner.exchange.take() },
        alarms_ms: if ended { Vec::new() } else { std::mem::take(&mut inner.alarms_ms) },
        ended,
        told,
    }
}

/// Has a client on the tape hear the vendor's clock in the answer to a call of another key, at the start of time.
pub fn teach(tape: &Arc<Tape>, wall: Timestamp, (other, answer): (steadfast::Call, Answer)) {
    tape.begin(&[], Shelf::default());
    tape.wake(&Wake { now_ms: 0, wall, answer: None });
    let mut sent: Pin<Box<dyn Future<Output = _>>> = Box::pin(other.send());
    let mut context = Context::from_waker(Waker::noop());
    assert!(sent.as_mut().poll(&mut context).is_pending(), "it waits for the vendor");
    tape.wake(&Wake { now_ms: 0, wall, answer: Some(Ok(answer)) });
    assert!(matches!(sent.as_mut().poll(&mut context), Poll::Ready(Ok(_))), "it is answered");
}

/// Recovery spawns tasks, so that it needs a runtime; one without timers.
fn recover(client: &Client, tape: &Arc<Tape>, wakes: &[&Wake]) -> bool {
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    let client = client.clone();
    let recovery = runtime.spawn(async move { client.recover(1).await });
    for (number, wake) in wakes.iter().enumerate() {
        if number > 0 {
            tape.wake(wake);
        }
        // As often as a task hands over to another, and back.
        runtime.block_on(async {
            for _ in 0..YIELDS {
                tokio::task::yield_now().await;
            }
        });
    }
    recovery.is_finished()
}

const YIELDS: usize = 8;

impl Told {
    fn of(error: &Error) -> Told {
        Told { effect: error.effect(), disposition: error.disposition(), is_reply: false }
    }
}

#[derive(Clone)]
pub struct HostClock(pub Arc<Tape>);

impl fmt::Debug for HostClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("HostClock")
    }
}

impl Clock for HostClock {
    fn now(&self) -> Instant {
        instant(self.0.0.lock().now_ms)
    }

    fn wall(&self) -> Timestamp {
        self.0.0.lock().wall
    }

    fn sleep_until(&self, at: Instant) -> BoxFuture<'static, ()> {
        let tape = self.0.clone();
        Box::pin(std::future::poll_fn(move |context| {
            let mut inner = tape.0.lock();
            if instant(inner.now_ms) >= at {
                return Poll::Ready(());
            }
            inner.alarms_ms.push(at.as_nanos().saturating_sub(START_NS).div_ceil(1_000_000));
            inner.wakers.push(context.waker().clone());
            Poll::Pending
        }))
    }
}

/// Monotonic time does not begin with a process.
const START_NS: u64 = 1_000_000_000;

fn instant(now_ms: u64) -> Instant {
    Instant::from_nanos(START_NS).plus(Duration::from_millis(now_ms))
}

/// The host's end of the network.
pub struct Wire(pub Arc<Tape>);

impl fmt::Debug for Wire {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Wire")
    }
}

impl Transport for Wire {
    fn send(&self, request: Request, _: Limits) -> BoxFuture<'_, Result<Answer, SendError>> {
        let number = {
            let mut inner = self.0.0.lock();
            inner.exchanges += 1;
            inner.exchanges
        };
        Box::pin(std::future::poll_fn(move |context| {
            let mut inner = self.0.0.lock();
            // An answer is for the exchange that was waited for, never for one that begins in the same step.
            if let Some(answer) = inner.answer.take() {
                return Poll::Ready(answer.map_err(SendError::new));
            }
            inner.exchange = Some((number, request.clone()));
            inner.wakers.push(context.waker().clone());
            Poll::Pending
        }))
    }

    fn queue_max(&self, _: &url::Url) -> Duration {
        Duration::ZERO
    }
}
