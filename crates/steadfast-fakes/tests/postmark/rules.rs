//! Each rule at the head of `crates/steadfast-fakes/fixtures/postmark.json`, proven over a real socket.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use reqwest::Response;
use serde_json::{Value, json};
use steadfast_fakes::{PostmarkAnswer, PostmarkFake, SecondFilter};
use steadfast_testkit::{Fault, TestClock, WaitForm};

use support::answers::{self, header, json_of, shows};

/// A fixture of what is sure of Postmark.
fn fixture(name: &str) -> Value {
    answers::fixture(include_str!("../../fixtures/postmark.json"), name)
}

fn message(key: &str) -> Value {
    json!({
        "From": "\"Joe\" <joe@domain.com>", "To": "receiver@example.com", "Subject": "receipt",
        "TextBody": "Thank you.", "Headers": [{ "Name": "Message-ID", "Value": "<1@domain.com>" }],
        "Metadata": { "steadfast_key": key },
    })
}

fn with(name: &str, value: Value) -> Value {
    let mut message = message("k");
    message[name] = value;
    message
}

/// A message by a template, which has no subject and no body of its own.
fn templated(name: &str, value: Value) -> Value {
    let mut message = json!({
        "From": "joe@domain.com", "To": "receiver@example.com", "TemplateModel": {}, "Metadata": { "steadfast_key": "k" },
    });
    message[name] = value;
    message
}

async fn post_as(fake: &PostmarkFake, token: &str, path: &str, body: String) -> reqwest::Result<Response> {
    let request = answers::client().post(format!("{}{path}", fake.url()));
    request
        .header("X-Postmark-Server-Token", token)
        .header("Content-Type", "application/json")
        .body(body)
        .send()
        .await
}

async fn post(fake: &PostmarkFake, path: &str, body: &Value) -> Response {
    post_as(fake, "token", path, body.to_string()).await.unwrap()
}

async fn search(fake: &PostmarkFake, query: &str) -> Response {
    let request = answers::client().get(format!("{}/messages/outbound?{query}", fake.url()));
    request.header("X-Postmark-Server-Token", "token").send().await.unwrap()
}

async fn found(fake: &PostmarkFake, query: &str) -> u64 {
    let answer = search(fake, &format!("count=500&offset=0&{query}")).await;
    json_of(answer).await["TotalCount"].as_u64().unwrap()
}

fn names(value: &Value) -> BTreeSet<String> {
    value.as_object().unwrap().keys().cloned().collect()
}

#[tokio::test]
async fn every_accepted_post_is_another_message_even_if_byte_identical() {
    let fake = PostmarkFake::builder().clock(Arc::new(TestClock::new())).start().await;
    let first = post(&fake, "/email", &message("k")).await;
    assert_eq!((first.status().as_u16(), header(&first, "x-pm-apierrorcode")), (200, Some("0")));
    let first = json_of(first).await;
    let second = json_of(post(&fake, "/email", &message("k")).await).await;
    assert_eq!(names(&first), names(&fixture("send_ok")["body"]));
    shows(&first, &json!({ "ErrorCode": 0, "Message": "OK" }));
    assert_eq!(first["SubmittedAt"], "2025-12-31T19:00:00.0000000-05:00");
    assert_ne!(first["MessageID"], second["MessageID"]);
    assert_eq!((fake.ledger().count(), fake.ledger().duplicates()), (2, vec!["k".to_owned()]));
    assert_eq!(fake.ledger().effects_for("k")[0].id, first["MessageID"]);
}

#[tokio::test]
async fn a_missing_or_wrong_token_is_401_with_code_10() {
    let fake = PostmarkFake::builder().token("right").start().await;
    for token in ["", "wrong"] {
        let refused = post_as(&fake, token, "/email", message("k").to_string()).await.unwrap();
        assert_eq!((refused.status().as_u16(), header(&refused, "x-pm-apierrorcode")), (401, Some("10")));
        assert_eq!(json_of(refused).await, fixture("bad_token")["body"]);
    }
    assert_eq!(post_as(&fake, "right", "/email", message("k").to_string()).await.unwrap().status(), 200);
    assert_eq!(fake.ledger().count(), 1);
}

#[tokio::test]
async fn the_test_token_validates_and_sends_nothing() {
    let fake = PostmarkFake::start().await;
    let accepted = post_as(&fake, "POSTMARK_API_TEST", "/email", message("k").to_string()).await.unwrap();
    assert_eq!(json_of(accepted).await["Message"], "Test job accepted");
    let invalid = with("From", json!("nope")).to_string();
    assert_eq!(post_as(&fake, "POSTMARK_API_TEST", "/email", invalid).await.unwrap().status(), 422);
    assert_eq!((fake.ledger().count(), found(&fake, "").await), (0, 0));
}

#[tokio::test]
async fn a_batch_answers_200_with_one_result_per_message_in_order() {
    let fake = PostmarkFake::start().await;
    fake.deactivate("example@example.com");
    let batch = json!([message("a"), with("To", json!("example@example.com")), with("From", json!("nope"))]);
    let answer = post(&fake, "/email/batch", &batch).await;
    assert_eq!(answer.status(), 200);
    let results = json_of(answer).await;
    assert_eq!(results[0]["ErrorCode"], 0);
    assert_eq!(results[1], fixture("batch_mixed")["body"][1]);
    assert_eq!(results[2], fixture("bad_from")["body"]);
    assert_eq!(results.as_array().unwrap().len(), 3);
    assert_eq!((fake.ledger().count(), fake.ledger().effects_for("a").len()), (1, 1));

    let both = json!({ "Messages": [templated("TemplateId", json!(1)), templated("TemplateId", json!(1))] });
    post(&fake, "/email/batchWithTemplates", &both).await;
    let parts: Vec<usize> = fake.ledger().effects_for("k").iter().map(|effect| effect.part).collect();
    assert_eq!((parts, fake.ledger().duplicates()), (vec![0, 1], vec![]));
}

#[tokio::test]
async fn the_messages_of_a_stamped_batch_are_told_apart_by_their_own_keys() {
    let fake = PostmarkFake::start().await;
    let item = |key: &str| with("Metadata", json!({ "steadfast_key": key, "steadfast_batch": "b" }));
    post(&fake, "/email/batch", &json!([item("b-0"), item("b-1")])).await;
    assert_eq!((fake.ledger().count(), fake.ledger().requests_for("b")), (2, 1));
    post(&fake, "/email/batch", &json!([item("b-1")])).await;
    assert_eq!(fake.ledger().duplicates(), ["b-1"]);
}

#[tokio::test]
async fn over_500_items_in_a_batch_are_422_with_code_410() {
    let fake = PostmarkFake::start().await;
    let refused = post(&fake, "/email/batch", &json!(vec![message("k"); 501])).await;
    assert_eq!((refused.status().as_u16(), header(&refused, "x-pm-apierrorcode")), (422, Some("410")));
    assert_eq!(json_of(refused).await, fixture("too_many_in_batch")["body"]);
    assert_eq!(fake.ledger().count(), 0);
    assert_eq!(post(&fake, "/email/batch", &json!(vec![message("k"); 500])).await.status(), 200);
    assert_eq!(fake.ledger().count(), 500);
}

#[tokio::test]
async fn invalid_messages_are_refused_in_postmarks_words() {
    let fake = PostmarkFake::start().await;
    let eleven: Value =
        (0..11).map(|n| (format!("f{n}"), json!("v"))).collect::<serde_json::Map<_, _>>().into();
    for (body, name, code) in [
        (with("From", json!("nope")), "bad_from", "300"),
        (with("To", json!("invalid@localhost")), "bad_to", "300"),
        (with("Metadata", json!({ "a23456789012345678901": "v" })), "metadata_too_long", "300"),
        (with("Metadata", json!({ "a": "v".repeat(81) })), "metadata_too_long", "300"),
        (with("Metadata", eleven), "metadata_too_long", "300"),
        (with("From", Value::Null), "invalid_field", "403"),
        (with("MessageStream", json!("x")), "stream_missing", "1235"),
        (with("MessageStream", json!("inbound")), "stream_inbound", "1236"),
    ] {
        let refused = post(&fake, "/email", &body).await;
        assert_eq!((refused.status().as_u16(), header(&refused, "x-pm-apierrorcode")), (422, Some(code)));
        assert_eq!(json_of(refused).await, fixture(name)["body"]);
    }
    let broken = post_as(&fake, "token", "/email", "{".to_owned()).await.unwrap();
    assert_eq!(json_of(broken).await, fixture("invalid_json")["body"]);
    assert_eq!(fake.ledger().count(), 0);
    let widest = with("Metadata", json!({ "a2345678901234567890": "v".repeat(80) }));
    assert_eq!(post(&fake, "/email", &widest).await.status(), 200);
}

#[tokio::test]
async fn inactive_recipients_refuse_the_message_only_if_nobody_else_is_left() {
    let fake = PostmarkFake::start().await;
    fake.deactivate("a@x.com").deactivate("b@x.com");
    let none_left = post(&fake, "/email", &with("To", json!("a@x.com, b@x.com"))).await;
    assert_eq!((none_left.status().as_u16(), header(&none_left, "x-pm-apierrorcode")), (422, Some("406")));
    assert_eq!(json_of(none_left).await, fixture("inactive_single")["body"]);
    assert_eq!(fake.ledger().count(), 0);

    let partial = post(&fake, "/email", &with("To", json!("a@x.com, c@x.com"))).await;
    assert_eq!(partial.status(), 200);
    let partial = json_of(partial).await;
    assert_eq!(partial["ErrorCode"], 0);
    assert_eq!(
        partial["Message"],
        "Message OK, but will not deliver to these inactive addresses: a@x.com. Inactive recipients are ones \
         that have generated a hard bounce or a spam complaint."
    );
    assert_eq!(fake.ledger().count(), 1);
}

#[tokio::test]
async fn a_message_is_found_by_its_metadata_only_after_the_lag() {
    let clock = TestClock::new();
    let fake = PostmarkFake::builder()
        .clock(Arc::new(clock.clone()))
        .search_lag(Duration::from_secs(60))
        .start()
        .await;
    post(&fake, "/email", &message("k")).await;
    let query = "metadata_steadfast_key=k";
    clock.advance(Duration::from_millis(59_999));
    let miss = search(&fake, &format!("count=1&offset=0&{query}")).await;
    assert_eq!(json_of(miss).await, fixture("search_miss")["body"]);
    assert_eq!(fake.ledger().count(), 1, "accepted although not found");
    clock.advance(Duration::from_millis(1));
    let hit = json_of(search(&fake, &format!("count=1&offset=0&{query}&messagestream=outbound")).await).await;
    assert_eq!(
        (&hit["TotalCount"], &hit["Messages"][0]["Metadata"]),
        (&json!(1), &json!({ "steadfast_key": "k" }))
    );
    assert_eq!(names(&hit["Messages"][0]), names(&fixture("search_hit")["body"]["Messages"][0]));
    assert_eq!(hit["Messages"][0]["MessageID"], fake.ledger().effects()[0].id.as_str());
    assert_eq!(found(&fake, "metadata_steadfast_key=other").await, 0);
}

#[tokio::test]
async fn a_search_looks_in_one_stream_and_45_days_back() {
    let clock = TestClock::new();
    let fake = PostmarkFake::builder().clock(Arc::new(clock.clone())).start().await;
    post(&fake, "/email", &with("MessageStream", json!("broadcast"))).await;
    assert_eq!(found(&fake, "metadata_steadfast_key=k").await, 0);
    assert_eq!(found(&fake, "metadata_steadfast_key=k&messagestream=broadcast").await, 1);
    clock.advance(Duration::from_secs(45 * 24 * 3600));
    assert_eq!(found(&fake, "messagestream=broadcast").await, 1);
    clock.advance(Duration::from_millis(1));
    assert_eq!(found(&fake, "messagestream=broadcast").await, 0);
}

#[tokio::test]
async fn date_filters_are_us_eastern() {
    // The clock starts at midnight UTC on 1 January: still 31 December in New York.
    let fake = PostmarkFake::builder().clock(Arc::new(TestClock::new())).start().await;
    post(&fake, "/email", &message("k")).await;
    assert_eq!(found(&fake, "fromdate=2026-01-01").await, 0);
    assert_eq!(found(&fake, "fromdate=2025-12-31&todate=2025-12-31").await, 1);
}

#[tokio::test]
async fn a_second_metadata_filter_is_ignored_or_refused_as_switched() {
    let query = "metadata_steadfast_key=k&metadata_other=x";
    for (switch, status) in [(SecondFilter::Ignore, 200), (SecondFilter::Refuse, 422)] {
        let fake = PostmarkFake::builder().second_filter(switch).start().await;
        post(&fake, "/email", &message("k")).await;
        let answer = search(&fake, &format!("count=1&offset=0&{query}")).await;
        assert_eq!(answer.status(), status);
        if status == 200 {
            assert_eq!(json_of(answer).await["TotalCount"], 1);
        }
    }
}

#[tokio::test]
async fn count_and_offset_are_required_and_bounded() {
    let fake = PostmarkFake::start().await;
    for (query, status) in [
        ("count=500&offset=9500", 200),
        ("count=500&offset=9501", 422),
        ("count=501&offset=0", 422),
        ("count=1", 422),
        ("offset=0", 422),
    ] {
        assert_eq!(search(&fake, query).await.status(), status, "{query}");
    }
}

#[tokio::test]
async fn pages_are_newest_first() {
    let fake = PostmarkFake::start().await;
    for key in ["a", "b", "c"] {
        post(&fake, "/email", &message(key)).await;
    }
    let page = json_of(search(&fake, "count=1&offset=1").await).await;
    assert_eq!(
        (&page["TotalCount"], &page["Messages"][0]["Metadata"]["steadfast_key"]),
        (&json!(3), &json!("b"))
    );
}

#[tokio::test]
async fn a_429_says_nothing_of_when_unless_a_fault_asks_for_it() {
    let fake = PostmarkFake::start().await;
    fake.answer_next(PostmarkAnswer::RateLimited).answer_next(PostmarkAnswer::RateLimitedEmpty);
    fake.plan().next(Fault::TooManyRequests(WaitForm::VendorForm(Duration::from_secs(9))));
    for body in [
        fixture("rate_limited")["body"].to_string(),
        fixture("rate_limited")["body"].to_string(),
        String::new(),
    ] {
        let limited = post(&fake, "/email", &message("k")).await;
        assert_eq!((limited.status().as_u16(), header(&limited, "retry-after")), (429, None));
        assert_eq!(limited.text().await.unwrap(), body);
    }
    fake.plan().next(Fault::TooManyRequests(WaitForm::Seconds(7)));
    assert_eq!(header(&post(&fake, "/email", &message("k")).await, "retry-after"), Some("7"));
    assert_eq!(fake.ledger().count(), 0);
}

#[tokio::test]
async fn a_500_may_have_accepted_the_message_or_not() {
    let fake = PostmarkFake::start().await;
    for (fault, effects) in [(Fault::Error500Before, 0), (Fault::Stored500, 0), (Fault::Error500After, 1)] {
        fake.plan().next(fault);
        let failed = post(&fake, "/email", &message("k")).await;
        assert_eq!((failed.status().as_u16(), header(&failed, "x-pm-apierrorcode")), (500, Some("101")));
        assert_eq!(json_of(failed).await, fixture("server_error")["body"]);
        assert_eq!(fake.ledger().count(), effects);
    }
    assert_eq!(found(&fake, "metadata_steadfast_key=k").await, 1);
}

#[tokio::test]
async fn an_answer_lost_after_accepting_leaves_its_message_and_one_lost_before_none() {
    let fake = PostmarkFake::start().await;
    for (fault, effects) in [(Fault::DropBeforeRead, 0), (Fault::DropAfterApply, 1)] {
        fake.plan().next(fault);
        assert!(post_as(&fake, "token", "/email", message("k").to_string()).await.is_err());
        assert_eq!(fake.ledger().count(), effects);
    }
    assert_eq!(fake.ledger().requests_for("k"), 1);
}

#[tokio::test]
async fn a_200_without_error_code_is_accepted() {
    let fake = PostmarkFake::start().await;
    fake.answer_next(PostmarkAnswer::AcceptedDelayed);
    let delayed = post(&fake, "/email", &message("k")).await;
    assert_eq!((delayed.status().as_u16(), header(&delayed, "x-pm-apierrorcode")), (200, None));
    assert_eq!(names(&json_of(delayed).await), names(&fixture("accepted_no_errorcode")["body"]));
    assert_eq!(fake.ledger().count(), 1);
}

#[tokio::test]
async fn answers_that_no_state_leads_to_are_the_fixtures() {
    let fake = PostmarkFake::start().await;
    for (answer, name, status) in [
        (PostmarkAnswer::NoCredits, "no_credits", 422),
        (PostmarkAnswer::Maintenance, "maintenance", 503),
        (PostmarkAnswer::ServerError, "server_error", 500),
    ] {
        fake.answer_next(answer);
        let answer = post(&fake, "/email", &message("k")).await;
        assert_eq!(answer.status(), status);
        assert_eq!(json_of(answer).await, fixture(name)["body"]);
    }
    fake.plan().next(Fault::Html);
    let html = post(&fake, "/email", &message("k")).await;
    assert_eq!((html.status().as_u16(), header(&html, "content-type")), (502, Some("text/html")));
    assert_eq!(fake.ledger().count(), 0);
    assert_eq!(post(&fake, "/email/withTemplate", &message("k")).await.status(), 422);
    assert_eq!(
        post(&fake, "/email/withTemplate", &templated("TemplateAlias", json!("receipt"))).await.status(),
        200
    );
}
