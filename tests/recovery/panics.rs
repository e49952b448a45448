//! A store, a transport or an adapter of somebody's own that panics does not end recovery.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use steadfast::BoxFuture;
use steadfast::clock::Clock as _;
use steadfast::dispatcher::PERIOD;
use steadfast::operation::record::Phase;
use steadfast::store::Store;
use steadfast::testkit::{ScriptedTransport, TestClock};
use steadfast::transport::{Answer, Limits, Request, SendError, SendErrorKind, Transport};
use steadfast::{Client, Policy};

use crate::delivery::shop::phases;
use crate::delivery::time::on_virtual_time;
use support::acme::Acme;
use support::rig::{Rig, plain, secs};
use support::trouble::{Trouble, Troubled};

fn client(
    clock: &TestClock,
    store: &Arc<Troubled>,
    network: impl Transport + Clone,
    policy: Policy,
) -> Client {
    let setup = Rig::of(Acme::replaying(secs(600))).policy(policy).network(network);
    setup.clock(clock).store(Arc::clone(store)).client()
}

/// An operation that waits for its first retry.
async fn postponed(client: &Client) {
    let call = client.post("/charges").key("order-42").deadline(Duration::from_millis(1));
    assert!(call.send().await.expect_err("postponed").is_deadline());
}

async fn until(clock: &TestClock, store: &Arc<dyn Store>, phase: Phase, limit: Duration) -> Duration {
    let began = clock.now();
    while phases(store).await.get(&phase).copied() != Some(1) {
        assert!(clock.now().since(began) < limit, "{:?}", phases(store).await);
        clock.latency(Duration::from_millis(100)).await;
    }
    clock.now().since(began)
}

#[test]
fn a_store_that_panics_does_not_end_recovery() {
    on_virtual_time(|clock, _| async move {
        let store = Arc::new(Troubled::default());
        let network = ScriptedTransport::new().fail(SendErrorKind::Connect).status(200);
        let client = client(&clock, &store, network.clone(), plain());
        postponed(&client).await;
        store.takes([Trouble::Panic; 3]);
        let dispatcher = client.keep_recovering(PERIOD);
        let store: Arc<dyn Store> = store;
        let took = until(&clock, &store, Phase::Succeeded, secs(10)).await;
        // Each panic costs a period.
        assert!((secs(3)..secs(5)).contains(&took), "{took:?}");
        assert_eq!(dispatcher.stop(secs(1)).await, 0);
        assert_eq!(network.requests().len(), 2);
    });
}

/// An operation that was taken before it stays under way, and the places are counted right.
#[test]
fn a_panic_leaves_what_is_under_way_alone() {
    on_virtual_time(|clock, _| async move {
        let store = Arc::new(Troubled::default());
        let network =
            ScriptedTransport::new().fail(SendErrorKind::Connect).status(200).after(secs(5), &clock);
        let client = client(&clock, &store, network.clone(), plain());
        postponed(&client).await;
        clock.latency(secs(1)).await;
        let dispatcher = client.keep_recovering(PERIOD);
        clock.latency(secs(1)).await;
        store.takes([Trouble::Panic; 4]);
        clock.latency(secs(2)).await;
        assert_eq!(dispatcher.stop(secs(10)).await, 0, "it was carried to its end");
        let store: Arc<dyn Store> = store;
        assert_eq!(phases(&store).await.into_iter().collect::<Vec<_>>(), [(Phase::Succeeded, 1)]);
    });
}

#[test]
fn a_store_that_panics_does_not_end_the_purge() {
    on_virtual_time(|clock, _| async move {
        let store = Arc::new(Troubled::default());
        let policy = plain().retention(secs(1_200));
        let client = client(&clock, &store, ScriptedTransport::new().status(200), policy);
        client.post("/charges").key("order-42").send().await.expect("sent");
        store.purges([Trouble::Panic; 2]);
        let _dispatcher = client.keep_recovering(PERIOD);
        let store: Arc<dyn Store> = store;
        assert_eq!(phases(&store).await.len(), 1);
        clock.latency(secs(1_210)).await;
        assert_eq!(phases(&store).await.len(), 0, "its time is over");
    });
}

/// An attempt that panics leaves the operation in progress: its lease runs out, and it is taken up again.
#[test]
fn an_operation_whose_attempt_panics_is_carried_on_once_its_lease_is_over() {
    on_virtual_time(|clock, _| async move {
        let store = Arc::new(Troubled::default());
        let sends = Arc::new(AtomicUsize::new(0));
        let inner = ScriptedTransport::new().fail(SendErrorKind::Connect).status(200);
        let network = PanicsAt { second: Arc::clone(&sends), inner };
        let client = client(&clock, &store, network, plain());
        postponed(&client).await;
        let dispatcher = client.keep_recovering(PERIOD);
        let store: Arc<dyn Store> = store;
        let took = until(&clock, &store, Phase::Succeeded, secs(120)).await;
        assert!((secs(60)..secs(65)).contains(&took), "{took:?}: a lease");
        assert_eq!((sends.load(Ordering::Relaxed), dispatcher.stop(secs(1)).await), (3, 0));
    });
}

/// A transport whose second send panics.
#[derive(Clone, Debug)]
struct PanicsAt {
    second: Arc<AtomicUsize>,
    inner: ScriptedTransport,
}

impl Transport for PanicsAt {
    fn send(&self, request: Request, limits: Limits) -> BoxFuture<'_, Result<Answer, SendError>> {
        assert!(self.second.fetch_add(1, Ordering::Relaxed) != 1, "a bug of the transport");
        self.inner.send(request, limits)
    }

    fn queue_max(&self, _: &url::Url) -> Duration {
        Duration::ZERO
    }
}
