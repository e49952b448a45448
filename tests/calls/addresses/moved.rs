//! Repeats of a key after its vendor has moved, and what a dispatcher asks before it begins.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use steadfast::clock::Clock as _;
use steadfast::operation::record::{Filter, Page, Summary};
use steadfast::store::{Memory, Store, StoreError, Wrapper};
use steadfast::testkit::TestClock;
use steadfast::{Effect, Obtained, dispatcher};

use crate::addresses::terms::{OWN, builder, client, paid, pass};

const FORMER: &str = "https://old.example/base";
const FORM: [(&str, &str); 1] = [("amount", "1000")];

/// A service's key comes again after its vendor has moved: the name of its operation was another by then, and it was paid
/// a second time.
#[tokio::test]
async fn a_key_that_was_used_below_a_former_base_url_is_the_same_operation() {
    for is_sent_before in [true, false] {
        let (store, clock, network) = (Arc::new(Memory::new()), TestClock::auto(), paid());
        let before = client(Arc::clone(&store), FORMER, &clock, &network);
        let call = before.post("/v1/quotes").key("order-1").form(&FORM);
        if is_sent_before {
            call.send().await.expect("it is paid");
        } else {
            call.enqueue().await.expect("recorded");
        }
        store.register("default/stripe/test", None).await.expect("forgets");
        let network = paid().json(200, serde_json::json!({"id": "po_2"}));
        let moved = builder(Arc::clone(&store), OWN, &clock, &network).former_base_url(FORMER);
        let moved = moved.build().expect("a client");
        moved.recover(10).await.expect("the store works");
        let again = moved.post("/v1/quotes").key("order-1").form(&FORM).send().await.expect("it is paid");
        assert_eq!(
            (again.obtained(), network.requests().len()),
            (Obtained::Replayed, usize::from(!is_sent_before))
        );
    }
}

/// An operation that is started over is looked for by the name that it has now: not to find it proves nothing after a
/// move.
#[tokio::test]
async fn what_is_started_over_after_a_move_is_not_said_to_have_had_no_effect() {
    for (has_moved, effect) in [(false, Effect::None), (true, Effect::Unknown)] {
        let (store, clock) = (Arc::new(Memory::new()), TestClock::auto());
        let ours = builder(Arc::clone(&store), OWN, &clock, &paid());
        let ours = if has_moved { ours.former_base_url(FORMER) } else { ours };
        let ours = ours.build().expect("a client");
        let call = ours.post("/v1/quotes").key("order-1/again").supersedes("order-1").form(&FORM);
        assert_eq!(call.send().await.expect_err("nothing is on record of it").effect(), effect);
    }
}

/// A store that never answers when it is asked for a list.
#[derive(Debug)]
struct Unlisted(Arc<Memory>);

#[async_trait]
impl Wrapper for Unlisted {
    fn inner(&self) -> &dyn Store {
        &*self.0
    }

    async fn list(&self, _: &Filter, _: Option<&str>, _: usize) -> Result<Page<Summary>, StoreError> {
        std::future::pending().await
    }
}

/// Before it begins, a dispatcher names what no client reaches. A store that never answered that kept it from delivering
/// anything for good, and from stopping.
#[tokio::test]
async fn a_store_that_never_says_what_nobody_reaches_does_not_keep_a_dispatcher_from_its_work() {
    let (store, clock, network) = (Arc::new(Memory::new()), TestClock::auto(), paid());
    let ours = client(Unlisted(store.clone()), OWN, &clock, &network);
    let recovery = ours.keep_recovering(dispatcher::PERIOD);
    ours.post("/v1/quotes").key("order-1").form(&FORM).enqueue().await.expect("recorded");
    pass(&clock, Duration::from_secs(60)).await;
    assert_eq!(network.requests().len(), 1);
    drop(recovery);
    let recovery = ours.keep_recovering(dispatcher::PERIOD);
    pass(&clock, Duration::from_secs(1)).await;
    let began = clock.now();
    recovery.stop(Duration::from_secs(60)).await;
    assert!(clock.now().since(began) < Duration::from_secs(1), "nothing is under way");
}
