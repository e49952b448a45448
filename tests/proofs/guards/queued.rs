//! The guards of what is left to dispatchers, on a store in memory: times, cancellations, turns, and processes that
//! stop.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use http::{HeaderMap, StatusCode};
use steadfast::BoxFuture;
use steadfast::dispatcher::{Dispatcher, PERIOD};
use steadfast::operation::record::{Action, Claim, Claimed, Declined, Forbidden, Record, State, Transition};
use steadfast::policy::Timeouts;
use steadfast::store::{Memory, Store, StoreError, Wrapper};
use steadfast::testkit::{FixedRandom, ScriptedTransport, TestClock};
use steadfast::transport::{Answer, Limits, Request, SendError, SendErrorKind, Transport};
use steadfast::vendor::{Keyed, KeyedConfig, Vendor};
use steadfast::{Client, Policy};

use crate::guards::life::{HOUR, act, at, wanted};
use crate::guards::wait;

/// Left at `now` for `due`.
fn left(now: u64, due: u64) -> Memory {
    let store = Memory::new();
    let claimed = wait(store.claim(Claim { due: Some(at(due)), ..wanted("k", now) }));
    assert!(matches!(claimed, Ok(Claimed::Fresh(_))), "{claimed:?}");
    store
}

fn is_busy(store: &Memory, claim: Claim) -> bool {
    matches!(wait(store.claim(claim)), Ok(Claimed::Busy { .. }))
}

fn state(store: &Memory) -> State {
    wait(store.get(&wanted("k", 0).id)).expect("works").expect("on record").state
}

pub fn a_call_for_later_is_not_claimed_before() -> bool {
    is_busy(&left(0, 100), wanted("k", 50))
}

pub fn what_a_clock_that_is_ahead_left_for_later_keeps_its_time() -> bool {
    is_busy(&left(3 * HOUR, 4 * HOUR), wanted("k", 0))
}

pub fn an_enqueueing_of_what_is_due_holds_nothing() -> bool {
    let store = left(0, 0);
    is_busy(&store, Claim { due: Some(at(10)), ..wanted("k", 10) })
        && matches!(state(&store), State::Scheduled { .. })
}

pub fn what_is_being_sent_is_not_cancelled() -> bool {
    let store = Memory::new();
    wait(store.claim(wanted("k", 0))).expect("works");
    let said = wait(store.act(&wanted("k", 0).id, act(Action::Cancel, 1))).expect("works");
    said.is_err_and(|forbidden| forbidden == Forbidden::Held)
}

/// Runs `play` on this thread. Time moves on whenever nobody has anything to do.
pub fn on_virtual_time<F: Future>(play: impl FnOnce(TestClock) -> F) -> F::Output {
    let clock = TestClock::new();
    let stepped = clock.clone();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .on_thread_park(move || {
            stepped.step();
        })
        .build()
        .expect("a runtime");
    runtime.block_on(play(clock))
}

fn client<T: Transport>(
    (vendor, policy): (impl Vendor, Policy),
    clock: &TestClock,
    network: T,
    store: &Arc<impl Store>,
) -> Client {
    let builder = Client::builder(vendor).policy(policy).transport(network).clock(clock.clone());
    builder.random(FixedRandom::at(0.5)).store(Arc::clone(store)).build().expect("a client")
}

fn acme(account: &str) -> impl Vendor {
    let mut config = KeyedConfig::new("acme", "http://127.0.0.1:1");
    config.account = account.to_owned();
    Keyed::new(config, "secret")
}

/// Answers well after a second.
#[derive(Debug)]
struct Slow(TestClock);

impl Transport for Slow {
    fn send(&self, _: Request, _: Limits) -> BoxFuture<'_, Result<Answer, SendError>> {
        Box::pin(async move {
            self.0.latency(Duration::from_secs(1)).await;
            Ok(Answer::new(StatusCode::OK, HeaderMap::new(), "{}"))
        })
    }

    fn queue_max(&self, _: &url::Url) -> Duration {
        Duration::ZERO
    }
}

/// One place, and two clients with something to send: the second one has the place after one operation of the first.
pub fn a_backlog_leaves_the_next_place_to_another_client() -> bool {
    on_virtual_time(|clock| async move {
        let store = Arc::new(Memory::new());
        let of = |account| client((acme(account), Policy::background()), &clock, Slow(clock.clone()), &store);
        let (many, one) = (of("many"), of("one"));
        for number in 0..20 {
            many.post("/x").key(format!("order-{number}")).enqueue().await.expect("recorded");
        }
        let enqueued = one.post("/x").key("order").enqueue().await.expect("recorded");
        let _dispatcher = Dispatcher::over([&many, &one]).at_once(1).start();
        enqueued.wait(Duration::from_secs(5)).await.is_ok()
    })
}

/// Its second attempt would be in a second and a quarter.
pub fn whoever_stops_lets_go_of_what_waits_for_a_retry() -> bool {
    on_virtual_time(|clock| async move {
        let store = Arc::new(Memory::new());
        let network = ScriptedTransport::new().always_with(|_| Err(SendErrorKind::Connect));
        let client = client((acme("a"), Policy::background()), &clock, network, &store);
        client.post("/x").key("k").enqueue().await.expect("recorded");
        let dispatcher = client.keep_recovering(PERIOD);
        clock.latency(Duration::from_millis(400)).await;
        dispatcher.stop(Duration::from_millis(100)).await == 0
    })
}

/// A store that takes no success before it is told to.
#[derive(Debug, Default)]
struct Moody {
    store: Memory,
    takes_no_success: AtomicBool,
}

#[async_trait]
impl Wrapper for Moody {
    fn inner(&self) -> &dyn Store {
        &self.store
    }

    async fn transition(
        &self,
        held: &Record,
        transition: Transition,
    ) -> Result<Result<Record, Declined>, StoreError> {
        let is_success = matches!(transition.to, State::Succeeded { .. });
        if is_success && self.takes_no_success.load(Ordering::Relaxed) {
            return Err(StoreError::new("not now"));
        }
        self.store.transition(held, transition).await
    }
}

/// The store takes it two seconds after the dispatcher was told to stop. By then the operation's own time is over.
pub fn whoever_stops_has_written_down_what_the_vendor_said() -> bool {
    on_virtual_time(|clock| async move {
        let store = Arc::new(Moody::default());
        store.takes_no_success.store(true, Ordering::Relaxed);
        let network = ScriptedTransport::new().always(Answer::new(StatusCode::OK, HeaderMap::new(), "{}"));
        let second = Duration::from_secs(1);
        let policy = Policy::background().timeout(Timeouts::new(second, second, 2 * second));
        let client = client((acme("a"), policy), &clock, network, &store);
        let enqueued = client.post("/x").key("k").enqueue().await.expect("recorded");
        let dispatcher = client.keep_recovering(PERIOD);
        clock.latency(3 * second).await;
        let (mended, time) = (store.clone(), clock.clone());
        let mends = tokio::spawn(async move {
            time.latency(2 * second).await;
            mended.takes_no_success.store(false, Ordering::Relaxed);
        });
        let cut_off = dispatcher.stop(20 * second).await;
        let record = store.get(enqueued.id()).await.expect("works").expect("on record");
        mends.await.expect("no panic");
        cut_off == 0 && matches!(record.state, State::Succeeded { .. })
    })
}
