//! The rules that Stripe documents of its API v2, proven at the fake over a real socket.

use std::sync::Arc;
use std::time::Duration;

use http::Method;
use reqwest::RequestBuilder;
use serde_json::{Value, json};
use steadfast_fakes::{StripeAnswer, StripeFake};
use steadfast_testkit::{Fault, TestClock, WaitForm};

use support::answers::{self, json_of, shows, told};

const PATH: &str = "/v2/core/event_destinations";
const DAY: Duration = Duration::from_secs(24 * 3600);

fn call(fake: &StripeFake, method: Method, path: &str) -> RequestBuilder {
    call_as(fake, "sk_test_123", method, path)
}

fn call_as(fake: &StripeFake, secret: &str, method: Method, path: &str) -> RequestBuilder {
    let request = answers::client().request(method, format!("{}{path}", fake.url()));
    request.bearer_auth(secret).header("Stripe-Version", "2026-07-29.dahlia")
}

fn destination(name: &str) -> Value {
    json!({
        "name": name, "type": "webhook_endpoint", "event_payload": "thin", "enabled_events": ["v1.charge.succeeded"],
        "webhook_endpoint": { "url": "https://shop.test/hook" },
    })
}

fn posted(fake: &StripeFake, path: &str, key: &str, body: &Value) -> RequestBuilder {
    call(fake, Method::POST, path)
        .header("Idempotency-Key", key)
        .header("Content-Type", "application/json")
        .body(body.to_string())
}

async fn post(fake: &StripeFake, path: &str, key: &str, body: &Value) -> (u16, Value) {
    told(posted(fake, path, key, body)).await
}

async fn delete(fake: &StripeFake, id: &str, key: &str) -> (u16, Value) {
    told(call(fake, Method::DELETE, &format!("{PATH}/{id}")).header("Idempotency-Key", key)).await
}

async fn get(fake: &StripeFake, path: &str) -> (u16, Value) {
    told(call(fake, Method::GET, path)).await
}

async fn made(fake: &StripeFake, name: &str) -> String {
    let (status, object) = post(fake, PATH, &format!("made-{name}"), &destination(name)).await;
    assert_eq!(status, 200, "{object}");
    object["id"].as_str().unwrap().to_owned()
}

fn code(answer: &(u16, Value)) -> (u16, &str) {
    (answer.0, answer.1["error"]["code"].as_str().unwrap_or("none"))
}

#[tokio::test]
async fn a_destination_is_made_changed_disabled_enabled_and_removed() {
    let clock = TestClock::new();
    let fake = StripeFake::builder().clock(Arc::new(clock.clone())).start().await;
    let (status, object) = post(&fake, PATH, "k1", &destination("a")).await;
    let id = object["id"].as_str().unwrap().to_owned();
    let expected = json!({
        "id": id, "object": "v2.core.event_destination", "amazon_eventbridge": null, "azure_event_grid": null,
        "created": "2026-01-01T00:00:00.000Z", "description": "", "enabled_events": ["v1.charge.succeeded"],
        "event_payload": "thin", "events_from": ["@self"], "livemode": false, "metadata": {}, "name": "a",
        "snapshot_api_version": null, "status": "enabled", "status_details": null, "type": "webhook_endpoint",
        "updated": "2026-01-01T00:00:00.000Z", "webhook_endpoint": { "signing_secret": null, "url": null },
    });
    assert_eq!((status, &object), (200, &expected));
    assert!(id.starts_with("ed_test_"));

    clock.advance(Duration::from_millis(1_250));
    let path = format!("{PATH}/{id}");
    let change = json!({
        "name": "b", "description": "d", "metadata": { "x": "1", "y": "2" }, "include": ["webhook_endpoint.url"],
        "webhook_endpoint": { "url": "http://shop.test/other" },
    });
    let (_, changed) = post(&fake, &path, "k2", &change).await;
    shows(&changed, &json!({ "name": "b", "description": "d" }));
    assert_eq!(
        changed["webhook_endpoint"],
        json!({ "signing_secret": null, "url": "http://shop.test/other" })
    );
    assert_eq!(changed["updated"], "2026-01-01T00:00:01.250Z");
    assert_eq!((&changed["created"], &changed["include"]), (&object["created"], &Value::Null));
    let (_, changed) = post(&fake, &path, "k3", &json!({ "metadata": { "x": null, "z": "3" } })).await;
    assert_eq!(changed["metadata"], json!({ "y": "2", "z": "3" }));

    let (_, disabled) = post(&fake, &format!("{path}/disable"), "k4", &json!({})).await;
    assert_eq!(disabled["status"], "disabled");
    assert_eq!(disabled["status_details"], json!({ "disabled": { "reason": "user" } }));
    let (_, enabled) = told(call(&fake, Method::POST, &format!("{path}/enable"))).await;
    shows(&enabled, &json!({ "status": "enabled", "status_details": null }));
    assert_eq!(get(&fake, &path).await, (200, enabled));
    let (_, whole) = get(&fake, &format!("{path}?include%5B0%5D=webhook_endpoint.url")).await;
    assert_eq!(whole["webhook_endpoint"]["url"], "http://shop.test/other");

    let gone = json!({ "id": id, "object": "v2.core.event_destination" });
    assert_eq!(delete(&fake, &id, "k5").await, (200, gone));
    assert_eq!(code(&get(&fake, &path).await), (404, "not_found"));
    let methods: Vec<String> = fake.ledger().effects().into_iter().map(|effect| effect.method).collect();
    assert_eq!(methods, ["POST", "POST", "POST", "POST", "POST", "DELETE"]);
    assert!(fake.ledger().effects().iter().all(|effect| effect.id == id));
}

#[tokio::test]
async fn the_secret_is_shown_to_a_create_that_asks_for_it_alone() {
    let fake = StripeFake::start().await;
    let mut body = destination("a");
    body["include"] = json!(["webhook_endpoint.signing_secret", "webhook_endpoint.url"]);
    let (_, object) = post(&fake, PATH, "k", &body).await;
    let endpoint = &object["webhook_endpoint"];
    assert!(endpoint["signing_secret"].as_str().unwrap().starts_with("whsec_"));
    assert_eq!(endpoint["url"], "https://shop.test/hook");
    let path = format!("{PATH}/{}", object["id"].as_str().unwrap());
    for asked in [&path, PATH] {
        let no = get(&fake, &format!("{asked}?include=webhook_endpoint.signing_secret")).await;
        assert_eq!(code(&no), (400, "invalid_fields"));
    }
    let asked = json!({ "include": ["webhook_endpoint.signing_secret"] });
    assert_eq!(code(&post(&fake, &path, "k2", &asked).await), (400, "invalid_fields"));
}

#[tokio::test]
async fn live_mode_takes_https_alone_and_is_another_account() {
    let fake = StripeFake::start().await;
    let live = |url: &str| {
        let mut body = destination("a");
        body["webhook_endpoint"]["url"] = json!(url);
        let request =
            call_as(&fake, "sk_live_1", Method::POST, PATH).header("Content-Type", "application/json");
        request.body(body.to_string())
    };
    assert_eq!(code(&told(live("http://shop.test/")).await), (400, "invalid_fields"));
    let (status, object) = told(live("https://shop.test/")).await;
    assert_eq!((status, &object["livemode"]), (200, &json!(true)));
    assert_eq!(get(&fake, PATH).await.1["data"], json!([]));
}

#[tokio::test]
async fn a_version_is_required_and_no_default_is_told() {
    let fake = StripeFake::start().await;
    let body = destination("a").to_string();
    for method in [Method::POST, Method::GET, Method::DELETE] {
        let bare = answers::client()
            .request(method.clone(), format!("{}{PATH}", fake.url()))
            .bearer_auth("sk_test_123")
            .header("Content-Type", "application/json")
            .body(body.clone());
        let answer = bare.send().await.unwrap();
        assert_eq!(answer.status(), 400, "{method}");
        assert_eq!(answer.headers().get("stripe-version"), None);
        assert!(answer.headers().contains_key("request-id"));
        let error = json_of(answer).await["error"].clone();
        assert!(error["message"].as_str().unwrap().contains("Stripe-Version"));
        assert_eq!(error["type"], Value::Null, "v1 has a type");
    }
    assert_eq!(fake.ledger().count(), 0);
}

#[tokio::test]
async fn the_repeat_of_what_succeeded_changes_nothing_and_shows_what_there_is_now() {
    let fake = StripeFake::start().await;
    let (_, first) = post(&fake, PATH, "k", &destination("a")).await;
    let id = first["id"].as_str().unwrap();
    // The order of members is no other parameter.
    let text = destination("a").to_string();
    let turned = format!("{{\"webhook_endpoint\":{{\"url\":\"https://shop.test/hook\"}},{}", &text[1..]);
    let turned: Value = serde_json::from_str(&turned).unwrap();
    assert_eq!(post(&fake, PATH, "k", &turned).await, (200, first.clone()));

    let path = format!("{PATH}/{id}");
    let (_, renamed) = post(&fake, &path, "k2", &json!({ "name": "b" })).await;
    assert_eq!(post(&fake, PATH, "k", &destination("a")).await, (200, renamed));
    let (_, disabled) = post(&fake, &format!("{path}/disable"), "k3", &json!({})).await;
    assert_eq!(post(&fake, &path, "k2", &json!({ "name": "b" })).await, (200, disabled));

    let gone = delete(&fake, id, "k4").await;
    assert_eq!(delete(&fake, id, "k4").await, gone);
    assert_eq!(code(&delete(&fake, id, "k5").await), (404, "not_found"));
    // It can no longer succeed, and is not made anew.
    assert_eq!(code(&post(&fake, PATH, "k", &destination("a")).await), (404, "not_found"));
    let ledger = fake.ledger();
    assert_eq!((ledger.count(), ledger.duplicates()), (4, vec![]));
    assert_eq!((ledger.requests_for("k"), ledger.requests_for("k4")), (4, 2));
}

#[tokio::test]
async fn other_parameters_under_a_key_are_a_409_and_never_executed() {
    let fake = StripeFake::start().await;
    let (a, b) = (made(&fake, "a").await, made(&fake, "b").await);
    let no = post(&fake, PATH, "made-a", &destination("c")).await;
    assert_eq!(
        (code(&no), &no.1["error"]["type"]),
        ((409, "idempotency_error"), &json!("idempotency_error"))
    );
    // The id in the path is a parameter.
    assert_eq!(delete(&fake, &a, "gone").await.0, 200);
    assert_eq!(code(&delete(&fake, &b, "gone").await), (409, "idempotency_error"));
    assert_eq!(get(&fake, &format!("{PATH}/{b}")).await.0, 200);
    assert_eq!(fake.ledger().count(), 3);
}

#[tokio::test]
async fn a_key_is_of_one_call_of_the_api_one_account_and_not_of_v1() {
    let fake = StripeFake::start().await;
    let id = made(&fake, "a").await;
    let path = format!("{PATH}/{id}");
    assert_eq!(post(&fake, &format!("{path}/disable"), "made-a", &json!({})).await.1["status"], "disabled");
    assert_eq!(post(&fake, &format!("{path}/enable"), "made-a", &json!({})).await.1["status"], "enabled");
    let form = call(&fake, Method::POST, "/v1/customers").header("Idempotency-Key", "made-a").body("name=a");
    assert_eq!(told(form).await.0, 200);
    let connected = posted(&fake, PATH, "made-a", &destination("b")).header("Stripe-Account", "acct_2");
    assert_eq!(told(connected).await.0, 200);
    assert_eq!(fake.ledger().effects_for("made-a").len(), 5);
}

#[tokio::test]
async fn after_30_days_the_same_key_executes_again() {
    let clock = TestClock::new();
    let fake = StripeFake::builder().clock(Arc::new(clock.clone())).start().await;
    let first = made(&fake, "a").await;
    clock.advance(30 * DAY - Duration::from_millis(1));
    assert_eq!(made(&fake, "a").await, first);
    clock.advance(Duration::from_millis(1));
    assert_ne!(made(&fake, "a").await, first);
    assert_eq!((fake.ledger().count(), fake.ledger().duplicates()), (2, vec!["made-a".to_owned()]));
}

#[tokio::test]
async fn what_failed_is_executed_again_under_its_key() {
    let fake = StripeFake::start().await;
    // The state did not allow it, and then it does.
    let disable = format!("{PATH}/ed_test_00000000000001/disable");
    assert_eq!(code(&post(&fake, &disable, "k", &json!({})).await), (404, "not_found"));
    assert_eq!(made(&fake, "a").await, "ed_test_00000000000001");
    assert_eq!(post(&fake, &disable, "k", &json!({})).await.1["status"], "disabled");

    // A refusal keeps neither the key nor the parameters.
    assert_eq!(post(&fake, PATH, "k", &json!({ "name": "b" })).await.0, 400);
    fake.plan().next(Fault::Stored500);
    let lost = post(&fake, PATH, "k", &destination("b")).await;
    fake.answer_next(StripeAnswer::Stored500);
    assert_eq!(post(&fake, PATH, "k", &destination("b")).await, lost);
    assert_eq!(lost.0, 500);
    fake.plan()
        .next(Fault::KeyInUse)
        .next(Fault::TooManyRequests(WaitForm::None))
        .next(Fault::Error500Before);
    for status in [409, 429, 500] {
        assert_eq!(post(&fake, PATH, "k", &destination("b")).await.0, status);
    }
    assert_eq!(fake.ledger().effects_for("k").len(), 1, "the disabling");
    fake.plan().next(Fault::Error500After);
    assert_eq!(post(&fake, PATH, "k", &destination("b")).await.0, 500);
    assert_eq!(post(&fake, PATH, "k", &destination("b")).await.1["name"], "b");
    assert_eq!((fake.ledger().count(), fake.plan().pending()), (3, 0));
}

#[tokio::test]
async fn no_failure_of_v2_says_not_to_retry() {
    let fake = StripeFake::start().await;
    fake.plan().next(Fault::Stored500);
    let lost = posted(&fake, PATH, "k", &destination("a")).send().await.unwrap();
    assert_eq!((lost.status().as_u16(), lost.headers().get("stripe-should-retry")), (500, None));
}

#[tokio::test]
async fn a_lost_answer_of_a_create_and_of_a_removal_is_one_effect() {
    let fake = StripeFake::start().await;
    fake.plan().when(PATH, Method::POST, Fault::DropAfterApply);
    assert!(posted(&fake, PATH, "k", &destination("a")).send().await.is_err());
    let (_, object) = post(&fake, PATH, "k", &destination("a")).await;
    let id = object["id"].as_str().unwrap();
    fake.plan().next(Fault::Error500After);
    assert_eq!(delete(&fake, id, "gone").await.0, 500);
    assert_eq!(delete(&fake, id, "gone").await.1["id"], *id);
    let (_, ledger) = get(&fake, "/_fake/ledger").await;
    let told: Vec<_> = ledger["effects"].as_array().unwrap().iter().map(|effect| &effect["method"]).collect();
    assert_eq!(told, ["POST", "DELETE"]);
    shows(&ledger, &json!({ "requests": { "k": 2, "gone": 2 }, "duplicates": [] }));
}

#[tokio::test]
async fn a_key_is_in_use_while_its_first_request_executes() {
    let clock = TestClock::new();
    let builder = StripeFake::builder().clock(Arc::new(clock.clone()));
    let fake = builder.busy_for(Duration::from_secs(1)).start().await;
    let id = made(&fake, "a").await;
    assert_eq!(post(&fake, PATH, "made-a", &destination("a")).await.0, 409);
    clock.advance(Duration::from_secs(1));
    assert_eq!(made(&fake, "a").await, id);
    let long = "k".repeat(256);
    assert_eq!(post(&fake, PATH, &long, &destination("b")).await.0, 400);
    assert_eq!(fake.ledger().count(), 1);
}

#[tokio::test]
async fn what_the_fake_does_not_know_it_refuses_in_v2s_form() {
    let fake = StripeFake::start().await;
    let with = |name: &str, value: Value| {
        let mut body = destination("a");
        body[name] = value;
        body
    };
    let without = |name: &str| {
        let mut body = destination("a");
        body.as_object_mut().unwrap().remove(name);
        body
    };
    for body in [
        with("colour", json!("red")),
        with("type", json!("amazon_eventbridge")),
        with("event_payload", json!("thick")),
        with("enabled_events", json!("v1.charge.succeeded")),
        with("enabled_events", json!([1])),
        with("name", Value::Null),
        with("events_from", json!(["self"])),
        with("include", json!(["webhook_endpoint"])),
        with("metadata", json!({ "a": 1 })),
        with("metadata", json!({ "a": "x".repeat(501) })),
        with("metadata", json!({ "a".repeat(41): "x" })),
        with(
            "metadata",
            (0..51).map(|n| (n.to_string(), json!("x"))).collect::<serde_json::Map<_, _>>().into(),
        ),
        with("webhook_endpoint", json!({ "url": "shop" })),
        with("webhook_endpoint", json!({ "url": "ftp://shop.test/" })),
        with("webhook_endpoint", json!({})),
        with("webhook_endpoint", json!({ "url": "https://shop.test/", "colour": "red" })),
        with("snapshot_api_version", json!("2026-07-29.dahlia")),
        without("name"),
        without("enabled_events"),
        without("event_payload"),
        without("type"),
        without("webhook_endpoint"),
    ] {
        assert_eq!(code(&post(&fake, PATH, "k", &body).await), (400, "invalid_fields"), "{body}");
    }
    let id = made(&fake, "a").await;
    let path = format!("{PATH}/{id}");
    for (path, body) in [
        (format!("{path}/disable"), json!({ "reason": "user" })),
        (path.clone(), json!({ "event_payload": "thin" })),
        (format!("{path}?include=webhook_endpoint.url"), json!({})),
    ] {
        assert_eq!(code(&post(&fake, &path, "k", &body).await), (400, "invalid_fields"), "{path} {body}");
    }
    for path in ["/v2/", "/v2/core/events", "/v2/core/event_destinations/", &format!("{path}/ping")] {
        let no = post(&fake, path, "k", &json!({})).await;
        assert_eq!((code(&no), &no.1["error"]["type"]), ((404, "not_found"), &Value::Null), "{path}");
    }
    for (query, expected) in [
        ("?colour=red", "invalid_fields"),
        ("?limit=0", "invalid_fields"),
        ("?limit=101", "invalid_fields"),
        ("?limit=ten", "invalid_fields"),
        ("?page=2", "invalid_fields"),
        ("?expand[]=name", "invalid_fields"),
        ("?starting_after=ed_1", "invalid_fields"),
    ] {
        assert_eq!(code(&get(&fake, &format!("{PATH}{query}")).await), (400, expected), "{query}");
    }
    assert_eq!(code(&get(&fake, &format!("{path}?limit=1")).await), (400, "invalid_fields"));
    assert_eq!(fake.ledger().count(), 1);
}

#[tokio::test]
async fn a_body_is_json_and_says_so() {
    let fake = StripeFake::start().await;
    let sent = |content_type: &'static str, body: &str| {
        let request = call(&fake, Method::POST, PATH).header("Content-Type", content_type);
        told(request.body(body.to_owned()))
    };
    let json = destination("a").to_string();
    for (content_type, body) in [
        ("application/x-www-form-urlencoded", "name=a"),
        ("application/x-www-form-urlencoded", json.as_str()),
        ("application/json", "name=a"),
        ("application/json", "[]"),
    ] {
        assert_eq!(sent(content_type, body).await.0, 400, "{content_type} {body}");
    }
    assert_eq!(sent("application/json; charset=utf-8", &json).await.0, 200);
    let bare = answers::client().get(format!("{}{PATH}", fake.url())).header("Stripe-Version", "x");
    assert_eq!(told(bare).await.0, 401);
}

#[tokio::test]
async fn pages_are_newest_first_in_both_directions_though_some_are_removed() {
    let fake = StripeFake::start().await;
    let names = |page: &Value| -> Vec<String> {
        let named = |one: &Value| one["name"].as_str().unwrap().to_owned();
        page["data"].as_array().unwrap().iter().map(named).collect()
    };
    let turned = async |page: &Value, to: &str| get(&fake, page[to].as_str().unwrap()).await.1;
    let (_, empty) = get(&fake, PATH).await;
    assert_eq!(empty, json!({ "data": [], "next_page_url": null, "previous_page_url": null }));
    let mut ids = Vec::new();
    for number in 1..=7 {
        ids.push(made(&fake, &number.to_string()).await);
    }
    let query = format!("{PATH}?limit=3&include=webhook_endpoint.url");
    let (_, first) = get(&fake, &query).await;
    assert_eq!(
        (names(&first), &first["previous_page_url"]),
        (vec!["7".into(), "6".into(), "5".into()], &Value::Null)
    );
    assert_eq!(first["data"][0]["webhook_endpoint"]["url"], "https://shop.test/hook");
    let second = turned(&first, "next_page_url").await;
    assert_eq!(names(&second), ["4", "3", "2"]);
    assert_eq!(
        second["data"][0]["webhook_endpoint"]["url"], "https://shop.test/hook",
        "as the first was asked"
    );
    let third = turned(&second, "next_page_url").await;
    assert_eq!((names(&third), &third["next_page_url"]), (vec!["1".into()], &Value::Null));
    let back = turned(&third, "previous_page_url").await;
    assert_eq!(names(&back), ["4", "3", "2"]);
    assert_eq!(turned(&back, "previous_page_url").await["data"], first["data"]);

    // The ends of pages, and a whole page.
    for gone in [5, 4, 1] {
        delete(&fake, &ids[gone - 1], &format!("gone-{gone}")).await;
    }
    assert_eq!(names(&turned(&first, "next_page_url").await), ["3", "2"]);
    let none = turned(&second, "next_page_url").await;
    assert_eq!((names(&none), &none["next_page_url"]), (vec![], &Value::Null));
    assert_eq!(names(&turned(&none, "previous_page_url").await), ["6", "3", "2"]);
    made(&fake, "8").await;
    assert_eq!(names(&get(&fake, PATH).await.1), ["8", "7", "6", "3", "2"]);
}
