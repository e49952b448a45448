//! BigCommerce's documented behaviour, fact by fact, kept by engine and adapter together.

use std::borrow::Cow;
use std::time::Duration;

use http::{HeaderMap, HeaderValue, Method};
use serde_json::{Value, json};
use steadfast::operation::WireKey;
use steadfast::testkit::fakes::{BigCommerceAnswer, BigCommerceFake};
use steadfast::testkit::{Fault, TestClock};
use steadfast::transport::{Answer, Request};
use steadfast::url::Url;
use steadfast::vendor::{Attempt, BigCommerce, Finding, Subject, Vendor, Verdict};
use steadfast::{Call, Client, Effect, Error, OnUnknown};

use super::vendors::{
    FRESH, NOBODY_KNOWS, RECONCILED, Rig, bigcommerce, bigcommerce_at, ending, ms, order, promise_holds, secs,
};

/// The token of a payment is a secret: it comes from an adapter and not from the call.
#[derive(Debug)]
struct Payments(BigCommerce, String);

impl Vendor for Payments {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn base_url(&self) -> &Url {
        Vendor::base_url(&self.0)
    }

    fn account(&self, headers: &HeaderMap) -> Cow<'_, str> {
        self.0.account(headers)
    }

    fn stamp(&self, wire_key: WireKey, request: &mut Request) -> Result<String, Error> {
        self.0.stamp(wire_key, request)
    }

    fn authorize(&self, request: &mut Request) {
        self.0.authorize(request);
        request.headers.insert("authorization", HeaderValue::from_str(&self.1).expect("a token"));
    }

    fn replay_window(&self, request: &Request) -> Option<Duration> {
        self.0.replay_window(request)
    }

    fn classify(&self, attempt: &Attempt<'_>) -> Verdict {
        self.0.classify(attempt)
    }

    fn settle_time(&self) -> Duration {
        Vendor::settle_time(&self.0)
    }

    fn lookup(&self, subject: &Subject<'_>) -> Option<Request> {
        self.0.lookup(subject)
    }

    fn read_lookup(&self, subject: &Subject<'_>, asked: &Request, answer: &Answer) -> Finding {
        self.0.read_lookup(subject, asked, answer)
    }
}

fn product(client: &Client, key: &str, price: u32) -> Call {
    let body = json!({"name": "Mug", "type": "physical", "weight": 1, "price": price});
    client.post("/v3/catalog/products").key(key).json(&body)
}

/// Fact 2: a 429 waits for the store's window, for this call and for every other.
#[tokio::test]
async fn fact_2_a_429_holds_back_every_call_to_the_store() {
    let (rig, fake) = bigcommerce().await;
    fake.answer_next(BigCommerceAnswer::RateLimited);
    let error = order(&rig.client, "order-42").deadline(secs(1)).send().await.expect_err("15 s are too long");
    assert!(error.is_deadline());
    let other = order(&rig.client, "order-43").send().await.expect_err("the store asked for a pause");
    assert_eq!((other.gate(), other.effect()), (Some(steadfast::Gate::Pause), Effect::None));
    rig.clock.advance(secs(16));
    for key in ["order-42", "order-43"] {
        let outcome = order(&rig.client, key).send().await;
        assert_eq!((ending(&outcome), promise_holds(&outcome, &fake.ledger(), key)), (FRESH, 1));
    }
}

/// Fact 2: a quota that other apps use up with us is waited for by what the answer says.
#[tokio::test]
async fn fact_2_a_spent_quota_is_waited_for_and_nothing_is_lost() {
    let clock = TestClock::auto();
    let fake = BigCommerceFake::builder().customer(7).test_clock(&clock).quota(3).start().await;
    let rig = Rig::over_sockets(bigcommerce_at(&fake), &clock);
    for n in 0..7 {
        let outcome = order(&rig.client, &format!("order-{n}")).send().await;
        assert_eq!((ending(&outcome), promise_holds(&outcome, &fake.ledger(), "quota")), (FRESH, 1));
    }
    assert_eq!((fake.ledger().count(), rig.posts()), (7, 9), "one refusal per full window");
    assert_eq!(rig.clock.slept(), [ms(31_500), ms(31_500)]);
}

/// Fact 3: the documentation says to retry a 504, and the POST has executed: it is looked up first.
#[tokio::test]
async fn fact_3_a_504_is_looked_up_and_not_retried_blindly() {
    for answer in [BigCommerceAnswer::GatewayTimeout, BigCommerceAnswer::GatewayTimeoutHtml] {
        let (rig, fake) = bigcommerce().await;
        fake.answer_next(answer);
        let outcome = order(&rig.client, "order-42").send().await;
        assert_eq!((ending(&outcome), rig.posts(), rig.gets()), (RECONCILED, 1, 1), "{answer:?}");
        assert_eq!(promise_holds(&outcome, &fake.ledger(), "504"), 1);
    }
}

/// Fact 4: a 409 for somebody else's product is a refusal, and not ours.
#[tokio::test]
async fn fact_4_a_409_for_somebody_elses_resource_is_refused() {
    let (rig, fake) = bigcommerce().await;
    product(&rig.client, "theirs", 10).send().await.expect("somebody's mug");
    let error = product(&rig.client, "ours", 12).send().await.expect_err("the name is taken");
    assert_eq!((error.code(), error.effect()), ("PROVIDER.duplicate", Effect::None));
    assert_eq!((rig.posts(), fake.ledger().count()), (2, 1));
}

/// Fact 4: after a lost answer the resource is looked up and compared; the same name is not enough.
#[tokio::test]
async fn fact_4_what_is_found_is_ours_only_if_it_is_what_we_sent() {
    let (rig, fake) = bigcommerce().await;
    fake.plan().next(Fault::DropAfterApply);
    let outcome = product(&rig.client, "ours", 12).send().await;
    assert_eq!((ending(&outcome), fake.ledger().count()), (RECONCILED, 1));

    let (rig, fake) = bigcommerce().await;
    product(&rig.client, "theirs", 10).send().await.expect("somebody's mug");
    fake.plan().next(Fault::Error500Before);
    let outcome = product(&rig.client, "ours", 12).send().await;
    assert_eq!((ending(&outcome), fake.ledger().count()), (NOBODY_KNOWS, 1), "another price");
}

fn parcel(client: &Client, key: &str, quantity: u32) -> Call {
    let body = json!({"external_order_id": "order-7", "customer_id": 0, "billing_address": {"zip": "12345"},
        "products": [{"name": "Mug", "quantity": quantity, "price_inc_tax": 10, "price_ex_tax": 10}]});
    client.post("/v2/orders").key(key).json(&body)
}

/// Fact 7: a caller may give two orders one id, and then the first is not taken for the second.
#[tokio::test]
async fn fact_7_the_first_of_two_parcels_is_not_taken_for_the_second() {
    let (rig, fake) = bigcommerce().await;
    parcel(&rig.client, "parcel-1", 1).send().await.expect("the first parcel");
    fake.plan().next(Fault::DropBeforeRead);
    let outcome = parcel(&rig.client, "parcel-2", 2).send().await;
    assert_eq!((ending(&outcome), fake.ledger().count()), (NOBODY_KNOWS, 1));

    let (rig, fake) = bigcommerce().await;
    fake.plan().next(Fault::DropAfterApply);
    let outcome = parcel(&rig.client, "parcel-1", 3).send().await;
    assert_eq!(
        (ending(&outcome), fake.ledger().count(), rig.gets()),
        (RECONCILED, 1, 3),
        "list, lines, order"
    );
}

/// Fact 7: staff archive an order, and the list does not show it any more.
#[tokio::test]
async fn fact_7_an_order_that_was_archived_meanwhile_is_not_made_again() {
    let (rig, fake) = bigcommerce().await;
    fake.plan().next(Fault::DropAfterApply);
    let short =
        order(&rig.client, "order-42").deadline(secs(5)).send().await.expect_err("no time to look it up");
    assert_eq!(short.effect(), Effect::Unknown);
    let id = &fake.ledger().effects()[0].id;
    rig.client.delete(&format!("/v2/orders/{id}")).send().await.expect("it is archived");
    rig.clock.advance(secs(60));
    let outcome = order(&rig.client, "order-42").send().await;
    let made = fake.ledger().effects().iter().filter(|effect| effect.method == "POST").count();
    assert_eq!((ending(&outcome), made), (RECONCILED, 1));
}

/// Fact 7: a row without an `id` adds a product, each time that it is sent.
#[tokio::test]
async fn fact_7_a_change_that_adds_a_product_is_sent_once() {
    for (choice, expected) in [(OnUnknown::ByMethod, 1), (OnUnknown::Park, 1), (OnUnknown::Resend, 2)] {
        let (rig, fake) = bigcommerce().await;
        order(&rig.client, "order-42").send().await.expect("an order");
        let id = &fake.ledger().effects()[0].id;
        let row = json!({"name": "Cup", "quantity": 1, "price_inc_tax": 5, "price_ex_tax": 5});
        fake.plan().next(Fault::DropAfterApply);
        let change =
            rig.client.put(&format!("/v2/orders/{id}")).key("add-a-cup").json(&json!({"products": [row]}));
        let outcome = change.on_unknown(choice).send().await;
        let lines = rig.client.get(&format!("/v2/orders/{id}/products")).send().await.expect("its lines");
        let lines: Value = lines.json().expect("a list");
        assert_eq!(lines.as_array().map(Vec::len), Some(1 + expected), "{choice:?}");
        assert_eq!(outcome.is_ok(), choice == OnUnknown::Resend, "{choice:?}");
    }
    // So may a body that is not read: one in XML, or with products that are no list.
    for body in ["<order><products><product/></products></order>", r#"{"products": {"0": {"name": "Cup"}}}"#]
    {
        let network = steadfast::testkit::ScriptedTransport::new()
            .fail(steadfast::transport::SendErrorKind::Reset)
            .status(200);
        let rig = support::rig::Rig::of(BigCommerce::new("abc123", "token")).network(network.clone()).build();
        let error = rig.client.put("/v2/orders/100").key("add").bytes(body).send().await.expect_err("lost");
        assert_eq!((network.requests().len(), error.effect()), (1, Effect::Unknown), "{body}");
    }
    // A change of a line that is there may be repeated.
    let (rig, fake) = bigcommerce().await;
    order(&rig.client, "order-42").send().await.expect("an order");
    fake.plan().next(Fault::DropAfterApply);
    let id = &fake.ledger().effects()[0].id;
    let change = rig.client.put(&format!("/v2/orders/{id}")).key("status").json(&json!({"status_id": 2}));
    assert_eq!(change.send().await.expect("it is repeated").attempts(), 2);
}

/// The credential that pays for the order 100, as the store gives it once the order is Incomplete.
async fn payment_token(fake: &BigCommerceFake) -> String {
    let ask = |method: Method, path: &str, body: Value| {
        let request = reqwest::Client::new().request(method, format!("{}/stores/abc123{path}", fake.url()));
        request.header("X-Auth-Token", "token").body(body.to_string()).send()
    };
    let open = ask(Method::PUT, "/v2/orders/100", json!({"status_id": 0})).await.expect("an answer");
    assert_eq!(open.status(), 200);
    let given = ask(Method::POST, "/v3/payments/access_tokens", json!({"order": {"id": 100}}));
    let given = given.await.expect("an answer").bytes().await.expect("a body");
    let given: Value = serde_json::from_slice(&given).expect("JSON");
    format!("PAT {}", given["data"]["id"].as_str().expect("a token"))
}

/// Fact 5: payment errors 10000 and 30105 send a person to the order first: nothing is paid twice.
#[tokio::test]
async fn fact_5_an_unsettled_payment_is_parked() {
    for (answer, effects) in [
        (BigCommerceAnswer::PaymentUnavailable { applied: true }, 1),
        (BigCommerceAnswer::PaymentUnavailable { applied: false }, 0),
        (BigCommerceAnswer::PaymentDuplicate, 0),
    ] {
        let clock = TestClock::auto();
        let fake = BigCommerceFake::builder().test_clock(&clock).order(100).start().await;
        let token = payment_token(&fake).await;
        let before = fake.ledger().count();
        let rig = Rig::over_sockets(Payments(bigcommerce_at(&fake), token), &clock);
        fake.answer_next(answer);
        let pay = || {
            let body = json!({"payment": {"payment_method_id": "fake.card", "instrument": {"type": "stored_card", "token": "t"}}});
            rig.client.post("/payments").key("order-42/pay").json(&body)
        };
        for _ in 0..2 {
            assert_eq!(ending(&pay().send().await), NOBODY_KNOWS, "{answer:?}");
        }
        assert_eq!((rig.posts(), rig.gets(), fake.ledger().count() - before), (1, 0, effects), "{answer:?}");
    }
}
