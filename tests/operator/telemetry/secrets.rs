//! A marker in every place that may hold a secret, and a search for it in all output.

use std::error::Error as StdError;
use std::fmt::{Debug, Display};
use std::sync::Arc;

use http::{HeaderMap, HeaderValue, StatusCode};
use secrecy::SecretString;
use serde_json::json;
use steadfast::operation::record::{Claim, Claimed, State};
use steadfast::operation::{Key, OperationId, Scope, fingerprint};
use steadfast::policy::Backoff;
use steadfast::store::{Memory, Store};
use steadfast::testkit::{ScriptedTransport, TestClock};
use steadfast::transport::{Answer, SendErrorKind};
use steadfast::vendor::{BigCommerce, Keyed, KeyedConfig, Postmark, Stripe, Vendor};
use steadfast::{Call, Client, Error, Inbound, Reply, Vendors};

use crate::telemetry::capture::{captured, listen};
use crate::telemetry::policy;
use support::commands;
use support::rig::Rig;

const MARKER: &str = "hunter2";

/// The output so far.
#[derive(Default)]
struct Shown(Vec<String>);

impl Shown {
    fn debug(&mut self, value: &dyn Debug) {
        self.0.push(format!("{value:?}"));
        self.0.push(format!("{value:#?}"));
    }

    fn error(&mut self, error: &Error) {
        self.debug(error);
        self.debug(&error.attempts());
        self.debug(&error.answer());
        let mut layer: Option<&(dyn StdError + 'static)> = Some(error);
        while let Some(error) = layer {
            self.0.push(error.to_string());
            self.debug(&error);
            layer = error.source();
        }
    }

    fn ending(&mut self, ending: &Result<Reply, Error>) {
        match ending {
            Ok(reply) => {
                self.debug(reply);
                self.debug(reply.answer());
                self.error(&reply.json::<u64>().expect_err("no number"));
            }
            Err(error) => self.error(error),
        }
    }

    fn text(&mut self, text: impl Display) {
        self.0.push(text.to_string());
    }

    fn assert_clean(&self) {
        assert!(!self.0.is_empty());
        for text in &self.0 {
            assert!(!text.to_ascii_lowercase().contains(MARKER), "{text}");
        }
    }
}

/// An answer with the marker wherever an answer can have one.
fn answer(status: u16) -> Answer {
    let mut headers = HeaderMap::new();
    headers.insert("set-cookie", HeaderValue::from_static(MARKER));
    headers.insert("retry-after", HeaderValue::from_static("hunter2"));
    headers.insert("content-type", HeaderValue::from_static("application/json"));
    let body = format!(r#"{{"id":"{MARKER}","error":{{"message":"{MARKER}","type":"{MARKER}"}}}}"#);
    Answer::new(StatusCode::from_u16(status).expect("a status"), headers, body)
}

/// A call with the marker wherever a call can have one.
fn marked(client: &Client, path: &str) -> Call {
    client
        .post(path)
        .key("order-42/charge")
        .header("X-Customer", MARKER)
        .query(&[("token", MARKER)])
        .json(&json!({"From": MARKER, "To": MARKER, "TextBody": MARKER, "card": MARKER}))
}

/// A client, a path to call, and the script of its transport.
type Case = (Box<dyn Fn() -> Client>, &'static str, ScriptedTransport);

fn vendors() -> Vec<Case> {
    fn of(vendor: impl Vendor + Clone, path: &'static str, network: ScriptedTransport) -> Case {
        let script = network.clone();
        let client = move || Rig::with(vendor.clone(), script.clone(), policy().without_breaker()).client;
        (Box::new(client), path, network)
    }
    let keyed: KeyedConfig = serde_json::from_value(json!({
        "name": "acme", "base_url": "https://acme.test", "key": {"header": "Idempotency-Key"},
        "window": "24h", "auth": {"header": "Authorization", "prefix": "Bearer "},
    }))
    .expect("a vendor");
    let mut all = Vec::new();
    let endings: [fn(ScriptedTransport) -> ScriptedTransport; 9] = [
        |script| script.reply(answer(200)),
        |script| script.reply(answer(402)),
        |script| script.reply(answer(401)),
        |script| script.reply(answer(409)).reply(answer(409)),
        |script| script.reply(answer(429)).reply(answer(200)),
        |script| script.always(answer(500)),
        |script| script.fail(SendErrorKind::Reset).always(answer(200)),
        |script| script.always_fail(SendErrorKind::Timeout),
        |script| script.always_fail(SendErrorKind::Connect),
    ];
    for ending in endings {
        let script = || ending(ScriptedTransport::new());
        let secret = "sk_test_hunter2";
        all.push(of(Stripe::new(secret), "/v1/payment_intents?also=hunter2", script()));
        all.push(of(Postmark::new(secret), "/email?also=hunter2", script()));
        all.push(of(BigCommerce::new("abc123", secret), "/v2/orders?also=hunter2", script()));
        all.push(of(Keyed::new(keyed.clone(), secret), "/x?also=hunter2", script()));
    }
    all
}

#[tokio::test]
async fn no_output_holds_a_secret_a_header_a_query_or_a_body() {
    listen();
    let mut shown = Shown::default();
    for (client, path, network) in vendors() {
        let client = client();
        shown.debug(&client);
        shown.debug(&marked(&client, path));
        // Once for the outcome, once for its replay.
        for _ in 0..2 {
            shown.ending(&marked(&client, path).send().await);
        }
        shown.ending(&marked(&client, path).bytes(MARKER).send().await);
        shown.ending(&client.get(path).query(&[("token", MARKER)]).send().await);
        shown.debug(&network);
        shown.debug(&network.requests());
        assert!(
            network.requests().iter().any(|request| request.url.query().is_some_and(|q| q.contains(MARKER)))
        );
    }
    shown.assert_clean();

    let captured = captured();
    assert!(captured.spans.len() > 100 && captured.events.len() > 100 && captured.metrics.len() > 100);
    let mut output = Shown::default();
    output.debug(&captured);
    output.assert_clean();
}

#[tokio::test]
async fn an_error_about_a_bad_value_omits_the_value() {
    listen();
    let mut shown = Shown::default();
    let client = Rig::of(Stripe::new("sk_test_hunter2")).client();
    let calls = [
        client.post("/v1/x?token=hunter2#f"),
        client.post("v1/x?token=hunter2"),
        client.post("/v1/../x?token=hunter2"),
        client.post("/v1/x").header("X-Customer", "hunter2\n"),
        client.post("/v1/x").header("hunter2 \n", "x"),
        client.post("/v1/x").bytes("hunter2".repeat(200_000)),
        client.post("/v1/x").header("Idempotency-Key", MARKER).json(&json!({})),
        client.post("/v1/x").query(&MARKER),
        client.post("/v1/x").form(&MARKER),
    ];
    for call in calls {
        shown.debug(&call);
        let error = call.send().await.expect_err("a mistake");
        assert!(error.is_validation(), "{error}");
        shown.error(&error);
    }
    let clients = [
        Client::builder(Stripe::new("sk_test_hunter2\n")),
        Client::builder(Stripe::new("sk_test_hunter2").base_url("https://u:hunter2@x.test")),
        Client::builder(Stripe::new("sk_test_hunter2").base_url("https://x.test/?token=hunter2")),
        Client::builder(Stripe::new("sk_test_hunter2").base_url("hunter2")),
    ];
    let keyed: KeyedConfig = serde_json::from_value(json!({
        "name": "acme", "base_url": "https://u:hunter2@acme.test/?token=hunter2",
    }))
    .expect("a vendor");
    shown.debug(&keyed);
    let clients = clients.into_iter().chain([Client::builder(Keyed::new(keyed, MARKER))]);
    for builder in clients {
        shown.debug(&builder);
        shown.error(&builder.build().expect_err("a mistake"));
    }
    shown.assert_clean();
    let mut output = Shown::default();
    output.debug(&captured());
    output.assert_clean();
}

/// A path may have an id that gives access to a cart, where the route has one.
#[tokio::test]
async fn an_id_in_the_path_that_could_be_a_token_is_in_no_error_and_no_event() {
    let path = "/v3/checkouts/hunter2-bc218c65-7a32-4ab7-8082-68730c074d02/orders";
    let endings: [fn(ScriptedTransport) -> ScriptedTransport; 5] = [
        |script| script.reply(answer(200)),
        |script| script.reply(answer(422)),
        |script| script.always(answer(503)),
        |script| script.always_fail(SendErrorKind::Reset),
        |script| script.always_fail(SendErrorKind::Connect),
    ];
    listen();
    let mut shown = Shown::default();
    for ending in endings {
        let network = ending(ScriptedTransport::new());
        let client = Rig::with(BigCommerce::new("abc123", "token"), network.clone(), policy()).client;
        let call = || client.post(path).key("order-42/place").json(&json!({}));
        for _ in 0..2 {
            shown.ending(&call().send().await);
        }
        shown.ending(&call().json(&json!({"another": 1})).send().await);
        shown.ending(&client.get(path).send().await);
        shown.ending(&call().header("x", "\n").send().await);
        shown.ending(&client.get(&path.replacen('/', "", 1)).send().await);
        shown.ending(&call().deadline(std::time::Duration::from_millis(1)).send().await);
        client.recover(10).await.expect("a store");
        client.engage_kill_switch();
        shown.ending(&call().key("order-43/place").send().await);
        assert!(network.requests().iter().any(|request| request.url.path().contains(MARKER)));
    }
    shown.assert_clean();
    let captured = captured();
    assert!(captured.events.len() > 40, "{}", captured.events.len());
    let shown_path = "/v3/checkouts/[redacted]/orders";
    assert!(captured.events.iter().any(|event| event.get("url.path").is_some_and(|path| path == shown_path)));
    let mut output = Shown::default();
    output.debug(&captured);
    output.assert_clean();
}

/// The marker as a key, in each form in which a key may be written or shown.
#[cfg(all(feature = "seal", feature = "sqlite"))]
#[tokio::test]
async fn no_output_holds_a_seal_key() {
    use steadfast::operation::record::Phase;
    use steadfast::store::{SealKeys, Sqlite};

    listen();
    let mut key = [0; SealKeys::BYTES];
    key.iter_mut().zip(MARKER.bytes().cycle()).for_each(|(byte, letter)| *byte = letter);
    let hex: String = key.iter().map(|byte| format!("{byte:02x}")).collect();
    let base64 = "aHVudGVyMmh1bnRlcjJodW50ZXIyaHVudGVyMmh1bnQ=";
    let parsed = SealKeys::parse(base64, "x").expect("a key");
    assert_eq!(format!("{parsed:?}"), format!("{:?}", SealKeys::new(key)), "the same id");
    let forms = [&hex[..14], &base64[..9], "104, 117, 110, 116", "68, 75, 6e, 74"];
    let clean = |shown: &Shown| {
        shown.assert_clean();
        for text in &shown.0 {
            assert!(forms.iter().all(|form| !text.contains(form)), "{text}");
        }
    };

    let mut shown = Shown::default();
    let keys = SealKeys::parse(&format!("{hex},{}", "00".repeat(32)), "STEADFAST_SEAL_KEYS").expect("keys");
    shown.debug(&keys);
    shown.debug(&keys.clone().with_older([1; 32]));
    for wrong in [
        format!("{hex},{hex}"),
        format!("{hex},{base64}"),
        format!("{base64},"),
        hex[..62].to_owned(),
        format!("{hex}00"),
        format!("{base64}{base64}"),
        MARKER.to_owned(),
        format!("{MARKER}\u{1f511}"),
    ] {
        shown.error(&SealKeys::parse(&wrong, "STEADFAST_SEAL_KEYS").expect_err("no keys"));
    }

    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("calls.db");
    let builder = Sqlite::builder(&path).seal(keys);
    shown.debug(&builder);
    let store = Arc::new(builder.open().expect("opens"));
    shown.debug(&store);
    let network = ScriptedTransport::new().fail(SendErrorKind::Connect);
    let setup = Rig::of(Stripe::new("sk_test_hunter2")).policy(policy().backoff(Backoff::none()));
    let client = setup.store(Arc::clone(&store)).network(network).client();
    let error = marked(&client, "/v1/charges").send().await.expect_err("never sent");
    shown.error(&error);
    shown.debug(&client);
    // A process that has another key: at open, and while both have the file open.
    let other = Sqlite::builder(&path).seal(SealKeys::new([9; 32])).open().expect_err("sealed");
    shown.debug(&other);
    shown.text(&other);
    let empty = directory.path().join("other.db");
    let other = Sqlite::builder(&empty).seal(SealKeys::new([9; 32])).open().expect("opens");
    let now = steadfast::clock::Timestamp::from_millis(u64::MAX / 2);
    let take = commands::takeover(Phase::Scheduled, now);
    assert_eq!(other.take(take).await.expect("works"), []);
    clean(&shown);
    let mut output = Shown::default();
    output.debug(&captured());
    clean(&output);
}

#[tokio::test]
async fn a_record_a_store_and_a_vendors_file_show_no_contents() {
    let mut shown = Shown::default();
    let clock = TestClock::auto();
    shown.debug(&Rig::of(Stripe::new("sk_test_hunter2")).client());

    let mut request = steadfast::transport::Request::new(
        http::Method::POST,
        "https://api.stripe.com/v1/charges?token=hunter2".parse().expect("a URL"),
    );
    request.headers.insert("x-customer", HeaderValue::from_static(MARKER));
    request.body = MARKER.into();
    let id = OperationId::new(
        Scope::new("prod", "stripe", "test", &request.method, "/v1/charges"),
        Key::new("order-42").expect("a key"),
    );
    let now = steadfast::clock::Clock::wall(&clock);
    let fingerprint = fingerprint("test", &request);
    let claim = Claim { fingerprint, ..commands::claim(&id, request, now) };
    shown.debug(&claim);
    let store = Arc::new(Memory::new());
    let claimed = store.claim(claim).await.expect("a claim");
    shown.debug(&claimed);
    let Claimed::Fresh(held) = claimed else { panic!("the first claim") };
    let to = State::Succeeded { answer: answer(200), reconciled: false };
    shown.debug(&to);
    let transition = commands::transition(&held, now, to);
    shown.debug(&transition);
    shown.debug(&store.transition(&held, transition).await.expect("a transition"));
    shown.debug(&store.get(&id).await.expect("a record"));
    shown.debug(&store);

    let text = "[vendors.stripe]\nsecret_env = \"STRIPE_SECRET_KEY\"\n";
    let vendors = Vendors::parse(text, "vendors.toml")
        .expect("vendors")
        .with_secrets(|_| Some("sk_test_hunter2".to_owned()));
    shown.debug(&vendors);
    shown.debug(&vendors.builder("stripe").expect("a builder"));
    shown.debug(&vendors.client("stripe").expect("a client"));

    let mut headers = HeaderMap::new();
    headers.insert("x-request-timeout", HeaderValue::from_static(MARKER));
    headers.insert("authorization", HeaderValue::from_static(MARKER));
    shown.debug(&Inbound::from_headers(&headers));
    shown.debug(&SecretString::from(MARKER));
    shown.text(id);
    shown.assert_clean();
}
