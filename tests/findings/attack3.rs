//! What a third search found: between a store and its copy, between the outbox and what is enqueued beside it, and after a
//! vendor or a clock has moved.

use std::sync::Arc;

use steadfast::reply::Obtained;
use steadfast::store::{Memory, Store};
use steadfast::testkit::{ScriptedTransport, TestClock};
use steadfast::vendor::Stripe;
use steadfast::{Client, Policy};

use crate::terms::paid;

const OWN: &str = "https://api.stripe.com";
const FORMER: &str = "https://old.example/base";
const FORM: [(&str, &str); 1] = [("amount", "1000")];

fn client(store: &Arc<Memory>, base_url: &str, clock: &TestClock, network: &ScriptedTransport) -> Client {
    let builder = Client::builder(Stripe::new("sk_test_secret").base_url(base_url))
        .policy(Policy::background())
        .store(Arc::clone(store))
        .clock(clock.clone())
        .transport(network.clone());
    let builder = if base_url == OWN { builder.former_base_url(FORMER) } else { builder };
    builder.build().expect("a client")
}

/// A service's key comes again after its vendor has moved: the name of its operation was another by then, and it was paid
/// a second time.
#[tokio::test]
async fn a_key_that_was_used_below_a_former_base_url_is_the_same_operation() {
    for is_sent_before in [true, false] {
        let (store, clock, network) = (Arc::new(Memory::new()), TestClock::auto(), paid());
        let before = client(&store, FORMER, &clock, &network);
        let call = before.post("/v1/payouts").key("order-1").form(&FORM);
        if is_sent_before {
            call.send().await.expect("it is paid");
        } else {
            call.enqueue().await.expect("recorded");
        }
        store.upkeep().expect("memory has").register("default/stripe/test", None).await.expect("forgets");
        let network = paid().json(200, serde_json::json!({"id": "po_2"}));
        let moved = client(&store, OWN, &clock, &network);
        moved.recover(10).await.expect("the store works");
        let again = moved.post("/v1/payouts").key("order-1").form(&FORM).send().await.expect("it is paid");
        assert_eq!(
            (again.obtained(), network.requests().len()),
            (Obtained::Replayed, usize::from(!is_sent_before))
        );
    }
}
