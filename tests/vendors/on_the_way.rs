//! The fate of a request on its way, and what the client makes of it.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use http::{HeaderMap, HeaderValue, Method, StatusCode};
use serde_json::json;
use steadfast::BoxFuture;
use steadfast::clock::Clock as _;
use steadfast::store::Memory;
use steadfast::testkit::fakes::{BigCommerceFake, FakeBuilder, InProcess, Ledger, PostmarkFake, StripeFake};
use steadfast::testkit::{ScriptedTransport, TestClock};
use steadfast::transport::{Answer, Limits, Request, SendError, SendErrorKind, Transport};
use steadfast::vendor::{BigCommerce, Keyed, KeyedConfig, Postmark, Stripe, Vendor};
use steadfast::{Client, Effect, Obtained, Reason};

use support::rig::Rig;

/// The fate of one request on its way to the vendor.
#[derive(Clone, Debug)]
enum Way {
    /// It arrives, and so does the answer.
    Open,
    /// Neither arrives.
    Lost,
    /// It arrives and is executed, and its answer is lost.
    AnswerLost,
    /// Somebody on the way answers instead, and the vendor never sees it.
    Page(Answer),
    /// The vendor executes it, and somebody on the way answers.
    PageAfter(Answer),
}

/// A network with somebody between the client and the vendor: one way for each write, then all are open. Reads get
/// through.
#[derive(Debug)]
struct Between {
    vendor: InProcess,
    ways: Mutex<VecDeque<Way>>,
    sent: Mutex<Vec<Request>>,
}

impl Between {
    fn new(vendor: InProcess, ways: impl IntoIterator<Item = Way>) -> Arc<Between> {
        Arc::new(Between { vendor, ways: Mutex::new(ways.into_iter().collect()), sent: Mutex::default() })
    }

    /// How many requests with this method left.
    fn count(&self, method: &Method) -> usize {
        self.sent.lock().expect("no panic").iter().filter(|request| request.method == *method).count()
    }
}

/// The client's hold on it.
#[derive(Clone, Debug)]
struct Wire(Arc<Between>);

impl Transport for Wire {
    fn send(&self, request: Request, limits: Limits) -> BoxFuture<'_, Result<Answer, SendError>> {
        let between = &self.0;
        between.sent.lock().expect("no panic").push(request.clone());
        let way = if request.method.is_safe() {
            Way::Open
        } else {
            between.ways.lock().expect("no panic").pop_front().unwrap_or(Way::Open)
        };
        Box::pin(async move {
            match way {
                Way::Open => between.vendor.send(request, limits).await,
                Way::Lost => Err(SendError::new(SendErrorKind::Timeout)),
                Way::AnswerLost => {
                    between.vendor.send(request, limits).await?;
                    Err(SendError::new(SendErrorKind::Timeout))
                }
                Way::Page(page) => Ok(page),
                Way::PageAfter(page) => {
                    between.vendor.send(request, limits).await?;
                    Ok(page)
                }
            }
        })
    }

    fn queue_max(&self, _: &url::Url) -> Duration {
        Duration::ZERO
    }
}

fn html(status: u16) -> Answer {
    let mut headers = HeaderMap::new();
    headers.insert("content-type", HeaderValue::from_static("text/html"));
    let body = format!("<html><head><title>{status}</title></head></html>");
    Answer::new(StatusCode::from_u16(status).expect("a status"), headers, body)
}

fn text(status: u16, body: &str) -> Answer {
    Answer::new(StatusCode::from_u16(status).expect("a status"), HeaderMap::new(), body.to_owned())
}

fn client_on(vendor: impl Vendor, wire: &Arc<Between>, clock: &TestClock, store: &Arc<Memory>) -> Client {
    Rig::of(vendor).network(Wire(Arc::clone(wire))).clock(clock).store(Arc::clone(store)).client()
}

fn client(vendor: impl Vendor, wire: &Arc<Between>, clock: &TestClock) -> Client {
    client_on(vendor, wire, clock, &Arc::new(Memory::new()))
}

fn stripe(
    clock: &TestClock,
    ways: impl IntoIterator<Item = Way>,
) -> (Client, Ledger, Arc<Between>, StripeFake) {
    let fake = StripeFake::builder().test_clock(clock).in_process();
    let wire = Between::new(fake.transport(), ways);
    (client(Stripe::new("sk_test_1").base_url(fake.url()), &wire, clock), fake.ledger(), wire, fake)
}

const CHARGE: [(&str, &str); 2] = [("amount", "1000"), ("currency", "usd")];

const FOREIGN: [u16; 7] = [400, 404, 405, 413, 421, 431, 403];

/// Finding D2.
#[tokio::test]
async fn a_proxys_4xx_after_a_lost_answer_does_not_speak_for_the_charge() {
    for status in FOREIGN {
        for page in [html(status), text(status, ""), text(status, r#"{"error":{"type":"x"}}"#)] {
            let clock = TestClock::auto();
            let (client, ledger, wire, _fake) = stripe(&clock, [Way::AnswerLost, Way::Page(page)]);
            let reply = client.post("/v1/charges").key("k").form(&CHARGE).send().await;
            let reply = reply.unwrap_or_else(|error| panic!("{status}: {error}"));
            assert_eq!(
                reply.obtained(),
                Obtained::Replayed,
                "{status}: the window is open, so it is sent again"
            );
            assert_eq!((ledger.count(), wire.count(&Method::POST)), (1, 3), "{status}");
        }
    }
}

/// Finding D2.
#[tokio::test]
async fn a_proxys_4xx_to_a_first_attempt_is_no_definite_no() {
    for status in FOREIGN {
        let clock = TestClock::auto();
        let (client, ledger, ..) = stripe(&clock, [Way::PageAfter(html(status))]);
        let reply = client.post("/v1/charges").key("k").form(&CHARGE).send().await.expect("sent again");
        assert_eq!((reply.obtained(), ledger.count()), (Obtained::Replayed, 1), "{status}");
    }
}

/// Finding D2.
#[tokio::test]
async fn idempotency_error_after_a_lost_answer_is_no_proof() {
    let error = json!({"error": {"type": "idempotency_error", "message": "other parameters"}}).to_string();
    for status in [400, 404] {
        let mut page = text(status, &error);
        page.headers.insert("request-id", HeaderValue::from_static("req_1"));
        // The account's own version was changed between the two: the vendor's own no, and the charge was made.
        let clock = TestClock::auto();
        let (client, ledger, wire, _fake) = stripe(&clock, [Way::AnswerLost, Way::Page(page.clone())]);
        let reply = client.post("/v1/charges").key("k").form(&CHARGE).send().await.expect("found");
        assert_eq!((reply.obtained(), ledger.count()), (Obtained::Reconciled, 1), "{status}");
        assert_eq!(wire.count(&Method::POST), 2, "{status}: it is final for the resend");

        // Where nothing can be looked up, a person has to.
        let clock = TestClock::auto();
        let (client, ledger, wire, _fake) = stripe(&clock, [Way::AnswerLost, Way::Page(page.clone())]);
        let method = [("type", "card"), ("card[token]", "tok_visa")];
        let call = client.post("/v1/payment_methods").key("k").form(&method);
        let error = call.send().await.expect_err("unknown");
        assert_eq!((error.reason(), error.effect()), (Some(Reason::Unknown), Effect::Unknown), "{status}");
        assert_eq!((ledger.count(), wire.count(&Method::POST)), (1, 2), "{status}");
    }
}

/// Finding D2.
#[tokio::test]
async fn where_a_lookup_proves_the_absence_the_later_no_is_the_outcome() {
    let clock = TestClock::auto();
    let fake = BigCommerceFake::builder().customer(7).test_clock(&clock).in_process();
    let wire = Between::new(
        fake.transport(),
        [Way::Lost, Way::Page(text(400, r#"[{"status":400,"message":"The field 'x' is invalid."}]"#))],
    );
    let store = BigCommerce::new("abc123", "token").base_url(fake.url());
    let client = client(store, &wire, &clock);
    let error = client.post("/v2/orders").key("k").json(&mug()).send().await;
    let error = error.expect_err("refused");
    assert!(error.is_refused(), "{error}");
    assert_eq!((error.effect(), fake.ledger().count()), (Effect::None, 0));
}

fn keyed(more: &str) -> Keyed {
    let text = format!(
        "name = 'keyed'\nbase_url = 'https://keyed.test'\nkey = {{ header = 'Idempotency-Key' }}\n\
         auth = {{ header = 'Authorization', prefix = 'Bearer ' }}\n{more}"
    );
    let config: KeyedConfig = toml::from_str(&text).expect("a configuration");
    Keyed::new(config, "sk_test_1")
}

/// Finding D2.
#[tokio::test]
async fn a_proxys_4xx_at_a_keyed_vendor_is_sent_again_in_the_window_and_else_left_to_a_person() {
    for status in FOREIGN {
        let clock = TestClock::auto();
        let fake = StripeFake::builder().test_clock(&clock).in_process();
        let wire = Between::new(fake.transport(), [Way::AnswerLost, Way::Page(html(status))]);
        let client = client(keyed("window = '24h'"), &wire, &clock);
        let reply = client.post("/v1/charges").key("k").form(&CHARGE).send().await.expect("sent again");
        assert_eq!((reply.attempts(), fake.ledger().count()), (3, 1), "{status}");

        // Nothing is known of what the vendor keeps, and the page may have come after the charge.
        let clock = TestClock::auto();
        let fake = StripeFake::builder().test_clock(&clock).in_process();
        let wire = Between::new(fake.transport(), [Way::PageAfter(html(status))]);
        let client = self::client(keyed(""), &wire, &clock);
        let error = client.post("/v1/charges").key("k").form(&CHARGE).send().await.expect_err("unknown");
        assert_eq!((error.effect(), fake.ledger().count()), (Effect::Unknown, 1), "{status}");
        assert!(error.is_dead_letter(), "{status}: {error}");
    }
}

/// Finding D2.
#[tokio::test]
async fn a_proxys_4xx_about_a_mail_or_an_order_is_looked_up() {
    for status in FOREIGN {
        let clock = TestClock::auto();
        let fake = PostmarkFake::builder().test_clock(&clock).in_process();
        let wire = Between::new(fake.transport(), [Way::PageAfter(html(status))]);
        let client = client(Postmark::new("token").base_url(fake.url()), &wire, &clock);
        let mail = json!({"From": "a@shop.test", "To": "b@x.test", "TextBody": "Paid."});
        let reply = client.post("/email").key("k").json(&mail).send().await.expect("found");
        assert_eq!((reply.obtained(), fake.ledger().count()), (Obtained::Reconciled, 1), "{status}");

        let clock = TestClock::auto();
        let fake = BigCommerceFake::builder().customer(7).test_clock(&clock).in_process();
        let wire = Between::new(fake.transport(), [Way::PageAfter(html(status))]);
        let store = BigCommerce::new("abc123", "token").base_url(fake.url());
        let client = self::client(store, &wire, &clock);
        let order = mug();
        let reply = client.post("/v2/orders").key("k").json(&order).send().await.expect("found");
        assert_eq!((reply.obtained(), fake.ledger().count()), (Obtained::Reconciled, 1), "{status}");
    }
}

const REFUNDS: &str = "/v3/orders/100/payment_actions/refunds";

/// The store holds it from the beginning.
fn with_order(clock: &TestClock) -> FakeBuilder<BigCommerceFake> {
    BigCommerceFake::builder().customer(7).test_clock(clock).order(100)
}

fn mug() -> serde_json::Value {
    json!({"customer_id": 7, "billing_address": {"zip": "12345"}, "products": [{"product_id": 1, "quantity": 1}]})
}

fn refund() -> serde_json::Value {
    let item = json!({"item_type": "PRODUCT", "item_id": 1, "quantity": 1, "reason": "torn"});
    json!({"items": [item], "payments": [{"provider_id": "custom", "amount": 10, "offline": true}]})
}

/// Finding B1.
#[tokio::test]
async fn a_refund_is_found_by_the_reason_of_its_items() {
    let clock = TestClock::auto();
    let fake = with_order(&clock).in_process();
    let wire = Between::new(fake.transport(), [Way::AnswerLost, Way::Open, Way::Lost]);
    let client = client(BigCommerce::new("abc123", "token").base_url(fake.url()), &wire, &clock);
    let reply = client.post(REFUNDS).key("one").json(&refund()).send().await.expect("found");
    assert_eq!((reply.obtained(), fake.ledger().count()), (Obtained::Reconciled, 1));
    let body: serde_json::Value = reply.json().expect("json");
    let reason = body["data"]["items"][0]["reason"].as_str().expect("a reason").to_owned();
    assert_eq!(reason, format!("torn [{}]", reply.wire_key().expect("a key")));

    // A listed refund shows that reasons are kept: a miss is proof.
    client.post(REFUNDS).key("two").json(&refund()).send().await.expect("another");
    let reply = client.post(REFUNDS).key("three").json(&refund()).send().await.expect("sent again");
    assert_eq!((reply.attempts(), fake.ledger().count()), (2, 3));
    assert_eq!(fake.ledger().duplicates(), Vec::<String>::new());
}

/// Finding B1.
#[tokio::test]
async fn where_reasons_are_dropped_a_lost_answer_is_no_second_refund() {
    for way in [Way::AnswerLost, Way::Lost] {
        let clock = TestClock::auto();
        let fake = with_order(&clock).drops_refund_reasons().in_process();
        let wire = Between::new(fake.transport(), [Way::Open, way]);
        let client = client(BigCommerce::new("abc123", "token").base_url(fake.url()), &wire, &clock);
        client.post(REFUNDS).key("one").json(&refund()).send().await.expect("a refund");
        let error = client.post(REFUNDS).key("two").json(&refund()).send().await.expect_err("unknown");
        assert_eq!((error.is_dead_letter(), error.effect()), (true, Effect::Unknown), "{error}");
        assert_eq!((fake.ledger().duplicates().len(), wire.count(&Method::POST)), (0, 2));
    }
}

/// Finding B2.
#[tokio::test]
async fn postmarks_paths_in_any_spelling_are_stamped_and_looked_up() {
    let template = json!({"From": "a@shop.test", "To": "b@x.test", "TemplateId": 1, "TemplateModel": {}});
    let mail = json!({"From": "a@shop.test", "To": "b@x.test", "TextBody": "Paid."});
    for (path, body) in [
        ("/email/", mail.clone()),
        ("/Email", mail.clone()),
        ("/email/batch/", json!([mail])),
        ("/email/withTemplate/", template.clone()),
        ("/email/batchwithtemplates/", json!({"Messages": [template]})),
    ] {
        let clock = TestClock::auto();
        let fake = PostmarkFake::builder().test_clock(&clock).in_process();
        let wire = Between::new(fake.transport(), [Way::AnswerLost]);
        let client = client(Postmark::new("token").base_url(fake.url()), &wire, &clock);
        let reply = client.post(path).key("k").json(&body).send().await;
        let reply = reply.unwrap_or_else(|error| panic!("{path}: {error}"));
        assert_eq!((reply.obtained(), fake.ledger().count()), (Obtained::Reconciled, 1), "{path}");

        let network =
            ScriptedTransport::new().json(200, json!({"ErrorCode": 300, "Message": "Invalid 'From'"}));
        let client = Client::builder(Postmark::new("token")).transport(network).clock(clock).build();
        let error = client.expect("a client").post(path).key("k").json(&body).send().await;
        let error = error.expect_err("a 200 with an error code");
        assert_eq!((error.is_refused(), error.effect()), (true, Effect::None), "{path}");
    }
}

/// D3: A host whose clock is ahead while it claims, and is set right afterwards.
#[tokio::test]
async fn a_clock_that_was_ahead_at_the_claim_does_not_hide_the_charge() {
    for ahead in [Duration::from_secs(12 * 60), Duration::from_secs(25 * 3600)] {
        let clock = TestClock::auto();
        let exact = TestClock::auto();
        let fake = StripeFake::builder().clock(Arc::new(exact.clone())).in_process();
        let wire = Between::new(fake.transport(), [Way::AnswerLost]);
        let vendor = || Stripe::new("sk_test_1").base_url(fake.url()).replay_window(Duration::from_secs(1));
        clock.jump_wall(ahead);
        let store = Arc::new(Memory::new());
        let call = |client: &Client| client.post("/v1/charges").key("k").form(&CHARGE);
        let short = Duration::from_millis(100);
        let client = client_on(vendor(), &wire, &clock, &store);
        call(&client).deadline(short).send().await.expect_err("its answer was lost");
        // Days later the operation is carried on with.
        for clock in [&clock, &exact] {
            clock.advance(Duration::from_secs(3 * 24 * 3600));
        }
        clock.set_wall(exact.wall());
        let outcome = call(&client).send().await;
        assert_eq!(fake.ledger().count(), 1, "{ahead:?}: {outcome:?}");
        if let Err(error) = outcome {
            assert_eq!(error.effect(), Effect::Unknown, "{ahead:?}: {error}");
        }
    }
}
