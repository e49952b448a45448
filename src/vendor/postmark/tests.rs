use bytes::Bytes;
use http::StatusCode;
use serde_json::json;

use steadfast_core::Effect;
use steadfast_core::clock::Timestamp;

use super::*;
use crate::vendor::rig::{self, wire_key};

fn postmark() -> Postmark {
    Postmark::new("token-secret")
}

fn request(path: &str, body: &str) -> Request {
    let url = Url::parse(&format!("https://api.postmarkapp.com{path}")).expect("a url");
    let mut request = Request::new(Method::POST, url);
    request.body = Bytes::from(body.to_owned());
    request
}

fn stamped(path: &str, body: &Value) -> Request {
    let mut request = request(path, &body.to_string());
    postmark().stamp(wire_key(), &mut request).expect("stamped");
    request
}

fn email() -> Value {
    json!({ "From": "\"Joe\" <joe@shop.example>", "To": "receiver@example.com" })
}

fn json_of(request: &Request) -> Value {
    serde_json::from_slice(&request.body).expect("json")
}

fn answer(status: u16, body: &str) -> Answer {
    rig::answer(status, &[], body)
}

fn judge(request: &Request, answer: &Answer, before: Effect) -> Verdict {
    postmark().classify(&Attempt::new(request, true, Ok(answer), Timestamp::default()).after(before))
}

/// Postmark never replays: a refusal speaks for the attempt that it answers.
const fn no(refusal: Refusal) -> Verdict {
    Verdict::Refused { refusal, speaks_for: SpeaksFor::ThisAttempt }
}

#[test]
fn every_fixture_gets_its_verdict() {
    let request = stamped("/email", &email());
    let done = Verdict::Done { replayed: false };
    let rejected = no(Refusal::Rejected);
    let retry = |effect| Verdict::Retry { effect, not_before: None };
    for (name, expected) in [
        ("send_ok", done),
        ("send_ok_test_token", done),
        ("accepted_no_errorcode", done),
        ("partial_inactive_200", done),
        ("batch_mixed", done),
        ("inactive_single", rejected),
        ("bad_token", no(Refusal::Unauthorized)),
        ("bad_from", rejected),
        ("bad_to", rejected),
        ("metadata_too_long", rejected),
        ("invalid_json", rejected),
        ("invalid_field", rejected),
        ("no_credits", rejected),
        ("too_many_in_batch", rejected),
        ("stream_missing", rejected),
        ("stream_inbound", rejected),
        ("rate_limited", retry(Effect::None)),
        ("server_error", retry(Effect::Unknown)),
        ("maintenance", retry(Effect::Unknown)),
    ] {
        assert_eq!(judge(&request, &rig::fixture("postmark", name), Effect::None), expected, "{name}");
    }
}

#[test]
fn an_error_code_is_not_an_http_status() {
    let request = stamped("/email", &email());
    for code in [403, 406, 500, 503] {
        let body = json!({ "ErrorCode": code, "Message": "x" }).to_string();
        let verdict = judge(&request, &answer(200, &body), Effect::None);
        assert_eq!(verdict, no(Refusal::Rejected), "{code}");
        assert_eq!(judge(&request, &answer(422, &body), Effect::None), verdict, "{code}");
    }
}

#[test]
fn a_200_that_is_not_in_postmarks_form_proves_nothing() {
    let request = stamped("/email", &email());
    for body in ["<html>", "", "null", "\"ok\""] {
        assert_eq!(judge(&request, &answer(200, body), Effect::None), Verdict::Unknown, "{body}");
    }
    let other = self::request("/bounces/1/activate", "");
    assert_eq!(judge(&other, &answer(200, ""), Effect::None), Verdict::Done { replayed: false });
}

#[test]
fn a_4xx_without_an_error_code_is_not_postmarks_and_leaves_the_effect_unknown() {
    let request = stamped("/email", &email());
    for status in [400, 401, 403, 404, 405, 413, 415, 421, 422, 431] {
        for body in ["<html></html>", "", "{}", "[]", r#"{"ErrorCode":"x"}"#, r#"{"message":"no route"}"#] {
            let verdict = judge(&request, &answer(status, body), Effect::None);
            assert_eq!(
                verdict,
                Verdict::Retry { effect: Effect::Unknown, not_before: None },
                "{status} {body}"
            );
        }
    }
}

#[test]
fn the_account_api_has_its_own_token_and_sends_no_mail() {
    let account = Postmark::account_api("an-account-token");
    let mut request =
        Request::new(Method::GET, Url::parse("https://api.postmarkapp.com/servers").expect("a url"));
    account.authorize(&mut request);
    assert_eq!(request.headers["x-postmark-account-token"], "an-account-token");
    assert!(!request.headers.contains_key("x-postmark-server-token"));
    assert_eq!(Vendor::account(&account, &HeaderMap::new()), "account");
    assert!(!format!("{account:?}").contains("an-account-token"));
    for route in ["/email", "/Email/", "/email/batch"] {
        let url = format!("https://api.postmarkapp.com{route}");
        let mut mail = Request::new(Method::POST, Url::parse(&url).expect("a url"));
        assert_eq!(account.stamp(wire_key(), &mut mail).expect_err(route).code(), "VALIDATION.path");
    }
    let mut server =
        Request::new(Method::POST, Url::parse("https://api.postmarkapp.com/servers").expect("a url"));
    server.body = r#"{"Name":"Staging"}"#.into();
    account.stamp(wire_key(), &mut server).expect("no mail");
    assert_eq!(server.body, r#"{"Name":"Staging"}"#);
}

#[test]
fn a_request_that_sends_no_mail_is_neither_stamped_nor_looked_up() {
    let postmark = Postmark::new("a-token");
    for (method, route) in [
        (Method::GET, "/email"),
        (Method::GET, "/messages/outbound"),
        (Method::POST, "/templates"),
        (Method::POST, "/message-streams"),
        (Method::PUT, "/bounces/7/activate"),
        (Method::DELETE, "/templates/7"),
    ] {
        let url = format!("https://api.postmarkapp.com{route}");
        let mut request = Request::new(method.clone(), Url::parse(&url).expect("a url"));
        request.body = r#"{"From":"a@x.test"}"#.into();
        let key = postmark.stamp(wire_key(), &mut request).expect(route);
        assert_eq!(request.body, r#"{"From":"a@x.test"}"#, "{method} {route}");
        let subject = Subject::new(&request, &key, Timestamp::from_millis(0));
        assert_eq!(postmark.lookup(&subject), None, "{method} {route}");
        let said = |answer: &Answer| {
            postmark.classify(&Attempt::new(&request, true, Ok(answer), Timestamp::from_millis(0)))
        };
        let done = Verdict::Done { replayed: false };
        assert_eq!(said(&answer(200, r#"{"ID":7}"#)), done, "{method} {route}");
        if method.is_safe() {
            continue;
        }
        // A 200 that says no, and a page of a proxy's.
        let refused = Verdict::Refused { refusal: Refusal::Rejected, speaks_for: SpeaksFor::ThisAttempt };
        assert_eq!(said(&answer(200, r#"{"ErrorCode":510,"Message":"no"}"#)), refused, "{method} {route}");
        let open = Verdict::Retry { effect: Effect::Unknown, not_before: None };
        assert_eq!(said(&answer(200, "<html>sign in</html>")), open, "{method} {route}");
    }
}

#[test]
fn only_the_failed_items_of_a_mixed_batch_are_named() {
    assert_eq!(Postmark::failed_items(&rig::fixture("postmark", "batch_mixed")), [1]);
    assert_eq!(Postmark::failed_items(&rig::fixture("postmark", "send_ok")), [0usize; 0]);
    let delayed = answer(200, r#"[{"Message":"accepted, delayed"},{"ErrorCode":300},{"ErrorCode":0}]"#);
    assert_eq!(Postmark::failed_items(&delayed), [1]);
    assert_eq!(Postmark::failed_items(&answer(200, "<html>")), [0usize; 0]);
}

#[test]
fn a_batch_is_answered_for_each_of_its_messages() {
    let request = stamped("/email/batch", &json!([email(), email()]));
    let result = r#"{"ErrorCode":0,"Message":"OK","MessageID":"m"}"#;
    for (body, is_done) in [(format!("[{result},{result}]"), true), (format!("[{result}]"), false)] {
        let answer = answer(200, &body);
        let verdict = postmark().classify(&Attempt::new(&request, true, Ok(&answer), Timestamp::default()));
        assert_eq!(matches!(verdict, Verdict::Done { .. }), is_done, "{body}");
    }
}

#[test]
fn postmark_never_replays_a_key() {
    assert_eq!(postmark().replay_window(&stamped("/email", &email())), None);
}

#[test]
fn a_single_message_carries_the_key_as_metadata_and_message_id() {
    let key = wire_key().to_string();
    for path in
        ["/email", "/email/withTemplate", "/email/", "/EMAIL", "/email/withTemplate/", "/Email/WithTemplate"]
    {
        let body = json_of(&stamped(path, &email()));
        assert_eq!(body["Metadata"], json!({ "steadfast_key": key }));
        assert_eq!(
            body["Headers"],
            json!([
                { "Name": "Message-ID", "Value": format!("<{key}@shop.example>") },
                { "Name": "X-PM-KeepID", "Value": "true" },
            ])
        );
    }
    let untouched = stamped("/templates", &email());
    assert_eq!(json_of(&untouched), email());
}

#[test]
fn the_message_id_is_a_switch_and_a_callers_own_is_kept() {
    let stamp_with = |postmark: Postmark, body: &Value| {
        let mut request = request("/email", &body.to_string());
        postmark.stamp(wire_key(), &mut request).expect("stamped");
        json_of(&request)
    };
    let off = stamp_with(postmark().message_id_domain(None), &email());
    assert_eq!(off.get("Headers"), None);
    assert_eq!(off["Metadata"]["steadfast_key"], wire_key().to_string());
    let fixed = stamp_with(postmark().message_id_domain(Some("mail.example")), &email());
    assert_eq!(fixed["Headers"][0]["Value"], format!("<{}@mail.example>", wire_key()));
    let mut own = email();
    own["Headers"] = json!([{ "Name": "message-id", "Value": "<mine@x>" }]);
    assert_eq!(stamp_with(postmark(), &own)["Headers"], own["Headers"]);
    let evil = postmark().message_id_domain(Some("x>\r\nBcc: y"));
    assert_eq!(evil.check().expect_err("no domain").code(), "VALIDATION.header");
}

#[test]
fn metadata_keeps_to_postmarks_limits() {
    let with = |count: usize| {
        let fields: serde_json::Map<_, _> = (0..count).map(|n| (format!("f{n}"), json!("v"))).collect();
        let mut body = email();
        body["Metadata"] = Value::Object(fields);
        let mut request = request("/email", &body.to_string());
        postmark().stamp(wire_key(), &mut request).map(|_| json_of(&request))
    };
    assert_eq!(with(9).expect("room")["Metadata"].as_object().expect("fields").len(), 10);
    assert_eq!(with(10).expect_err("no room").code(), "VALIDATION.body");
    for field in [stamp::KEY_FIELD, stamp::BATCH_FIELD] {
        assert!(field.len() <= 20, "{field}");
    }
    assert!(stamp::item_key(&wire_key().to_string(), 499).len() <= 80);
    let mut taken = email();
    taken["Metadata"] = json!({ "Steadfast_Key": "x" });
    let mut taken = request("/email", &taken.to_string());
    assert_eq!(postmark().stamp(wire_key(), &mut taken).expect_err("reserved").code(), "VALIDATION.body");
}

#[test]
fn each_message_of_a_batch_carries_the_key_with_its_place() {
    let key = wire_key().to_string();
    let batch = json_of(&stamped("/email/batch", &json!([email(), email()])));
    let templates = stamped("/email/batchWithTemplates", &json!({ "Messages": [email(), email()] }));
    for messages in [&batch, &json_of(&templates)["Messages"]] {
        for index in 0..2 {
            let expected = json!({ "steadfast_key": format!("{key}-{index}"), "steadfast_batch": key });
            assert_eq!(messages[index]["Metadata"], expected);
        }
    }
}

#[test]
fn a_body_that_cannot_carry_the_key_is_refused_before_anything_is_sent() {
    for (path, body) in [
        ("/email", "[]"),
        ("/email", "not json"),
        ("/email/batch", "{}"),
        ("/email/batchWithTemplates", "{}"),
        ("/email", r#"{"Metadata":[]}"#),
        ("/email", r#"{"From":"a@b.c","Headers":{}}"#),
    ] {
        let mut request = request(path, body);
        let error = postmark().stamp(wire_key(), &mut request).expect_err(body);
        assert_eq!(error.code(), "VALIDATION.body", "{body}");
    }
}

fn hit(key: &str) -> Value {
    let entry = rig::entry("postmark", "search_hit");
    let mut hit = entry["body"]["Messages"][0].clone();
    hit["Metadata"] = json!({ "steadfast_key": key });
    hit["From"] = email()["From"].clone();
    hit
}

fn search(request: &Request, hits: &[Value]) -> Finding {
    let key = wire_key().to_string();
    let subject = Subject::new(request, &key, Timestamp::default());
    let asked = postmark().lookup(&subject).expect("a lookup");
    let body = json!({ "TotalCount": hits.len(), "Messages": hits }).to_string();
    postmark().read_lookup(&subject, &asked, &answer(200, &body))
}

#[test]
fn a_lookup_names_one_filter_and_the_messages_stream() {
    let key = wire_key().to_string();
    let asked = |path: &str, body: &Value| {
        let request = stamped(path, body);
        postmark()
            .lookup(&Subject::new(&request, &key, Timestamp::default()))
            .map(|asked| asked.url.to_string())
    };
    let base = "https://api.postmarkapp.com/messages/outbound?count=500&offset=0";
    let single = format!("{base}&metadata_steadfast_key={key}&messagestream=outbound");
    assert_eq!(asked("/email", &email()), Some(single));
    let mut news = email();
    news["MessageStream"] = json!("news letters");
    let batch = format!("{base}&metadata_steadfast_batch={key}&messagestream=news+letters");
    assert_eq!(asked("/email/batch", &json!([news, news])), Some(batch));
    assert_eq!(asked("/email/batch", &json!([news, email()])), None, "two streams need two searches");
    let mut unnamed = email();
    unnamed["MessageStream"] = json!("");
    assert!(asked("/email", &unnamed).is_some_and(|url| url.ends_with("&messagestream=outbound")));
    assert_eq!(asked("/templates", &email()), None);
}

#[test]
fn a_hit_answers_in_the_shape_of_the_lost_answer() {
    let Finding::Found(answer) = search(&stamped("/email", &email()), &[hit(&wire_key().to_string())]) else {
        panic!("not found")
    };
    let expected = json!({
        "To": "receiver@example.com",
        "SubmittedAt": "2014-02-20T07:25:02.8782715-05:00",
        "MessageID": "0ac29aee-e1cd-480d-b08d-4f48548ff48d",
        "ErrorCode": 0,
        "Message": "OK",
    });
    assert_eq!((answer.status, answer.json()), (StatusCode::OK, Some(expected)));
}

#[test]
fn a_search_miss_is_not_proof() {
    let request = stamped("/email", &email());
    assert_eq!(search(&request, &[]), Finding::CannotTell);
    assert_eq!(search(&request, &[hit("another key")]), Finding::CannotTell, "a filter that was ignored");
    let key = wire_key().to_string();
    let subject = Subject::new(&request, &key, Timestamp::default());
    let asked = postmark().lookup(&subject).expect("a lookup");
    let found = json!({ "Messages": [hit(&key)] }).to_string();
    for bad in [answer(500, &found), answer(200, "<html>"), answer(200, "{}"), answer(204, "")] {
        assert_eq!(postmark().read_lookup(&subject, &asked, &bad), Finding::Unanswered, "{bad:?}");
    }
}

#[test]
fn a_message_that_is_older_than_the_claim_is_of_the_keys_previous_life() {
    let (request, key) = (stamped("/email", &email()), wire_key().to_string());
    // The fixture's message was received at 12:25:02.878 UTC.
    let received = 1_392_899_102_878;
    let read = |claimed: u64, clock: Option<i64>, written: &Value| {
        let subject = Subject::new(&request, &key, Timestamp::from_millis(claimed)).with_vendor_clock(clock);
        let asked = postmark().lookup(&subject).expect("a lookup");
        let mut hit = hit(&key);
        if !written.is_null() {
            hit["ReceivedAt"] = written.clone();
        }
        let body = json!({ "TotalCount": 1, "Messages": [hit] }).to_string();
        postmark().read_lookup(&subject, &asked, &answer(200, &body))
    };
    let five_minutes = 300_000;
    assert!(matches!(read(received + five_minutes, None, &Value::Null), Finding::Found(_)));
    assert_eq!(read(received + five_minutes + 1, None, &Value::Null), Finding::CannotTell);
    let ahead = Some(-600_000);
    assert!(matches!(read(received + 3 * five_minutes, ahead, &Value::Null), Finding::Found(_)));
    for written in [json!("soon"), json!(7)] {
        assert_eq!(read(received, None, &written), Finding::CannotTell, "{written}");
    }
}

#[test]
fn a_batch_is_found_only_whole_and_in_its_own_order() {
    let request = stamped("/email/batch", &json!([email(), email()]));
    let item = |index: usize| {
        let mut item = hit(&format!("{}-{index}", wire_key()));
        item["MessageID"] = json!(format!("id-{index}"));
        item
    };
    assert_eq!(search(&request, &[item(0)]), Finding::CannotTell);
    let Finding::Found(answer) = search(&request, &[item(1), item(0)]) else { panic!("not found") };
    let ids: Vec<_> = (0..2).map(|index| answer.json().expect("json")[index]["MessageID"].clone()).collect();
    assert_eq!(ids, ["id-0", "id-1"]);
}

#[test]
fn the_token_is_checked_and_never_shown() {
    postmark().check().expect("a good adapter");
    Postmark::new("POSTMARK_API_TEST").check().expect("the test token");
    assert_eq!(Postmark::new(" ").check().expect_err("empty").code(), "VALIDATION.secret");
    let mut request = stamped("/email", &email());
    postmark().authorize(&mut request);
    assert_eq!(request.headers["x-postmark-server-token"], "token-secret");
    assert_eq!(request.headers["accept"], "application/json");
    assert!(!format!("{:?} {:?}", postmark(), request.headers).contains("token-secret"));
}
