//! How long a key is remembered, by which clock, and what is never put on record.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use steadfast::clock::Clock as _;
use steadfast::operation::record::Phase;
use steadfast::operation::{Key, OperationId};
use steadfast::policy::Backoff;
use steadfast::store::{Memory, Sqlite, Store};
use steadfast::testkit::{ScriptedTransport, TestClock};
use steadfast::transport::SendErrorKind;
use steadfast::vendor::{BigCommerce, Keyed, KeyedConfig, Postmark, Stripe};
use steadfast::{Call, Client, ClientBuilder, Effect, Error, Obtained, OnUnknown, Policy};

use support::on_disk::{self, has};

const HOUR: Duration = Duration::from_secs(3600);
const DAY: Duration = Duration::from_secs(24 * 3600);

struct Bench {
    store: Arc<Memory>,
    clock: TestClock,
    network: ScriptedTransport,
}

impl Bench {
    fn new() -> Bench {
        let network = ScriptedTransport::new().always(answer());
        Bench { store: Arc::new(Memory::new()), clock: TestClock::auto(), network }
    }

    fn builder(&self) -> ClientBuilder {
        Client::builder(Stripe::new("sk_test_1"))
            .store(Arc::clone(&self.store))
            .clock(self.clock.clone())
            .transport(self.network.clone())
    }

    /// The retention on record of a call that succeeded.
    async fn kept(&self, call: Call) -> Duration {
        let reply = call.send().await.expect("succeeds");
        let page = self.store.list(&Default::default(), None, 100).await.expect("works");
        let key = Key::new(reply.key().expect("keyed")).expect("a key");
        let row = page.rows.iter().find(|row| row.id.key == key).expect("on record");
        let id: OperationId = row.id.clone();
        self.store.get(&id).await.expect("works").expect("on record").keep
    }
}

fn answer() -> steadfast::transport::Answer {
    let body = json!({"id": "ch_1", "object": "charge"}).to_string();
    let mut headers = http::HeaderMap::new();
    headers.insert("request-id", http::HeaderValue::from_static("req_1"));
    steadfast::transport::Answer::new(http::StatusCode::OK, headers, body)
}

fn charge(client: &Client, key: &str) -> Call {
    client.post("/v1/charges").key(key).form(&[("amount", "1000")])
}

fn refused(result: Result<Client, Error>) -> String {
    let error = result.expect_err("refused");
    assert!(error.is_validation(), "{error}");
    error.to_string()
}

/// A7: Once Stripe has forgotten the key, the record alone keeps the second charge from being made.
#[tokio::test]
async fn a_payment_is_remembered_for_a_week() {
    let bench = Bench::new();
    let client = bench.builder().build().expect("a client");
    charge(&client, "order-42").send().await.expect("charged");
    for after in [25 * HOUR, 5 * DAY] {
        bench.clock.sleep_until(bench.clock.now().plus(after)).await;
        let again = charge(&client, "order-42").send().await.expect("replayed");
        assert_eq!(again.obtained(), Obtained::Replayed);
    }
    assert_eq!(bench.network.requests().len(), 1);
}

/// Finding A7.
#[tokio::test]
async fn a_call_a_route_and_a_client_say_how_long() {
    let bench = Bench::new();
    let week = bench.builder().build().expect("a client");
    assert_eq!(bench.kept(charge(&week, "default")).await, 7 * DAY);
    let margin = Duration::from_secs(30);
    let client = bench
        .builder()
        .policy(Policy::background().retention(3 * DAY).lease_margin(margin))
        .retention("/v1/charges", 50 * DAY)
        .retention("/v1", 20 * DAY)
        .retention("/v1/charges", 30 * DAY)
        .retention("/v1/charg", 60 * DAY)
        .build()
        .expect("a client");
    assert_eq!(bench.kept(charge(&client, "the longest prefix, said last")).await, 30 * DAY);
    assert_eq!(bench.kept(charge(&client, "the call").retention(2 * DAY)).await, 2 * DAY);
    assert_eq!(bench.kept(client.post("/v1/refunds").key("a shorter one")).await, 20 * DAY);
    // `/v2` keys are replayed for 30 days, so that three days cannot have been meant.
    let v2 = client.post("/v2/core/accounts").header("Stripe-Version", "2025-08-27.basil").key("raised");
    assert_eq!(bench.kept(v2).await, 30 * DAY + Duration::from_secs(120));
    // The first claim decides.
    charge(&client, "the call").retention(90 * DAY).send().await.expect("replayed");
    assert_eq!(bench.kept(charge(&client, "the call")).await, 2 * DAY);
}

/// Finding A7.
#[tokio::test]
async fn a_retention_is_not_shorter_than_the_window_and_the_ladder() {
    let bench = Bench::new();
    let floor = DAY + Duration::from_secs(120);
    let short = floor - Duration::from_secs(1);
    let record = |keep| Policy::background().retention(keep);
    let told = refused(bench.builder().policy(record(short)).build());
    assert!(told.contains("record.keep: 86519s is shorter than 86520s"), "{told}");
    assert!(bench.builder().policy(record(floor)).build().is_ok());
    let told = refused(bench.builder().retention("/v1/charges", short).build());
    assert!(told.contains("`/v1/charges`: 86519s is shorter than 86520s"), "{told}");
    assert!(bench.builder().retention("/v1/charges", floor).build().is_ok());
    for bad in ["v1", "", "/v1?a=b"] {
        assert!(refused(bench.builder().retention(bad, 30 * DAY).build()).contains("starts with a slash"));
    }

    let client = bench.builder().build().expect("a client");
    let error = charge(&client, "a").retention(short).send().await.expect_err("refused");
    assert_eq!((error.code(), error.effect()), ("VALIDATION.retention", Effect::None));
    assert!(error.to_string().contains("86519s is shorter than 86520s"), "{error}");
    assert_eq!((bench.network.requests().len(), bench.store.len()), (0, 0), "nothing is sent or recorded");
    charge(&client, "a").retention(floor).send().await.expect("sent");
}

/// A7: Where the key is in the body, the window is known all the same.
#[tokio::test]
async fn a_keyed_vendors_window_counts_wherever_its_key_is() {
    for place in [json!({"header": "Idempotency-Key"}), json!({"body": "request_id"})] {
        let keyed: KeyedConfig = serde_json::from_value(json!({
            "name": "acme", "base_url": "https://acme.test/api", "key": place, "window": "48h",
        }))
        .expect("a vendor");
        let builder =
            || Client::builder(Keyed::new(keyed.clone(), "none")).transport(ScriptedTransport::new());
        let told = refused(builder().retention("/pay", 2 * DAY).build());
        assert!(told.contains("172800s is shorter than 172920s"), "{told}");
        assert!(builder().retention("/pay", 3 * DAY).build().is_ok());
    }
}

/// Two hosts on one store. The clock of one is ahead by more than a record is kept.
#[tokio::test]
async fn a_host_whose_clock_is_days_ahead_forgets_nothing() {
    let bench = Bench::new();
    let right = bench.builder().build().expect("a client");
    let ahead = TestClock::auto();
    ahead.jump_wall(9 * DAY);
    let wrong = bench.builder().clock(ahead.clone()).build().expect("a client");
    charge(&right, "order-42").send().await.expect("charged");
    for hour in 0..30 {
        let again = charge(&wrong, "order-42").send().await.expect("told what is on record");
        assert_eq!(again.obtained(), Obtained::Replayed, "hour {hour}");
        let refused = charge(&wrong, "order-42").deadline(Duration::ZERO).send().await;
        assert_eq!(refused.expect("nor is it told that nothing was charged").obtained(), Obtained::Replayed);
        assert_eq!(bench.store.purge(ahead.wall(), 10).await.expect("works"), 0, "hour {hour}");
        charge(&right, &format!("order of hour {hour}")).send().await.expect("charged");
        for clock in [&ahead, &bench.clock] {
            clock.sleep_until(clock.now().plus(HOUR)).await;
        }
    }
    assert_eq!(bench.network.requests().len(), 31);
}

/// A store that only one host uses forgets on time; after a week without a call it takes an hour to believe that.
#[tokio::test]
async fn a_store_of_one_host_forgets_on_time() {
    let bench = Bench::new();
    let client = bench.builder().build().expect("a client");
    let obtained = async || charge(&client, "order-42").send().await.expect("succeeds").obtained();
    let pass = async |by| bench.clock.sleep_until(bench.clock.now().plus(by)).await;
    assert_eq!(obtained().await, Obtained::Fresh);
    for _ in 0..7 * 24 * 15 - 1 {
        pass(HOUR / 15).await;
        client.recover(1).await.expect("works");
    }
    assert_eq!(obtained().await, Obtained::Replayed, "four minutes early");
    pass(HOUR / 15).await;
    assert_eq!(obtained().await, Obtained::Fresh);
    pass(8 * DAY).await;
    assert_eq!(obtained().await, Obtained::Replayed, "idle since");
    pass(HOUR).await;
    assert_eq!(obtained().await, Obtained::Fresh);
}

/// E3: A call's headers are stored and shown to operators: what carries a secret belongs to the adapter.
#[tokio::test]
async fn a_header_that_carries_a_secret_is_refused_and_nothing_is_stored_or_sent() {
    let keyed: KeyedConfig = serde_json::from_value(json!({
        "name": "acme", "base_url": "https://acme.test", "auth": {"header": "X-Acme-Token"},
    }))
    .expect("a vendor");
    let bench = Bench::new();
    let client = |builder: ClientBuilder| {
        let builder = builder.store(Arc::clone(&bench.store)).clock(bench.clock.clone());
        let named = builder.transport(bench.network.clone()).secret_headers(["X-Signature"]);
        named.build().expect("a client")
    };
    let vendors = [
        (client(Client::builder(Stripe::new("sk_test_1"))), "authorization"),
        (client(Client::builder(Postmark::new("token"))), "X-Postmark-Server-Token"),
        (client(Client::builder(Postmark::new("token"))), "x-postmark-account-token"),
        (client(Client::builder(BigCommerce::new("abc123", "token"))), "X-Auth-Token"),
        (client(Client::builder(Keyed::new(keyed, "token"))), "x-acme-token"),
    ];
    for (client, own) in vendors {
        let common =
            ["Authorization", "COOKIE", "Set-Cookie", "Proxy-Authorization", "X-Auth-Token", "X-API-Key"];
        for name in common.into_iter().chain([own, "x-signature"]) {
            for call in [client.post("/x").key("order-42"), client.post("/x"), client.get("/x")] {
                let error = call.header(name, "hunter2").send().await.expect_err("refused");
                assert_eq!((error.code(), error.effect()), ("VALIDATION.header", Effect::None), "{name}");
                let told = error.to_string();
                assert!(told.contains(&name.to_lowercase()) && told.contains("adapter"), "{told}");
                assert!(!format!("{error:?}").contains("hunter2"));
            }
        }
        let mut marked = http::HeaderValue::from_static("hunter2");
        marked.set_sensitive(true);
        let error = client.post("/x").header("x-customer", marked).send().await.expect_err("refused");
        assert_eq!(error.code(), "VALIDATION.header");
    }
    assert_eq!((bench.network.requests().len(), bench.store.len()), (0, 0));
    for bad in ["", "a b"] {
        assert!(refused(bench.builder().secret_headers([bad]).build()).contains("secret_headers"));
    }
}

/// A header that an adapter gives with its key is stored with the call, so that no secret may be among it.
#[tokio::test]
async fn a_header_that_the_client_names_secret_is_not_recorded_for_its_adapter_either() {
    let keyed = |header: &str| {
        let said = json!({
            "name": "acme", "base_url": "https://acme.test", "key": {"header": "Idempotency-Key"},
            "headers": {header: "hunter2"},
        });
        Keyed::new(serde_json::from_value(said).expect("a vendor"), "")
    };
    let named = |header| Client::builder(keyed(header)).secret_headers(["X-Signature"]).build();
    let told = refused(named("X-Signature"));
    assert!(told.contains("x-signature") && told.contains("`auth`"), "{told}");
    assert!(!told.contains("hunter2"), "{told}");
    assert!(named("X-Tenant").is_ok());
}

/// D13: A full store forgets what was settled first, and says how much; it refuses only when there is nothing of that.
#[tokio::test]
async fn a_full_memory_evicts_what_was_settled_first() {
    let network = ScriptedTransport::new().reply(answer()).fail(SendErrorKind::Timeout).always(answer());
    let bench = Bench { store: Arc::new(Memory::with_capacity(4)), network, ..Bench::new() };
    let client = bench.builder().policy(Policy::background().lookups_max(0)).build().expect("a client");
    let pass = async || bench.clock.sleep_until(bench.clock.now().plus(Duration::from_secs(60))).await;
    let obtained = async |key: &str| charge(&client, key).send().await.expect("succeeds").obtained();
    assert_eq!(obtained("oldest, kept for longest").await, Obtained::Fresh);
    // Nobody knows what became of it, and nobody may forget it.
    let lost = client.post("/x").key("dead").on_unknown(OnUnknown::Park);
    let lost = lost.backoff(Backoff::none());
    assert!(lost.send().await.expect_err("lost").is_dead_letter());
    for key in ["first", "second"] {
        pass().await;
        charge(&client, key).retention(2 * DAY).send().await.expect("succeeds");
    }
    assert_eq!((bench.store.len(), bench.store.evicted()), (4, 0));
    pass().await;
    assert_eq!(obtained("third").await, Obtained::Fresh, "there is room");
    assert_eq!((bench.store.len(), bench.store.evicted()), (4, 1));
    for known in ["oldest, kept for longest", "second", "third"] {
        assert_eq!(obtained(known).await, Obtained::Replayed, "{known}");
    }
    // The price of that.
    assert_eq!(obtained("first").await, Obtained::Fresh);
    assert_eq!(bench.store.evicted(), 2);
    let tally = bench.store.tally().await.expect("works");
    let dead = tally.iter().find(|tally| tally.phase == Phase::Dead).map(|tally| tally.count);
    assert_eq!(dead, Some(1), "it is still there");
}

/// Finding D13.
#[tokio::test]
async fn a_memory_without_anything_settled_refuses() {
    let network = ScriptedTransport::new().always_fail(SendErrorKind::Timeout);
    let bench = Bench { store: Arc::new(Memory::with_capacity(2)), network, ..Bench::new() };
    let client = bench.builder().policy(Policy::background().lookups_max(0)).build().expect("a client");
    let send = |key: &str| client.post("/x").key(key).backoff(Backoff::none()).send();
    for key in ["a", "b"] {
        assert!(send(key).await.expect_err("lost").is_dead_letter());
    }
    let error = send("c").await.expect_err("no room");
    assert_eq!((error.is_store(), error.effect()), (true, Effect::None), "{error}");
    assert_eq!((bench.store.len(), bench.store.evicted()), (2, 0));
}

/// E3: Each secret that a client was given, sought in the file and in its log. The output of the command line for such
/// a store is searched by its own tests.
#[tokio::test]
async fn no_secret_of_a_client_is_in_the_file_or_its_log() {
    let place = tempfile::tempdir().expect("a directory");
    let path = place.path().join("calls.db");
    let store = Arc::new(Sqlite::open(&path).expect("opens"));
    let keyed: KeyedConfig = serde_json::from_value(json!({
        "name": "acme", "base_url": "https://acme.test", "key": {"header": "Idempotency-Key"}, "window": "24h",
        "auth": {"header": "X-Acme-Token", "prefix": "Token "},
    }))
    .expect("a vendor");
    let secrets = ["sk_test_4f9a1c77e2", "5f1c9a3e-pm-token", "bc9e02f771d4token", "acme88a1f0secret"];
    let builders = [
        Client::builder(Stripe::new(secrets[0])),
        Client::builder(Postmark::new(secrets[1])),
        Client::builder(BigCommerce::new("abc123", secrets[2])),
        Client::builder(Keyed::new(keyed, secrets[3])),
    ];
    let network = ScriptedTransport::new().always_fail(SendErrorKind::Timeout);
    for builder in builders {
        let builder = builder.store(Arc::clone(&store)).clock(TestClock::auto()).transport(network.clone());
        let client = builder.policy(Policy::background().lookups_max(0).without_breaker()).build();
        let client = client.expect("a client");
        let call = || client.post("/v2/orders").header("X-Customer", "in the file").json(&json!({"a": 1}));
        call().key("lost").header("Stripe-Version", "2025-08-27.basil").send().await.expect_err("lost");
        call().key("refused").header("Authorization", secrets[0]).send().await.expect_err("refused");
    }
    let sent = network.requests();
    for secret in secrets {
        let is_sent = |request: &steadfast::transport::Request| {
            request.headers.values().any(|value| String::from_utf8_lossy(value.as_bytes()).contains(secret))
        };
        assert!(sent.iter().any(is_sent), "{secret} goes to its vendor");
    }
    let on_disk = |suffix: &str| on_disk::read(format!("{}{suffix}", path.display()).as_ref());
    let seen = ["-wal", ""].map(|suffix| (suffix, on_disk(suffix)));
    assert!(seen.iter().any(|(_, bytes)| has(bytes, "in the file")), "what is stored is found so");
    for secret in secrets {
        for (place, bytes) in &seen {
            assert!(!has(bytes, secret), "{secret} is in the file{place}");
        }
    }
}
