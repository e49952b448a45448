//! Services that share an account's records, and must have its terms the same.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use steadfast::clock::Clock;
use steadfast::store::{Memory, Store, StoreError, Wrapper};
use steadfast::testkit::{ScriptedTransport, TestClock};
use steadfast::transport::SendErrorKind;
use steadfast::vendor::Stripe;
use steadfast::{Client, ClientBuilder, Disposition, Effect, Policy, dispatcher};

pub fn client(store: impl Store, base_url: &str, clock: &TestClock, network: &ScriptedTransport) -> Client {
    builder(store, base_url, clock, network).build().expect("a client")
}

pub fn builder(
    store: impl Store,
    base_url: &str,
    clock: &TestClock,
    network: &ScriptedTransport,
) -> ClientBuilder {
    Client::builder(Stripe::new("sk_test_secret").base_url(base_url))
        .policy(Policy::background())
        .store(store)
        .clock(clock.clone())
        .transport(network.clone())
}

pub fn paid() -> ScriptedTransport {
    ScriptedTransport::new().json(200, json!({"id": "po_1"}))
}

/// Lets what is in the background go on for so long.
pub async fn pass(clock: &TestClock, time: Duration) {
    clock.sleep_until(clock.now().plus(time)).await;
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
}

pub const OWN: &str = "https://api.stripe.com";
pub const OTHER: &str = "https://stripe.staging.example";

/// D4: A refusal before anything is sent is no word of what the key's own request did. So it is for a service whose
/// terms differ, and for one that sends what its adapter does not take.
#[tokio::test]
async fn a_refusal_before_the_claim_says_what_is_on_record() {
    let (store, clock) = (Arc::new(Memory::new()), TestClock::auto());
    let lost = ScriptedTransport::new().fail(SendErrorKind::Reset);
    let ours = client(store.clone(), OWN, &clock, &lost);
    ours.register().await.expect("the first");
    let form = [("amount", "1000")];
    let short = Duration::from_millis(300);
    let charge = |client: &Client, key: &str| client.post("/v1/quotes").key(key).form(&form);
    charge(&ours, "lost").deadline(short).send().await.expect_err("nobody can tell");
    ours.post("/v1/quotes").key("waits").form(&form).enqueue().await.expect("recorded");
    let other = client(store.clone(), OTHER, &clock, &paid());
    other.register().await.expect_err("another address");
    let of_terms = |key| charge(&other, key).send();
    let of_header = |key| charge(&ours, key).header("idempotency-key", "mine").send();
    for (key, effect, goes_on) in
        [("lost", Effect::Unknown, true), ("waits", Effect::None, true), ("new", Effect::None, false)]
    {
        for told in [of_terms(key).await, of_header(key).await] {
            let told = told.expect_err("refused");
            assert!(told.is_validation(), "{told}");
            let is_going_on = matches!(told.disposition(), Disposition::Continues { .. });
            assert_eq!((told.effect(), is_going_on), (effect, goes_on), "{key}: {told}");
            let words = "the operation that has its key may go on without you";
            assert_eq!(told.to_string().contains(words), goes_on, "{told}");
        }
    }
}

#[tokio::test]
async fn what_a_service_at_another_address_recorded_is_not_carried_on() {
    let (store, clock) = (Arc::new(Memory::new()), TestClock::auto());
    let down = ScriptedTransport::new().fail(SendErrorKind::Connect);
    let ours = client(store.clone(), OWN, &clock, &down);
    ours.register().await.expect("the first");
    let form = [("amount", "1000")];
    ours.post("/v1/quotes").key("order-1").form(&form).enqueue().await.expect("recorded");
    let network = paid();
    let other = client(store.clone(), OTHER, &clock, &network);
    let recovery = other.keep_recovering(dispatcher::PERIOD);
    pass(&clock, Duration::from_secs(5)).await;
    assert_eq!(network.requests().len(), 0, "its secret does not go to our address");
    let refused = other.post("/v1/quotes").key("order-2").form(&form).send().await.expect_err("refused");
    assert_eq!(refused.code(), "VALIDATION.terms");
    assert!(
        refused.to_string().contains(&format!("`base_url` is {OTHER}/ here and {OWN}/ there")),
        "{refused}"
    );
    let refused = other.post("/v1/quotes").key("order-2").form(&form).enqueue().await.expect_err("refused");
    assert_eq!(refused.code(), "VALIDATION.terms");
    assert_eq!(other.recover(10).await.expect_err("refused").code(), "VALIDATION.terms");
    // Calls that are no operations share no record.
    other.get("/v1/balance").send().await.expect("sent");
    // Somebody means it.
    let account = "default/stripe/test";
    store.register(account, None).await.expect("forgets");
    pass(&clock, Duration::from_secs(31)).await;
    let network = paid();
    drop(recovery);
    let other = client(store.clone(), OTHER, &clock, &network);
    other.register().await.expect("registered by recovery, with these terms");
    other.post("/v1/quotes").key("order-2").form(&form).send().await.expect("sent");
    assert_eq!(ours.register().await.expect_err("the old address").code(), "VALIDATION.terms");
}

/// Cannot say what is registered.
#[derive(Debug)]
struct Mute(Arc<Memory>);

#[async_trait::async_trait]
impl Wrapper for Mute {
    fn inner(&self) -> &dyn Store {
        &*self.0
    }

    async fn register(&self, _: &str, _: Option<&str>) -> Result<Option<String>, StoreError> {
        Err(StoreError::new("the store is out"))
    }
}

#[tokio::test]
async fn a_store_that_cannot_answer_stops_nobody() {
    let (clock, network) = (TestClock::auto(), paid().json(200, json!({"id": "po_2"})));
    let client = client(Mute(Arc::default()), OWN, &clock, &network);
    let error = client.register().await.expect_err("the store is out");
    assert!(error.code() != "VALIDATION.terms" && error.is_store(), "{error:#}");
    let form = [("amount", "1000")];
    client.post("/v1/quotes").key("order-1").form(&form).send().await.expect("sent");
    client.post("/v1/quotes").key("order-2").form(&form).enqueue().await.expect("recorded");
    let _recovery = client.keep_recovering(dispatcher::PERIOD);
    pass(&clock, Duration::from_secs(10)).await;
    assert_eq!(network.requests().len(), 2, "recovery goes on without");
}

#[tokio::test]
async fn clients_on_loopback_and_with_another_version_or_secret_agree() {
    let (store, clock) = (Arc::new(Memory::new()), TestClock::auto());
    for port in [4001, 4002] {
        client(store.clone(), &format!("http://localhost:{port}"), &clock, &paid())
            .register()
            .await
            .expect("fakes");
    }
    client(store.clone(), OWN, &clock, &paid()).register().await.expect("the first");
    let newer = Stripe::new("sk_test_rotated").api_version("2025-08-27.basil");
    let newer = Client::builder(newer).policy(Policy::interactive()).store(store).build().expect("a client");
    newer.register().await.expect("only address, place of the key and window must agree");
}
