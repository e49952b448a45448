//! Each rule at the head of `crates/steadfast-fakes/fixtures/stripe.json`, proven over a real socket.

use std::sync::Arc;
use std::time::Duration;

use http::Method;
use reqwest::{RequestBuilder, Response};
use serde_json::{Value, json};
use steadfast_core::clock::{Clock, Instant};
use steadfast_fakes::{ConflictType, RateLimitReason, StripeAnswer, StripeFake};
use steadfast_testkit::{Fault, TestClock, WaitForm};

use support::answers::{self, header, json_of, shows};

const CHARGE: &str = "amount=1000&currency=usd";
const HOUR: Duration = Duration::from_secs(3600);

/// A fixture of what is sure of Stripe.
fn fixture(name: &str) -> Value {
    answers::fixture(include_str!("../../fixtures/stripe.json"), name)
}

fn call(fake: &StripeFake, method: Method, path: &str) -> RequestBuilder {
    answers::client()
        .request(method, format!("{}{path}", fake.url()))
        .bearer_auth("sk_test_123")
        .header("Content-Type", "application/x-www-form-urlencoded")
}

async fn post(fake: &StripeFake, path: &str, key: &str, body: &'static str) -> Response {
    call(fake, Method::POST, path).header("Idempotency-Key", key).body(body).send().await.unwrap()
}

async fn get(fake: &StripeFake, path: &str) -> Value {
    json_of(call(fake, Method::GET, path).send().await.unwrap()).await
}

#[tokio::test]
async fn a_repeat_is_replayed_byte_for_byte_and_takes_effect_once() {
    let fake = StripeFake::start().await;
    let first = post(&fake, "/v1/payment_intents", "k", CHARGE).await;
    let first_id = header(&first, "request-id").unwrap().to_owned();
    assert_eq!(header(&first, "original-request"), Some(first_id.as_str()));
    assert_eq!(header(&first, "idempotent-replayed"), None);
    assert_eq!(header(&first, "stripe-should-retry"), Some("false"));
    assert_eq!(header(&first, "idempotency-key"), Some("k"));
    let first = first.bytes().await.unwrap();

    let again = post(&fake, "/v1/payment_intents", "k", CHARGE).await;
    assert_eq!(again.status(), 200);
    assert_eq!(header(&again, "idempotent-replayed"), Some("true"));
    assert_eq!(header(&again, "original-request"), Some(first_id.as_str()));
    assert_ne!(header(&again, "request-id"), Some(first_id.as_str()));
    assert_eq!(header(&again, "stripe-should-retry"), None);
    assert_eq!(again.bytes().await.unwrap(), first);

    let effects = fake.ledger().effects();
    assert_eq!(effects.len(), 1);
    assert_eq!((effects[0].method.as_str(), effects[0].path.as_str()), ("POST", "/v1/payment_intents"));
    assert_eq!(fake.ledger().requests_for("k"), 2);
}

#[tokio::test]
async fn the_record_is_the_accounts_not_the_endpoints() {
    let fake = StripeFake::start().await;
    post(&fake, "/v1/customers", "k", "name=a").await;
    let other = post(&fake, "/v1/products", "k", "name=a").await;
    assert_eq!(other.status(), 400);
    let error = json_of(other).await["error"].clone();
    assert_eq!(error["type"], "idempotency_error");
    assert_eq!(
        error["message"],
        "Keys for idempotent requests can only be used for the same endpoint they were first used for \
         ('/v1/customers' vs '/v1/products'). Try using a key other than 'k' if you meant to execute a \
         different request."
    );
    assert_eq!(fake.ledger().count(), 1);
}

#[tokio::test]
async fn another_account_or_mode_is_another_key() {
    let fake = StripeFake::start().await;
    post(&fake, "/v1/customers", "k", "name=a").await;
    let other = call(&fake, Method::POST, "/v1/customers")
        .header("Idempotency-Key", "k")
        .header("Stripe-Account", "acct_2")
        .body("name=a");
    assert_eq!(header(&other.send().await.unwrap(), "idempotent-replayed"), None);
    let live = answers::client()
        .post(format!("{}/v1/customers", fake.url()))
        .bearer_auth("sk_live_1")
        .header("Idempotency-Key", "k")
        .body("name=a");
    assert_eq!(json_of(live.send().await.unwrap()).await["livemode"], true);
    assert_eq!((fake.ledger().effects_for("k").len(), fake.ledger().duplicates()), (3, vec![]));
}

#[tokio::test]
async fn other_params_are_refused_and_never_executed() {
    let fake = StripeFake::start().await;
    post(&fake, "/v1/charges", "k", CHARGE).await;
    let other = post(&fake, "/v1/charges", "k", "amount=2000&currency=usd").await;
    assert_eq!(other.status(), 400);
    let mut expected = fixture("param_mismatch")["body"].clone();
    let message = expected["error"]["message"].as_str().unwrap().replace("<key>", "k");
    expected["error"]["message"] = json!(message);
    assert_eq!(json_of(other).await, expected);
    assert_eq!(fake.ledger().count(), 1);
}

#[tokio::test]
async fn a_validation_error_is_not_stored_so_the_key_then_executes() {
    let fake = StripeFake::start().await;
    let refused = post(&fake, "/v1/payment_intents", "k", "currency=usd").await;
    assert_eq!(refused.status(), 400);
    assert_eq!(json_of(refused).await, fixture("invalid_param")["body"]);
    let corrected = post(&fake, "/v1/payment_intents", "k", CHARGE).await;
    assert_eq!((corrected.status().as_u16(), header(&corrected, "idempotent-replayed")), (200, None));
    assert_eq!(fake.ledger().count(), 1);
}

#[tokio::test]
async fn an_unauthorised_request_is_not_stored() {
    let fake = StripeFake::start().await;
    let url = format!("{}/v1/charges", fake.url());
    let bare = answers::client().post(url).header("Idempotency-Key", "k").body(CHARGE).send().await.unwrap();
    assert_eq!(bare.status(), 401);
    assert_eq!(json_of(bare).await, fixture("unauthorized")["body"]);
    assert_eq!(fake.ledger().count(), 0);
    assert_eq!(header(&post(&fake, "/v1/charges", "k", CHARGE).await, "idempotent-replayed"), None);
}

#[tokio::test]
async fn a_declined_card_is_stored_and_repeats() {
    let fake = StripeFake::start().await;
    let body = "amount=1000&currency=usd&source=tok_chargeDeclined";
    let first = post(&fake, "/v1/charges", "k", body).await;
    assert_eq!(first.status(), 402);
    let (told, mut expected) = (json_of(first).await, fixture("card_declined")["body"].clone());
    let failed = get(&fake, &format!("/v1/charges/{}", told["error"]["charge"].as_str().unwrap())).await;
    shows(&failed, &json!({ "status": "failed", "paid": false }));
    expected["error"]["charge"] = failed["id"].clone();
    assert_eq!(told, expected);
    let again = post(&fake, "/v1/charges", "k", body).await;
    assert_eq!((again.status().as_u16(), header(&again, "idempotent-replayed")), (402, Some("true")));
    assert_eq!(fake.ledger().count(), 0);
}

#[tokio::test]
async fn a_stored_500_is_replayed_for_ever_and_says_not_to_retry() {
    let fake = StripeFake::start().await;
    fake.plan().next(Fault::Stored500);
    for replayed in [None, Some("true"), Some("true")] {
        let answer = post(&fake, "/v1/charges", "k", CHARGE).await;
        assert_eq!((answer.status().as_u16(), header(&answer, "idempotent-replayed")), (500, replayed));
        assert_eq!(header(&answer, "stripe-should-retry"), Some("false"));
        assert_eq!(json_of(answer).await, fixture("stored_500")["body"]);
    }
    assert_eq!(fake.ledger().count(), 0);
}

#[tokio::test]
async fn a_500_before_applying_leaves_the_key_free_and_one_after_leaves_its_effect() {
    let fake = StripeFake::start().await;
    fake.plan().next(Fault::Error500Before);
    let before = post(&fake, "/v1/charges", "k", CHARGE).await;
    assert_eq!((before.status().as_u16(), header(&before, "stripe-should-retry")), (500, None));
    assert_eq!(fake.ledger().count(), 0);

    fake.plan().next(Fault::Error500After);
    assert_eq!(post(&fake, "/v1/charges", "k", CHARGE).await.status(), 500);
    assert_eq!(fake.ledger().count(), 1);
    let again = post(&fake, "/v1/charges", "k", CHARGE).await;
    assert_eq!((again.status().as_u16(), header(&again, "idempotent-replayed")), (200, Some("true")));
    assert_eq!(fake.ledger().count(), 1);
}

#[tokio::test]
async fn an_answer_lost_after_applying_is_replayed_to_the_second_request() {
    let fake = StripeFake::start().await;
    for fault in [Fault::DropAfterApply, Fault::ResetAfterApply] {
        let key = fault.name();
        fake.plan().next(fault);
        let lost =
            call(&fake, Method::POST, "/v1/charges").header("Idempotency-Key", key).body(CHARGE).send().await;
        assert!(lost.is_err());
        assert_eq!(fake.ledger().effects_for(key).len(), 1);
        let again = post(&fake, "/v1/charges", key, CHARGE).await;
        assert_eq!((again.status().as_u16(), header(&again, "idempotent-replayed")), (200, Some("true")));
    }
    fake.plan().next(Fault::DropBeforeRead);
    assert!(
        call(&fake, Method::POST, "/v1/charges")
            .header("Idempotency-Key", "k")
            .body(CHARGE)
            .send()
            .await
            .is_err()
    );
    assert_eq!((fake.ledger().effects_for("k").len(), fake.ledger().requests_for("k")), (0, 0));
    assert_eq!((fake.ledger().count(), fake.ledger().duplicates()), (2, vec![]));
}

#[tokio::test]
async fn a_key_in_use_is_a_409_of_either_type_and_stores_nothing() {
    for (conflict, name) in [
        (ConflictType::InvalidRequest, "invalid_request_error"),
        (ConflictType::Idempotency, "idempotency_error"),
    ] {
        let fake = StripeFake::builder().conflict_type(conflict).start().await;
        fake.plan().next(Fault::KeyInUse);
        let busy = post(&fake, "/v1/charges", "k", CHARGE).await;
        assert_eq!(busy.status(), 409);
        let error = json_of(busy).await["error"].clone();
        shows(&error, &json!({ "code": "idempotency_key_in_use", "type": name }));
        assert!(error["message"].as_str().unwrap().contains("using this Idempotent Key"));
        let after = post(&fake, "/v1/charges", "k", CHARGE).await;
        assert_eq!((after.status().as_u16(), header(&after, "idempotent-replayed")), (200, None));
    }
}

#[tokio::test]
async fn a_key_is_in_use_while_its_first_request_executes() {
    let clock = TestClock::new();
    let fake =
        StripeFake::builder().clock(Arc::new(clock.clone())).busy_for(Duration::from_secs(3)).start().await;
    post(&fake, "/v1/charges", "k", CHARGE).await;
    clock.advance(Duration::from_millis(2_999));
    assert_eq!(post(&fake, "/v1/charges", "k", CHARGE).await.status(), 409);
    clock.advance(Duration::from_millis(1));
    assert_eq!(post(&fake, "/v1/charges", "k", CHARGE).await.status(), 200);
    assert_eq!(fake.ledger().count(), 1);
}

#[tokio::test]
async fn after_24_hours_the_same_key_executes_again() {
    let clock = TestClock::new();
    let fake = StripeFake::builder().clock(Arc::new(clock.clone())).start().await;
    post(&fake, "/v1/charges", "k", CHARGE).await;
    clock.advance(24 * HOUR - Duration::from_millis(1));
    assert_eq!(header(&post(&fake, "/v1/charges", "k", CHARGE).await, "idempotent-replayed"), Some("true"));
    assert_eq!(fake.ledger().count(), 1);
    clock.advance(Duration::from_millis(1));
    assert_eq!(header(&post(&fake, "/v1/charges", "k", CHARGE).await, "idempotent-replayed"), None);
    assert_eq!((fake.ledger().count(), fake.ledger().duplicates()), (2, vec!["k".to_owned()]));
}

/// It is not documented whether Stripe does either, so each is a switch.
#[tokio::test]
async fn another_order_and_another_version_are_other_parameters_as_the_switches_say() {
    let builder = StripeFake::builder;
    for (fake, of_order, of_version) in [
        (builder().start().await, 400, 200),
        (builder().ignore_form_order().start().await, 200, 200),
        (builder().compare_versions().start().await, 400, 400),
        (builder().ignore_form_order().compare_versions().start().await, 200, 400),
    ] {
        let said = async |body: &'static str, version: &str| {
            let sent = call(&fake, Method::POST, "/v1/charges").header("Idempotency-Key", "k");
            let answer = sent.header("Stripe-Version", version).body(body).send().await.unwrap();
            let replayed = header(&answer, "idempotent-replayed").is_some();
            (answer.status().as_u16(), replayed)
        };
        let (now, other) = ("2026-07-29.dahlia", "2025-08-27.basil");
        assert_eq!(said("amount=100&currency=usd&metadata[a]=1", now).await, (200, false));
        assert_eq!(said("amount=100&currency=usd&metadata[a]=1", now).await, (200, true));
        let order = said("metadata[a]=1&currency=usd&amount=100", now).await;
        assert_eq!(order, (of_order, of_order == 200));
        let version = said("amount=100&currency=usd&metadata[a]=1", other).await;
        assert_eq!(version, (of_version, of_version == 200));
        assert_eq!(said("amount=100&currency=usd&metadata[a]=2", now).await, (400, false), "never a value");
        assert_eq!(fake.ledger().count(), 1);
    }
}

/// The order of a list is its meaning: it counts where that of other pairs does not.
#[tokio::test]
async fn the_order_of_a_list_counts_at_either_position_of_the_switch() {
    for fake in [StripeFake::start().await, StripeFake::builder().ignore_form_order().start().await] {
        assert_eq!(post(&fake, "/v1/products", "k", "name=P&images[]=a&images[]=b").await.status(), 200);
        assert_eq!(post(&fake, "/v1/products", "k", "name=P&images[]=b&images[]=a").await.status(), 400);
    }
}

/// The words were seen (stripe-java#682).
#[tokio::test]
async fn a_version_that_is_none_is_refused_before_anything_else_and_not_echoed() {
    let fake = StripeFake::start().await;
    for (version, path) in
        [("x", "/v1/charges"), ("2019-2-19", "/v1/charges"), ("x", "/v2/core/event_destinations")]
    {
        let sent =
            call(&fake, Method::POST, path).header("Stripe-Version", version).header("Idempotency-Key", "k");
        let answer = sent.body(CHARGE).send().await.unwrap();
        assert_eq!(answer.status(), 400, "{version} {path}");
        assert_ne!(header(&answer, "stripe-version"), Some(version));
        let error = json_of(answer).await["error"].clone();
        assert_eq!(error["message"], format!("Invalid Stripe API version: {version}"));
    }
    assert_eq!(fake.ledger().count(), 0);
    assert_eq!(post(&fake, "/v1/charges", "k", CHARGE).await.status(), 200, "the key is free");
}

#[tokio::test]
async fn get_and_delete_ignore_the_key() {
    let fake = StripeFake::start().await;
    let id =
        json_of(post(&fake, "/v1/customers", "k", "name=a").await).await["id"].as_str().unwrap().to_owned();
    let path = format!("/v1/customers/{id}");
    let keyed = |method| call(&fake, method, &path).header("Idempotency-Key", "k").send();
    let read = keyed(Method::GET).await.unwrap();
    assert_eq!((read.status().as_u16(), header(&read, "original-request")), (200, None));
    assert_eq!(json_of(keyed(Method::DELETE).await.unwrap()).await["deleted"], true);
    assert_eq!(keyed(Method::DELETE).await.unwrap().status(), 404);
}

#[tokio::test]
async fn a_key_over_255_characters_is_refused() {
    let fake = StripeFake::start().await;
    assert_eq!(post(&fake, "/v1/charges", &"k".repeat(256), CHARGE).await.status(), 400);
    assert_eq!(post(&fake, "/v1/charges", &"k".repeat(255), CHARGE).await.status(), 200);
}

#[tokio::test]
async fn every_answer_echoes_key_and_version_and_has_a_request_id_of_its_own() {
    let fake = StripeFake::start().await;
    fake.plan().next(Fault::TooManyRequests(WaitForm::None));
    let mut ids = Vec::new();
    for status in [429, 200, 200] {
        let sent = call(&fake, Method::POST, "/v1/charges")
            .header("Idempotency-Key", "k")
            .header("Stripe-Version", "2023-08-16")
            .body(CHARGE);
        let answer = sent.send().await.unwrap();
        assert_eq!(answer.status(), status);
        assert_eq!(header(&answer, "idempotency-key"), Some("k"));
        assert_eq!(header(&answer, "stripe-version"), Some("2023-08-16"));
        ids.push(header(&answer, "request-id").unwrap().to_owned());
    }
    assert!(ids[0] != ids[1] && ids[1] != ids[2] && ids[0] != ids[2]);
}

#[tokio::test]
async fn a_429_names_its_limit_never_sends_retry_after_and_is_not_stored() {
    let fake = StripeFake::start().await;
    for reason in [
        RateLimitReason::GlobalRate,
        RateLimitReason::EndpointRate,
        RateLimitReason::GlobalConcurrency,
        RateLimitReason::EndpointConcurrency,
        RateLimitReason::ResourceSpecific,
    ] {
        fake.answer_next(StripeAnswer::RateLimited(reason));
        let limited = post(&fake, "/v1/charges", "k", CHARGE).await;
        assert_eq!(limited.status(), 429);
        assert_eq!(header(&limited, "stripe-rate-limited-reason"), Some(reason.as_str()));
        assert_eq!(header(&limited, "retry-after"), None);
    }
    fake.answer_next(StripeAnswer::LockTimeout);
    let locked = post(&fake, "/v1/charges", "k", CHARGE).await;
    assert_eq!((locked.status().as_u16(), header(&locked, "stripe-rate-limited-reason")), (429, None));
    assert_eq!(json_of(locked).await, fixture("lock_timeout")["body"]);
    assert_eq!(header(&post(&fake, "/v1/charges", "k", CHARGE).await, "idempotent-replayed"), None);
    assert_eq!(fake.ledger().count(), 1);
}

#[tokio::test]
async fn a_429_fault_takes_each_form_of_wait() {
    let fake = StripeFake::builder().clock(Arc::new(TestClock::new())).start().await;
    for (form, expected) in [
        (WaitForm::None, None),
        (WaitForm::Seconds(3), Some("3")),
        (WaitForm::HttpDate(Duration::from_millis(1_500)), Some("Thu, 01 Jan 2026 00:00:02 GMT")),
        (WaitForm::VendorForm(Duration::from_secs(1)), None),
    ] {
        fake.plan().next(Fault::TooManyRequests(form));
        assert_eq!(header(&post(&fake, "/v1/charges", "k", CHARGE).await, "retry-after"), expected);
    }
    assert_eq!(fake.ledger().count(), 0);
}

#[tokio::test]
async fn answers_that_no_state_leads_to_are_the_fixtures() {
    let fake = StripeFake::start().await;
    for (answer, name, should_retry) in [
        (StripeAnswer::ShouldRetryTrueOn400, "should_retry_true_on_400", Some("true")),
        (StripeAnswer::ShouldRetryFalseOn409, "should_retry_false_on_409", Some("false")),
        (StripeAnswer::OauthError, "oauth_error", None),
    ] {
        fake.answer_next(answer);
        let answer = post(&fake, "/v1/charges", "k", CHARGE).await;
        let expected = fixture(name);
        assert_eq!(u64::from(answer.status().as_u16()), expected["status"]);
        assert_eq!(header(&answer, "stripe-should-retry"), should_retry);
        assert_eq!(json_of(answer).await, expected["body"]);
    }
    fake.plan().next(Fault::Html);
    let html = post(&fake, "/v1/charges", "k", CHARGE).await;
    assert_eq!((html.status().as_u16(), header(&html, "content-type")), (502, Some("text/html")));
    assert_eq!(html.text().await.unwrap(), fixture("gateway_html")["body_raw"].as_str().unwrap());
    assert_eq!(fake.ledger().count(), 0);
}

#[tokio::test]
async fn lists_page_by_creation_time_and_echo_metadata() {
    let clock = TestClock::new();
    let fake = StripeFake::builder().clock(Arc::new(clock.clone())).start().await;
    let mut ids = Vec::new();
    for body in [
        "amount=100&currency=usd&metadata[k]=a",
        "amount=200&currency=usd&metadata[k]=b",
        "amount=300&currency=usd&metadata[k]=c",
    ] {
        let made = json_of(call(&fake, Method::POST, "/v1/charges").body(body).send().await.unwrap()).await;
        ids.push(made["id"].as_str().unwrap().to_owned());
        clock.advance(Duration::from_secs(1));
    }
    let start = TestClock::START.as_millis() / 1000;

    let page = get(&fake, "/v1/charges?limit=2").await;
    assert_eq!(
        (page["data"][0]["id"].as_str(), page["has_more"].as_bool()),
        (Some(ids[2].as_str()), Some(true))
    );
    assert_eq!(page["data"][1]["metadata"], json!({ "k": "b" }));
    let page = get(&fake, &format!("/v1/charges?limit=2&starting_after={}", ids[1])).await;
    assert_eq!(
        (page["data"][0]["id"].as_str(), page["has_more"].as_bool()),
        (Some(ids[0].as_str()), Some(false))
    );
    assert_eq!(page["data"].as_array().unwrap().len(), 1);
    let recent = get(&fake, &format!("/v1/charges?created[gte]={}", start + 1)).await;
    assert_eq!(recent["data"].as_array().unwrap().len(), 2);
    let later = get(&fake, &format!("/v1/charges?created[gt]={}", start + 1)).await;
    assert_eq!(later["data"].as_array().unwrap().len(), 1);
    let none = get(&fake, "/v1/refunds").await;
    shows(&none, &json!({ "data": [], "has_more": false, "url": "/v1/refunds" }));
    assert_eq!(call(&fake, Method::GET, "/v1/charges?limit=101").send().await.unwrap().status(), 400);
}

#[tokio::test]
async fn an_update_merges_metadata_and_is_an_effect() {
    let fake = StripeFake::start().await;
    let made = json_of(post(&fake, "/v1/customers", "1", "metadata[a]=1").await).await;
    let path = format!("/v1/customers/{}", made["id"].as_str().unwrap());
    let changed = json_of(post(&fake, &path, "2", "name=x&metadata[b]=2").await).await;
    shows(&changed, &json!({ "name": "x", "metadata": { "a": "1", "b": "2" } }));
    assert_eq!(post(&fake, "/v1/customers/cus_none", "3", "name=x").await.status(), 404);
    assert_eq!(fake.ledger().count(), 2);
}

#[tokio::test]
async fn a_slow_body_takes_the_test_clocks_time() {
    let clock = TestClock::auto();
    let fake = StripeFake::builder().test_clock(&clock).start().await;
    fake.plan().next(Fault::SlowBody(HOUR));
    let slow = post(&fake, "/v1/charges", "k", CHARGE).await;
    assert_eq!(json_of(slow).await["object"], "charge");
    assert_eq!(clock.now().since(Instant::ORIGIN), HOUR);
    assert_eq!(fake.ledger().count(), 1);
}

/// The content of a refusal: its status, code and parameter.
async fn refusal(fake: &StripeFake, path: &str, body: &str) -> (u16, Value, Value) {
    let answer = call(fake, Method::POST, path).body(body.to_owned()).send().await.unwrap();
    let status = answer.status().as_u16();
    let error = json_of(answer).await["error"].clone();
    (status, error["code"].clone(), error["param"].clone())
}

async fn made(fake: &StripeFake, path: &str, body: &str) -> Value {
    let answer = call(fake, Method::POST, path).body(body.to_owned()).send().await.unwrap();
    assert_eq!(answer.status(), 200, "{path} {body}");
    json_of(answer).await
}

#[tokio::test]
async fn a_form_becomes_lists_hashes_numbers_booleans_and_unset() {
    let fake = StripeFake::start().await;
    let body = "name=Mug&active=false&images[]=a&images[]=b&package_dimensions[height]=1.5&package_dimensions[length]=2\
                &package_dimensions[weight]=3&package_dimensions[width]=4&metadata[n]=7";
    let product = made(&fake, "/v1/products", body).await;
    shows(&product, &json!({ "active": false, "images": ["a", "b"] }));
    assert_eq!(product["metadata"], json!({ "n": "7" }), "metadata is text");
    let path = format!("/v1/products/{}", product["id"].as_str().unwrap());
    let changed = made(&fake, &path, "images[0]=c&metadata[n]=&package_dimensions=").await;
    shows(&changed, &json!({ "images": ["c"], "metadata": {}, "package_dimensions": null }));
}

#[tokio::test]
async fn refunds_never_come_to_more_than_was_captured() {
    let fake = StripeFake::start().await;
    let charge = made(&fake, "/v1/charges", "amount=1000&currency=usd&capture=false").await;
    let path = format!("/v1/charges/{}", charge["id"].as_str().unwrap());
    assert_eq!(made(&fake, &format!("{path}/capture"), "amount=700").await["amount_captured"], 700);
    let of = format!("charge={}", charge["id"].as_str().unwrap());
    assert_eq!(refusal(&fake, "/v1/refunds", &format!("{of}&amount=701")).await.0, 400);
    made(&fake, "/v1/refunds", &format!("{of}&amount=300")).await;
    assert_eq!(refusal(&fake, "/v1/refunds", &format!("{of}&amount=401")).await.2, "amount");
    assert_eq!(made(&fake, "/v1/refunds", &of).await["amount"], 400, "what is left");
    assert_eq!(refusal(&fake, "/v1/refunds", &of).await.1, "charge_already_refunded");
    let charge = get(&fake, &path).await;
    shows(&charge, &json!({ "amount_refunded": 700, "refunded": true }));
    // A request that executed is stored: the key is used up.
    let late = post(&fake, "/v1/charges/ch_x/refunds", "k", "").await;
    assert_eq!((late.status().as_u16(), header(&late, "idempotent-replayed")), (404, None));
}

#[tokio::test]
async fn an_intent_goes_through_its_life_and_no_other() {
    let fake = StripeFake::start().await;
    let body = "amount=900&currency=usd&capture_method=manual&payment_method_types[]=card";
    let intent = made(&fake, "/v1/payment_intents", body).await;
    let path = format!("/v1/payment_intents/{}", intent["id"].as_str().unwrap());
    let state = json!("payment_intent_unexpected_state");
    assert_eq!(intent["status"], "requires_payment_method");
    assert_eq!(refusal(&fake, &format!("{path}/confirm"), "").await.1, state);
    assert_eq!(refusal(&fake, &format!("{path}/capture"), "").await.1, state);
    let held = made(&fake, &path, "payment_method=pm_card_visa").await;
    assert_eq!(held["status"], "requires_confirmation");
    let held = made(&fake, &format!("{path}/confirm"), "expand[]=latest_charge").await;
    assert_eq!(
        (&held["status"], &held["latest_charge"]["captured"]),
        (&json!("requires_capture"), &json!(false))
    );
    assert_eq!(refusal(&fake, &path, "amount=100").await.1, state, "it is held");
    assert_eq!(
        refusal(&fake, &format!("{path}/capture"), "amount_to_capture=901").await.1,
        "amount_too_large"
    );
    let done = made(&fake, &format!("{path}/capture"), "").await;
    shows(&done, &json!({ "status": "succeeded", "amount_received": 900 }));
    for action in ["capture", "confirm", "cancel"] {
        assert_eq!(refusal(&fake, &format!("{path}/{action}"), "").await.1, state, "{action}");
    }
}

#[tokio::test]
async fn basic_credentials_are_the_key_as_user() {
    let fake = StripeFake::start().await;
    let url = format!("{}/v1/charges", fake.url());
    for (user, status) in [("sk_test_123", 200), ("nobody", 401)] {
        let answer = answers::client().get(&url).basic_auth(user, Some("")).send().await.unwrap();
        assert_eq!(answer.status(), status, "{user}");
    }
}

#[tokio::test]
async fn a_webhook_goes_to_loopback_alone_and_waits_if_it_is_held() {
    let fake = StripeFake::start().await;
    made(&fake, "/v1/webhook_endpoints", "url=http://192.0.2.1/&enabled_events[]=charge.succeeded").await;
    let webhooks = format!("{}/_fake/webhooks", fake.url());
    let order = |body: &'static str| answers::client().post(&webhooks).body(body).send();
    order(r#"{"hold": true}"#).await.unwrap();
    made(&fake, "/v1/charges", CHARGE).await;
    let told = json_of(reqwest::get(&webhooks).await.unwrap()).await;
    assert_eq!((&told["held"], &told["deliveries"][0]["answers"]), (&json!(true), &json!([])));
    assert_eq!(told["deliveries"][0]["type"], "charge.succeeded");
    let told = json_of(order("{}").await.unwrap()).await;
    assert_eq!(told["deliveries"][0]["answers"], json!(["not sent: no loopback address"]));
    for wrong in [r#"{"send": ["evt_none"]}"#, r#"{"times": 0}"#, r#"{"sent": []}"#, "x"] {
        assert_eq!(order(wrong).await.unwrap().status(), 400, "{wrong}");
    }
}
