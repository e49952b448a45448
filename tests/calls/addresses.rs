//! A client's secret goes to the host of its own base URL, whatever is on record.

mod copies;
mod moved;
mod terms;

use std::sync::Arc;
use std::time::Duration;

use steadfast::dead_letter::{Change, DeadLetters};
use steadfast::operation::Key;
use steadfast::operation::record::{Filter, Forbidden, Phase, State};
use steadfast::store::{Memory, Store};
use steadfast::testkit::{ScriptedTransport, TestClock};
use steadfast::transport::SendErrorKind;
use steadfast::vendor::{BigCommerce, Keyed, KeyedConfig};
use steadfast::{Client, ClientBuilder, Effect, Reason};

use terms::{OWN, paid};

const EVIL: &str = "https://api.stripe.com.evil.example";
const FORM: [(&str, &str); 1] = [("amount", "1000")];

fn builder(
    store: &Arc<Memory>,
    base_url: &str,
    clock: &TestClock,
    network: &ScriptedTransport,
) -> ClientBuilder {
    terms::builder(Arc::clone(store), base_url, clock, network).allow_plain_http()
}

/// Records `order-1` as a service does whose base URL is `base_url`. Nobody has registered any terms afterwards: the service
/// enqueued before this release, or somebody has forgotten them.
async fn recorded_for(base_url: &str) -> (Arc<Memory>, TestClock) {
    let (store, clock) = (Arc::new(Memory::new()), TestClock::auto());
    let other = builder(&store, base_url, &clock, &paid()).build().expect("a client");
    let call = other.post("/v1/quotes?expand=a%2Fb").key("order-1").form(&FORM);
    call.enqueue().await.expect("recorded");
    store.register("default/stripe/test", None).await.expect("forgets");
    (store, clock)
}

fn letters(store: &Arc<Memory>, clock: &TestClock, client: &Client) -> DeadLetters {
    let store: Arc<dyn Store> = Arc::<Memory>::clone(store);
    DeadLetters::new(store).with_client(client).with_clock(clock.clone())
}

#[tokio::test]
async fn what_was_recorded_for_another_host_is_a_dead_letter_and_no_secret_goes_there() {
    for place in [EVIL, "http://api.stripe.com", "https://api.stripe.com:8443", "http://127.0.0.1:9"] {
        let (store, clock) = recorded_for(place).await;
        let network = paid();
        let ours = builder(&store, OWN, &clock, &network).build().expect("a client");
        let recovered = ours.recover(10).await.expect("the store works");
        assert_eq!((recovered.taken, recovered.dead, network.requests().len()), (1, 1, 0), "{place}");
        let letters = letters(&store, &clock, &ours);
        let elsewhere = Filter { reason: Some(Reason::Elsewhere), ..Filter::default() };
        let id = letters.find("order-1").await.expect("it is there");
        let shown = letters.show(&id).await.expect("it is shown");
        assert_eq!((shown.summary.phase, shown.summary.effect), (Phase::Dead, Effect::None), "{place}");
        // Its key is told why, by whoever asks for it.
        let told = ours.post("/v1/quotes?expand=a%2Fb").key("order-1").form(&FORM).send().await;
        let told = told.expect_err("it is dead");
        assert!(told.is_dead_letter() && told.effect() == Effect::None, "{told}");
        assert!(told.to_string().contains("recorded for another host"), "{told}");
        // Nor is it sent by force, or under another key.
        let force = Change::by("ada").because("I want it").force().overwrite();
        let redriven = letters.redrive_all(&elsewhere, &force).await.expect("the store works");
        assert_eq!((redriven.matched, redriven.done), (1, 0), "{place}");
        assert_eq!(redriven.why_held_back[0].1, Forbidden::Elsewhere);
        let (key, how) = (Key::new("order-1b").expect("a key"), Change::by("ada").because("again").force());
        let refused =
            letters.edit(&id, key, "amount=1", &how).await.expect_err("it is still for another host");
        assert!(refused.to_string().contains("does not call"), "{refused}");
        ours.recover(10).await.expect("the store works");
        assert_eq!(network.requests().len(), 0, "{place}");
    }
}

/// A repeat by a caller takes over what nobody holds.
#[tokio::test]
async fn a_caller_who_takes_it_over_sends_nothing_there_either() {
    let (store, clock) = recorded_for(EVIL).await;
    let network = paid();
    let ours = builder(&store, OWN, &clock, &network).build().expect("a client");
    let told = ours.post("/v1/quotes?expand=a%2Fb").key("order-1").form(&FORM).send().await;
    let told = told.expect_err("it was recorded for another host");
    assert!(told.is_dead_letter(), "{told}");
    assert_eq!(network.requests().len(), 0);
}

/// Not even to look up whether it took effect: what was sent before was sent to another host.
#[tokio::test]
async fn an_effect_that_is_unknown_stays_so() {
    let (store, clock) = (Arc::new(Memory::new()), TestClock::auto());
    let cut = ScriptedTransport::new().always_fail(SendErrorKind::Timeout);
    let other = builder(&store, EVIL, &clock, &cut).build().expect("a client");
    let call = other.post("/v1/quotes").key("order-1").form(&FORM).deadline(Duration::from_secs(3));
    let error = call.send().await.expect_err("no answer");
    assert_eq!(error.effect(), Effect::Unknown);
    let network = paid();
    let ours = builder(&store, OWN, &clock, &network).build().expect("a client");
    clock.advance(Duration::from_secs(3_600));
    ours.recover(10).await.expect("the store works");
    let id = letters(&store, &clock, &ours).find("order-1").await.expect("it is there");
    let record = store.get(&id).await.expect("the store works").expect("it is there");
    assert!(matches!(record.state, State::Dead { reason: Reason::Elsewhere, .. }), "{:?}", record.state);
    assert_eq!((record.effect, network.requests().len()), (Effect::Unknown, 0));
}

#[tokio::test]
async fn where_the_vendor_has_moved_it_goes_to_the_new_host() {
    let (store, clock) = recorded_for("https://old.example/base").await;
    let network = paid();
    let moved = builder(&store, OWN, &clock, &network).former_base_url("https://old.example/base");
    let moved = moved.build().expect("a client");
    // The account's scope has the whole path: what is below another base path is another route.
    assert_eq!(moved.recover(10).await.expect("the store works").succeeded, 1);
    let sent = network.requests();
    assert_eq!(sent.len(), 1);
    assert_eq!(sent[0].url.as_str(), "https://api.stripe.com/v1/quotes?expand=a%2Fb");
    assert!(sent[0].headers.contains_key("authorization"), "its own secret");

    // One that became a dead letter before is redriven.
    let (store, clock) = recorded_for("https://old.example").await;
    let network = paid();
    let unaware = builder(&store, OWN, &clock, &network).build().expect("a client");
    assert_eq!(unaware.recover(10).await.expect("the store works").dead, 1);
    let moved = builder(&store, OWN, &clock, &network).former_base_url("https://old.example/");
    let moved = moved.build().expect("a client");
    let id = letters(&store, &clock, &moved).find("order-1").await.expect("it is there");
    let redriven = letters(&store, &clock, &moved).redrive(&[id], &Change::by("ada")).await;
    assert_eq!(redriven.expect("the store works").done, 1);
    assert_eq!(moved.recover(10).await.expect("the store works").succeeded, 1);
    assert_eq!(network.requests()[0].url.host_str(), Some("api.stripe.com"));
    // Beside the former base's path is not below it.
    let (store, clock) = recorded_for("https://old.example").await;
    let beside = builder(&store, OWN, &clock, &paid()).former_base_url("https://old.example/v1/pay");
    let beside = beside.build().expect("a client");
    assert_eq!(beside.recover(10).await.expect("the store works").dead, 1);
    for with_more in ["https://user:s3cret@old.example/v1", "https://old.example/v1?token=s3cret"] {
        let refused = builder(&store, OWN, &clock, &paid()).former_base_url(with_more).build();
        let error = refused.expect_err("what is not where a vendor is may be secret");
        assert!(error.is_validation() && !format!("{error} {error:?}").contains("s3cret"), "{error:?}");
    }
    let refused = builder(&store, OWN, &clock, &paid()).former_base_url("old.example").build();
    assert_eq!(refused.expect_err("no URL").code(), "VALIDATION.base_url");
}

/// Fakes have another port each time.
#[tokio::test]
async fn on_loopback_the_port_may_change() {
    let (store, clock) = recorded_for("http://127.0.0.1:4001").await;
    let network = paid();
    let ours = builder(&store, "http://localhost:4002", &clock, &network).build().expect("a client");
    assert_eq!(ours.recover(10).await.expect("the store works").succeeded, 1);
}

/// A service that only enqueues: nobody recovers in it, and nobody has called `register`.
#[tokio::test]
async fn the_first_enqueue_registers_the_terms() {
    let (store, clock) = (Arc::new(Memory::new()), TestClock::auto());
    let ours = builder(&store, OWN, &clock, &paid()).build().expect("a client");
    ours.post("/v1/quotes").key("order-1").form(&FORM).enqueue().await.expect("recorded");
    let other = builder(&store, EVIL, &clock, &paid()).build().expect("a client");
    for _ in 0..2 {
        let call = other.post("/v1/quotes").key("order-2").form(&FORM);
        let refused = call.enqueue().await.expect_err("its address is another");
        assert_eq!((refused.code(), refused.effect()), ("VALIDATION.terms", Effect::None));
    }
    assert_eq!(store.tally().await.expect("the store works").iter().map(|tally| tally.count).sum::<u64>(), 1);
    // Somebody means it.
    store.register("default/stripe/test", None).await.expect("forgets");
    other.register().await.expect("it is the first now");
    other.post("/v1/quotes").key("order-2").form(&FORM).enqueue().await.expect("recorded");
}

#[tokio::test]
async fn no_path_and_no_header_leads_to_another_host() {
    let (store, clock) = (Arc::new(Memory::new()), TestClock::auto());
    let network = ScriptedTransport::new().always(steadfast::transport::Answer::new(
        http::StatusCode::OK,
        http::HeaderMap::new(),
        "{}",
    ));
    for base_url in [OWN, "https://api.stripe.com/base"] {
        let ours = builder(&store, base_url, &clock, &network).namespace(base_url.len().to_string());
        let ours = ours.build().expect("a client");
        for path in PATHS {
            // Refused, or sent to our host.
            let _ = ours.post(path).form(&FORM).send().await;
            let _ = ours.get(path).send().await;
            let _ = ours.post(path).form(&FORM).enqueue().await;
        }
        while ours.recover(100).await.expect("the store works").taken > 0 {}
    }
    let sent = network.requests();
    assert!(sent.len() > PATHS.len(), "most are paths, however they look: {}", sent.len());
    for request in sent {
        assert_eq!(request.url.origin().ascii_serialization(), OWN, "{}", request.url);
        assert!(request.url.username().is_empty() && request.url.password().is_none(), "{}", request.url);
    }
    let ours = builder(&store, OWN, &clock, &network).build().expect("a client");
    for name in ["Host", "content-length", "Transfer-Encoding", "connection", "upgrade", "te", "trailer"] {
        let error = ours.post("/v1/quotes").header(name, "evil.example").send().await.expect_err(name);
        assert_eq!(error.code(), "VALIDATION.header", "{name}");
    }
}

const PATHS: [&str; 10] = [
    "//evil.example/x",
    "/@evil.example/x",
    "@evil.example/x",
    ".evil.example/x",
    "https://evil.example/x",
    "/\\evil.example/x",
    "\\\\evil.example\\x",
    "/:80@evil.example",
    "/%2f%2fevil.example/x",
    "/x?y=https://evil.example#@evil.example",
];

/// Behind one gateway, each vendor has a path.
#[tokio::test]
async fn where_the_path_alone_has_changed_it_goes_to_the_new_one() {
    for (former, base, sent) in [
        ("https://gw.test/acme", "https://gw.test/acme-v2", "/acme-v2/things"),
        ("https://gw.test/acme", "https://gw.test/acme/v2", "/acme/things"),
        ("https://gw.test/acme/v2", "https://gw.test/acme", "/acme/v2/things"),
    ] {
        let (store, clock, network) = (Arc::new(Memory::new()), TestClock::auto(), paid());
        let at = |base: &str| {
            let vendor = Keyed::new(KeyedConfig::new("acme", base), "");
            let client = Client::builder(vendor).store(Arc::clone(&store)).clock(clock.clone());
            client.transport(network.clone())
        };
        let before = at(former).build().expect("a client");
        before.post("/things").key("order-1").json(&1).enqueue().await.expect("recorded");
        store.register("default/acme/default", None).await.expect("forgets");
        let moved = at(base).former_base_url(former).build().expect("a client");
        assert_eq!(moved.recover(10).await.expect("the store works").succeeded, 1, "{base}");
        assert_eq!(network.requests()[0].url.path(), sent, "{base}");
    }
}

#[tokio::test]
async fn a_lookup_asks_where_the_vendor_is_now() {
    let (store, clock) = (Arc::new(Memory::new()), TestClock::auto());
    let at = |base: &str, network: &ScriptedTransport| {
        let client = Client::builder(BigCommerce::new("abc123", "token").base_url(base));
        client.store(Arc::clone(&store)).clock(clock.clone()).transport(network.clone())
    };
    // The store's path is part of its base URL.
    let gateway = "https://gw.test/bc";
    let lost = ScriptedTransport::new().fail(SendErrorKind::Reset);
    let before = at(gateway, &lost).build().expect("a client");
    let order = serde_json::json!({ "products": [{ "product_id": 7, "quantity": 1 }] });
    let error = before.post("/v2/orders").key("order-1").json(&order).deadline(Duration::from_secs(1)).send();
    let error = error.await.expect_err("its answer is lost");
    assert_eq!((error.effect(), lost.requests().len()), (Effect::Unknown, 1));
    clock.advance(Duration::from_secs(60));

    let network = ScriptedTransport::new();
    let key = lost.requests()[0].body.clone();
    let key: serde_json::Value = serde_json::from_slice(&key).expect("JSON");
    let row = serde_json::json!([{ "id": 5, "external_order_id": key["external_order_id"],
        "products": [{ "product_id": 7, "quantity": 1 }] }]);
    let network = network.json(200, row);
    store.register("default/bigcommerce/abc123", None).await.expect("forgets");
    let moved = at("https://api.bigcommerce.com", &network);
    let moved = moved.former_base_url(format!("{gateway}/stores/abc123"));
    let moved = moved.build().expect("a client");
    // An operation that another process left has its settle time first.
    assert_eq!(moved.recover(10).await.expect("the store works").postponed, 1);
    clock.advance(Duration::from_secs(120));
    let recovered = moved.recover(10).await.expect("the store works");
    let asked = network.requests();
    assert_eq!((asked.len(), asked[0].method.as_str()), (1, "GET"), "a lookup first");
    assert!(asked[0].url.as_str().starts_with("https://api.bigcommerce.com/stores/abc123/v2/orders"));
    assert_eq!(recovered.succeeded, 1, "{recovered:?}");
}
