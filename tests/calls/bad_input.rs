//! Bad input gets a typed error that names what is wrong, before anything is sent where it can be known before.

use std::borrow::Cow;
use std::error::Error as _;
use std::sync::Arc;
use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use serde_json::{Value, json};
use steadfast::BoxFuture;
use steadfast::operation::record::State;
use steadfast::operation::{Key, OperationId, Scope, WireKey};
use steadfast::policy::{Backoff, BreakerConfig};
use steadfast::store::Memory;
use steadfast::testkit::ScriptedTransport;
use steadfast::transport::{Answer, Request, SendError, SendErrorKind, Transport};
use steadfast::vendor::{
    Attempt, BigCommerce, Finding, Keyed, KeyedConfig, Postmark, Stripe, Subject, Vendor, Verdict,
};
use steadfast::{Call, Client, Effect, Error, Obtained};
use url::Url;

use support::rig::{Rig, plain};

const MIB: usize = 1024 * 1024;

fn client(network: &ScriptedTransport) -> Client {
    Rig::new(Stripe::new("sk_test_hush"), network.clone()).client
}

/// Whose every error about [`charge`] is.
const CHARGE: &str = "stripe POST /v1/charges (key order-42): ";

fn charge(client: &Client) -> Call {
    client.post("/v1/charges").key("order-42").form(&[("amount", "1000")])
}

/// The error that the call is refused with; it has sent nothing.
async fn refusal(build: impl FnOnce(&Client) -> Call) -> (String, String) {
    let network = ScriptedTransport::new().status(200);
    let error = build(&client(&network)).send().await.expect_err("bad input");
    assert!(error.is_validation(), "{error}");
    assert_eq!((error.effect(), error.attempts().len()), (Effect::None, 0));
    assert_eq!(network.requests().len(), 0, "{error}");
    (error.code().to_owned(), error.to_string())
}

#[tokio::test]
async fn a_key_that_is_empty_too_long_or_not_printable_ascii_is_named() {
    for (key, problem) in [
        (String::new(), "a key must not be empty".to_owned()),
        ("k".repeat(256), "256 characters; at most 255 are allowed".to_owned()),
        ("order\t42".into(), "only printable ASCII is allowed; byte 5 is not".to_owned()),
        ("line\nbreak".into(), "only printable ASCII is allowed; byte 4 is not".to_owned()),
        ("bestellung-ü".into(), "only printable ASCII is allowed; byte 11 is not".to_owned()),
        ("\u{7f}".into(), "only printable ASCII is allowed; byte 0 is not".to_owned()),
    ] {
        let said = refusal(|client| client.post("/v1/charges").key(key.as_str())).await;
        let problem = format!("stripe POST /v1/charges: invalid key: {problem}");
        assert_eq!(said, ("VALIDATION.key".into(), problem));
    }
    let network = ScriptedTransport::new().status(200).status(200);
    let client = client(&network);
    for good in ["k".to_owned(), "k".repeat(255)] {
        client.post("/v1/charges").key(good).send().await.expect("a good key");
    }
}

#[tokio::test]
async fn a_header_with_a_line_break_is_named_and_its_value_not_shown() {
    let said = refusal(|client| charge(client).header("x-note", "hush\r\nx-evil: 1")).await;
    let problem = "invalid header: x-note: a header cannot carry this value (failed to parse header value)";
    assert_eq!(said, ("VALIDATION.header".into(), format!("{CHARGE}{problem}")));
    let said = refusal(|client| charge(client).header("x note", "a")).await;
    let problem = "invalid header: not a valid header name (invalid HTTP header name)";
    assert_eq!(said, ("VALIDATION.header".into(), format!("{CHARGE}{problem}")));
}

#[tokio::test]
async fn a_request_body_over_the_limit_is_refused_with_both_figures() {
    let said = refusal(|client| charge(client).bytes(vec![b'a'; MIB + 1])).await;
    let problem = "invalid body: 1048577 bytes are over the limit of 1048576 in limits.request_bytes_max";
    assert_eq!(said, ("VALIDATION.body".into(), format!("{CHARGE}{problem}")));

    let network = ScriptedTransport::new().status(200);
    charge(&client(&network)).bytes(vec![b'a'; MIB]).send().await.expect("exactly the limit");

    let network = ScriptedTransport::new().status(200);
    let small = Rig::with(Stripe::new("sk_test_hush"), network.clone(), plain().request_bytes_max(10)).client;
    let error = charge(&small).send().await.expect_err("eleven bytes");
    let problem = "invalid body: 11 bytes are over the limit of 10 in limits.request_bytes_max";
    assert_eq!(error.to_string(), format!("{CHARGE}{problem}"));
    assert_eq!(network.requests().len(), 0);
}

#[tokio::test]
async fn a_path_that_leaves_the_vendor_is_refused() {
    for path in ["v1/charges", "https://evil.test/", "/../x", "/a/%2e%2e/x", "/a/.\t./x", "/a\nb", "/x#y", ""]
    {
        assert_eq!(refusal(|client| client.post(path)).await.0, "VALIDATION.path", "{path}");
    }
}

#[tokio::test]
async fn the_first_mistake_is_the_one_that_is_reported() {
    let said = refusal(|client| client.post("no-slash").key("").header("x", "\n")).await;
    assert_eq!(said.0, "VALIDATION.path");
}

/// The reply is kept with its status, the operation settled; sending again gives the same error and sends nothing.
#[tokio::test]
async fn a_reply_over_the_limit_is_settled_and_said_so_again_without_sending() {
    let network = ScriptedTransport::new().json(201, json!({"id": "x".repeat(200)})).status(500);
    let client = Rig::with(Stripe::new("sk_test_hush"), network.clone(), plain().reply_bytes_max(100)).client;
    for _ in 0..3 {
        let error = charge(&client).send().await.expect_err("too large");
        assert_eq!(error.code(), "VALIDATION.reply_too_large");
        assert_eq!(
            error.to_string(),
            format!(
                "{CHARGE}the reply is over the limit of 100 bytes and was cut there; effect applied; \
                 raise limits.reply_bytes_max for the next call"
            )
        );
        let answer = error.answer().expect("what came");
        assert_eq!((answer.status.as_u16(), answer.body.len(), answer.cut), (201, 100, true));
        assert_eq!(network.requests().len(), 1);
    }
    let id = OperationId::new(
        Scope::new("default", "stripe", "test", &Method::POST, "/v1/charges"),
        Key::new("order-42").expect("a key"),
    );
    let record = client.store().get(&id).await.expect("a store").expect("a record");
    assert!(matches!(record.state, State::Succeeded { .. }), "{:?}", record.state);
}

#[tokio::test]
async fn an_unkeyed_reply_over_the_limit_is_the_same_error() {
    let network = ScriptedTransport::new().json(200, json!({"id": "x".repeat(200)}));
    let client = Rig::with(Stripe::new("sk_test_hush"), network.clone(), plain().reply_bytes_max(100)).client;
    let error = client.get("/v1/balance").send().await.expect_err("too large");
    assert_eq!(error.code(), "VALIDATION.reply_too_large");
}

#[tokio::test]
async fn a_reply_that_is_not_json_is_a_typed_error_and_stays_readable() {
    let page = "<4242424242424242";
    // Stripe's own, by the mark of a replay: of another's the effect would not be known.
    let marks = [("request-id", "req_1"), ("idempotent-replayed", "true")];
    let own = marks.map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)));
    let own = HeaderMap::from_iter(own);
    let html = Answer::new(StatusCode::OK, own, page);
    let client = client(&ScriptedTransport::new().reply(html));
    let reply = charge(&client).send().await.expect("a reply");
    let error = reply.json::<Value>().expect_err("a page");
    assert!(error.is_unreadable_reply());
    assert_eq!(error.code(), "VALIDATION.reply_not_json");
    let said = "the reply is not the JSON that was asked for; effect applied; its body is in answer()";
    assert_eq!(error.to_string(), format!("{CHARGE}{said}"));
    let why = error.source().map(ToString::to_string);
    assert_eq!(why.as_deref(), Some("it is not JSON (line 1, column 1)"));
    assert!(!format!("{error:?}").contains("4242"));
    assert_eq!(reply.text(), page);
}

fn built(vendor: impl Vendor) -> Result<Client, Error> {
    Client::builder(vendor).transport(ScriptedTransport::new()).build()
}

fn keyed(base_url: &str) -> KeyedConfig {
    KeyedConfig::new("acme", base_url).auth("Authorization", "Bearer ")
}

#[test]
fn an_empty_secret_is_refused_by_every_adapter_when_the_client_is_built() {
    for secret in ["", "   "] {
        let mut vendors = Vec::new();
        for result in [
            built(Stripe::new(secret)),
            built(Postmark::new(secret)),
            built(BigCommerce::new("abc123", secret)),
            built(Keyed::new(keyed("https://api.acme.test"), secret)),
        ] {
            let error = result.expect_err("no secret");
            assert_eq!((error.code(), error.effect()), ("VALIDATION.secret", Effect::None));
            let vendor = error.vendor().expect("named").to_owned();
            assert_eq!(error.to_string(), format!("{vendor}: invalid secret: it is empty"));
            vendors.push(vendor);
        }
        assert_eq!(vendors, ["stripe", "postmark", "bigcommerce", "acme"]);
    }
    let error = built(Stripe::new("sk_live_1\nx")).expect_err("a line break");
    assert_eq!(
        error.to_string(),
        "stripe: invalid secret: it holds a character that a header cannot carry, such as a line break at its end"
    );
    assert!(!format!("{error:?}").contains("sk_live"));
}

#[test]
fn a_base_url_with_credentials_or_not_https_outside_loopback_is_refused() {
    let http = "http outside loopback sends secrets readable; use https or allow_plain_http()";
    let no_scheme = "it lacks its scheme; write it whole, as \"https://api.stripe.com\"";
    let credentials = "it must not contain credentials; give the secret to the adapter";
    for (url, problem) in [
        ("http://api.stripe.com", http),
        ("http://localhost.evil.test", http),
        ("https://user:pass@api.stripe.com", credentials),
        ("https://user@api.stripe.com", credentials),
        ("https://api.stripe.com/?a=1", "it must not have a query or a fragment"),
        ("ftp://127.0.0.1", "the scheme must be https, not ftp"),
        ("api.stripe.com", no_scheme),
        ("", no_scheme),
    ] {
        let error = built(Stripe::new("sk_test_1").base_url(url)).expect_err(url);
        assert_eq!(error.code(), "VALIDATION.base_url", "{url}");
        assert_eq!(error.to_string(), format!("stripe: invalid base_url: {problem}"), "{url}");
        assert!(!format!("{error:?}").contains("pass@"), "{error:?}");
    }
    for url in ["https://api.stripe.com", "http://127.0.0.1:1", "http://[::1]:1", "http://localhost:1"] {
        built(Stripe::new("sk_test_1").base_url(url)).expect(url);
    }
    let plain = Client::builder(Stripe::new("sk_test_1").base_url("http://stripe.internal"));
    plain.transport(ScriptedTransport::new()).allow_plain_http().build().expect("allowed by hand");
}

/// Which of the user's callbacks panics.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Broken {
    Stamp,
    Authorize,
    Classify,
    Lookup,
    Transport,
}

#[derive(Debug)]
struct Clumsy {
    broken: Broken,
    base: Url,
}

impl Clumsy {
    fn trip(&self, at: Broken) {
        assert!(self.broken != at, "the user's own fault");
    }
}

impl Vendor for Clumsy {
    fn name(&self) -> &str {
        "clumsy"
    }

    fn base_url(&self) -> &Url {
        &self.base
    }

    fn account(&self, _: &HeaderMap) -> Cow<'_, str> {
        Cow::Borrowed("main")
    }

    fn stamp(&self, wire_key: WireKey, request: &mut Request) -> Result<String, Error> {
        if request.url.path() == "/broken" {
            self.trip(Broken::Stamp);
        }
        Ok(wire_key.to_string())
    }

    fn authorize(&self, request: &mut Request) {
        if request.url.path() == "/broken" {
            self.trip(Broken::Authorize);
        }
    }

    fn replay_window(&self, _: &Request) -> Option<Duration> {
        None
    }

    fn classify(&self, attempt: &Attempt<'_>) -> Verdict {
        if attempt.request.url.path() == "/broken" {
            self.trip(Broken::Classify);
        }
        match attempt.outcome {
            Ok(answer) if answer.status.is_success() => Verdict::Done { replayed: false },
            _ => Verdict::Retry { effect: Effect::Unknown, not_before: None },
        }
    }

    fn settle_time(&self) -> Duration {
        Duration::ZERO
    }

    fn lookup(&self, subject: &Subject<'_>) -> Option<Request> {
        self.trip(Broken::Lookup);
        Some(Request::new(Method::GET, subject.request.url.clone()))
    }

    fn read_lookup(&self, _: &Subject<'_>, _: &Request, _: &Answer) -> Finding {
        Finding::CannotTell
    }
}

#[derive(Clone, Debug)]
struct ClumsyTransport(Broken);

impl Transport for ClumsyTransport {
    fn send(
        &self,
        request: Request,
        _: steadfast::transport::Limits,
    ) -> BoxFuture<'_, Result<Answer, SendError>> {
        let broken = self.0;
        Box::pin(async move {
            if request.url.path() != "/broken" {
                return Ok(Answer::new(StatusCode::OK, HeaderMap::new(), ""));
            }
            assert!(broken != Broken::Transport, "the user's own fault");
            match broken {
                Broken::Lookup => Err(SendError::new(SendErrorKind::Reset)),
                _ => Ok(Answer::new(StatusCode::OK, HeaderMap::new(), "")),
            }
        })
    }

    fn queue_max(&self, _: &Url) -> Duration {
        Duration::ZERO
    }
}

#[tokio::test]
async fn a_panic_in_a_users_callback_releases_the_gates_and_keeps_the_record() {
    use Broken::{Authorize, Classify, Lookup, Stamp, Transport};
    for broken in [Stamp, Authorize, Classify, Lookup, Transport] {
        let store = Arc::new(Memory::new());
        let clumsy = Clumsy { broken, base: Url::parse("http://127.0.0.1:1").expect("a url") };
        let policy = plain().concurrency(1).breaker(BreakerConfig::default().probes(1));
        let setup = Rig::of(clumsy).policy(policy).network(ClumsyTransport(broken));
        let client = setup.store(Arc::clone(&store)).client();
        let call = client.post("/broken").key("k").backoff(Backoff::none());
        let panicked = tokio::spawn(call.send()).await;
        assert!(panicked.is_err_and(|error| error.is_panic()), "{broken:?}");
        assert_eq!(client.attempts_under_way(), Some(0), "{broken:?}");
        // Before the claim there is nothing to record; after it the operation is in progress, not vanished.
        assert_eq!(store.len(), usize::from(broken != Stamp), "{broken:?}");
        let well = client.post("/well").key("k2").send().await.expect("the one permit is free");
        assert_eq!(well.obtained(), Obtained::Fresh);
        if broken != Stamp {
            let held = client.post("/broken").key("k").send().await.expect_err("it may have been sent");
            assert!(held.is_in_progress(), "{broken:?}: {held}");
        }
    }
}
