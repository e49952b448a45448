//! The vendors of the table in the requirements, each as data alone.

use bytes::Bytes;
use http::{HeaderValue, Method};
use proptest::prelude::*;
use serde_json::{Value, json};

use steadfast_core::clock::Timestamp;
use steadfast_core::operation::{Key, OperationId, Scope};
use steadfast_core::vendor::{Finding, Subject};

use super::*;
use crate::vendor::rig::{self, wire_key};

const TRANSIENT: &str = r#"
    name = "transient"
    base_url = "https://transient.test/v71"
    key = { header = "idempotency-key" }
    key_len_max = 64
    window = "7days"
    stores_failures = true
    auth = { header = "X-API-Key" }
    in_progress = [{ json = { pointer = "/errorCode", value = "704" } }]
    retry_same_key = [{ header = { name = "transient-error", value = "true" } }]
"#;

const SQUARE: &str = r#"
    name = "square"
    base_url = "https://connect.squareup.com"
    key = { body = "idempotency_key" }
    key_len_max = 45
    window = "24h"
    stores_failures = true
    auth = { header = "Authorization", prefix = "Bearer " }
    reused = [{ json = { pointer = "/errors/0/code", value = "IDEMPOTENCY_KEY_REUSED" } }]
"#;

const PAYPAL: &str = r#"
    name = "paypal"
    base_url = "https://api-m.paypal.com"
    key = { header = "PayPal-Request-Id" }
    key_len_max = 108
    window = "6h"
    auth = { header = "Authorization", prefix = "Bearer " }
    reused = [{ json = { pointer = "/details/0/issue", value = "DUPLICATE_REQUEST_ID" } }]
"#;

const RESEND: &str = r#"
    name = "resend"
    base_url = "https://api.resend.com"
    key = { header = "Idempotency-Key" }
    key_len_max = 256
    window = "24h"
    stores_failures = true
    auth = { header = "Authorization", prefix = "Bearer " }
    reused = [{ status = 409, json = { pointer = "/name", value = "invalid_idempotent_request" } }]
    in_progress = [{ status = 409, json = { pointer = "/name", value = "concurrent_idempotent_requests" } }]
"#;

const IETF: &str = r#"
    name = "draft"
    base_url = "https://api.example.com"
    key = { header = "Idempotency-Key" }
    key_form = "quoted"
    window = "1h"
    stores_failures = true
    in_progress = [{ status = 409 }]
    reused = [{ status = 422, json = { pointer = "/title", value = "Idempotency-Key is already used" } }]
"#;

const INCREASE: &str = r#"
    name = "increase"
    base_url = "https://api.increase.com"
    key = { header = "Idempotency-Key" }
    key_len_max = 200
    window = "1h"
    stores_failures = true
    replay = { header = { name = "Idempotent-Replayed", value = "true" } }
"#;

fn vendor(toml: &str) -> Keyed {
    let keyed = Keyed::new(toml::from_str(toml).expect("a configuration"), "s3cret");
    keyed.check().expect("it makes sense");
    keyed
}

fn request(method: Method, body: &str) -> Request {
    let mut request = Request::new(method, Url::parse("https://v.test/x").expect("a url"));
    request.body = Bytes::from(body.to_owned());
    request
}

fn stamped(keyed: &Keyed, body: &str) -> (Request, String) {
    let mut request = request(Method::POST, body);
    let key = keyed.stamp(wire_key(), &mut request).expect("stamped");
    (request, key)
}

fn answer(status: u16, headers: &[(&str, &str)], body: &Value) -> Answer {
    rig::answer(status, headers, &body.to_string())
}

fn judge(keyed: &Keyed, answer: &Answer, before: Effect) -> Verdict {
    let (request, _) = stamped(keyed, "{}");
    keyed.classify(
        &Attempt::new(&request, true, Ok(answer), Timestamp::default()).after(before).in_window(true),
    )
}

const fn no(refusal: Refusal, speaks_for: SpeaksFor) -> Verdict {
    Verdict::Refused { refusal, speaks_for }
}

const fn retry(effect: Effect) -> Verdict {
    Verdict::Retry { effect, not_before: None }
}

const HOUR: Duration = Duration::from_secs(3600);

#[test]
fn a_vendor_with_a_mark_for_transient_failures_is_data_alone() {
    let transient = vendor(TRANSIENT);
    let (request, key) = stamped(&transient, "{}");
    assert_eq!(request.headers["idempotency-key"], wire_key().to_string());
    assert!(key.len() <= 64);
    assert_eq!(transient.replay_window(&request), Some(7 * 24 * HOUR));
    let in_progress = answer(422, &[], &json!({ "status": 422, "errorCode": "704" }));
    assert_eq!(judge(&transient, &in_progress, Effect::None), retry(Effect::Unknown));
    let number = answer(422, &[], &json!({ "errorCode": 704 }));
    assert_eq!(judge(&transient, &number, Effect::None), retry(Effect::Unknown));
    for status in [422, 500] {
        let asked = answer(status, &[("transient-error", "true")], &json!({ "errorCode": "703" }));
        assert_eq!(judge(&transient, &asked, Effect::None), retry(Effect::Unknown));
    }
    let other = answer(422, &[("transient-error", "false")], &json!({ "errorCode": "130" }));
    assert_eq!(judge(&transient, &other, Effect::None), no(Refusal::Rejected, SpeaksFor::EarlierToo));
}

#[test]
fn the_ietf_draft_is_data_alone_and_its_quotes_are_part_of_the_value() {
    let draft = vendor(IETF);
    let (request, key) = stamped(&draft, "{}");
    assert_eq!(request.headers["idempotency-key"], format!("\"{key}\""));
    let fixture = rig::fixtures("ietf_idempotency_key");
    let errors = fixture["errors"].as_array().expect("a list");
    assert_eq!(errors.len(), 3);
    for error in errors {
        let status = u16::try_from(error["status"].as_u64().expect("a status")).expect("a status");
        let expected = match status {
            400 => no(Refusal::Rejected, SpeaksFor::EarlierToo),
            422 => no(Refusal::KeyReused, SpeaksFor::ThisAttempt),
            409 => retry(Effect::Unknown),
            other => panic!("{other}"),
        };
        assert_eq!(judge(&draft, &answer(status, &[], &error["body"]), Effect::None), expected, "{status}");
    }
    let invalid = answer(422, &[], &json!({ "title": "amount is missing" }));
    assert_eq!(judge(&draft, &invalid, Effect::None), no(Refusal::Rejected, SpeaksFor::EarlierToo));
}

#[test]
fn a_marked_replay_is_known_as_one_and_a_replayed_500_is_not_retried_for_ever() {
    let increase = vendor(INCREASE);
    let replay = [("idempotent-replayed", "TRUE")];
    let judge =
        |status, headers: &[_]| judge(&increase, &answer(status, headers, &json!({})), Effect::Unknown);
    assert_eq!(judge(200, &replay), Verdict::Done { replayed: true });
    assert_eq!(judge(200, &[]), Verdict::Done { replayed: false });
    assert_eq!(judge(500, &replay), Verdict::Unknown);
    assert_eq!(judge(500, &[]), retry(Effect::Unknown));
}

#[test]
fn a_post_without_a_window_is_sent_at_most_once() {
    let mut config = KeyedConfig::new("plain", "https://v.test");
    for key in [None, Some(KeyPlace::Header("Idempotency-Key".into())), Some(KeyPlace::Body("key".into()))] {
        config.key = key;
        let plain = Keyed::new(config.clone(), "");
        plain.check().expect("it makes sense");
        let (request, key) = stamped(&plain, "{}");
        assert_eq!(plain.replay_window(&request), None);
        let subject = Subject::new(&request, &key, Timestamp::default());
        assert!(plain.lookup(&subject).is_none());
        let nothing = answer(200, &[], &json!([]));
        assert_eq!(plain.read_lookup(&subject, &request, &nothing), Finding::CannotTell);
    }
}

#[test]
fn a_no_speaks_for_an_earlier_attempt_only_where_the_vendor_replays() {
    use SpeaksFor::{EarlierToo, ThisAttempt};
    let rejected = |speaks_for| no(Refusal::Rejected, speaks_for);
    let answer_400 = answer(400, &[], &json!({}));
    assert_eq!(judge(&vendor(RESEND), &answer_400, Effect::Unknown), rejected(EarlierToo));
    let plain = Keyed::new(KeyedConfig::new("plain", "https://v.test"), "");
    assert_eq!(judge(&plain, &answer_400, Effect::Unknown), rejected(ThisAttempt));
    let mut no_window: KeyedConfig = toml::from_str(RESEND).expect("a configuration");
    no_window.window = None;
    assert_eq!(judge(&Keyed::new(no_window, "s3cret"), &answer_400, Effect::Unknown), rejected(ThisAttempt));
    // Without a record of it, the first request may still come, and is then executed.
    let mut successes_alone: KeyedConfig = toml::from_str(RESEND).expect("a configuration");
    successes_alone.stores_failures = false;
    successes_alone.replay = Some(Marker { status: Some(422), ..Marker::default() });
    let successes_alone = Keyed::new(successes_alone, "s3cret");
    assert_eq!(judge(&successes_alone, &answer_400, Effect::Unknown), rejected(ThisAttempt));
    let replayed = answer(422, &[], &json!({}));
    assert_eq!(
        judge(&successes_alone, &replayed, Effect::Unknown),
        rejected(EarlierToo),
        "it says so itself"
    );
    let (request, _) = stamped(&successes_alone, "{}");
    let over = Attempt::new(&request, true, Ok(&replayed), Timestamp::default()).after(Effect::Unknown);
    assert_eq!(successes_alone.classify(&over), rejected(ThisAttempt), "of some earlier one");
    let resend = vendor(RESEND);
    let (request, _) = stamped(&resend, "{}");
    let over = Attempt::new(&request, true, Ok(&answer_400), Timestamp::default()).after(Effect::Unknown);
    assert_eq!(resend.classify(&over), rejected(ThisAttempt), "the window is over");
    for (status, refusal) in
        [(401, Refusal::Unauthorized), (403, Refusal::Unauthorized), (409, Refusal::Rejected)]
    {
        let verdict = judge(&resend, &answer(status, &[], &json!({})), Effect::Unknown);
        assert_eq!(verdict, no(refusal, ThisAttempt), "{status}");
    }
}

/// Some vendors refuse a secret with 400, which would otherwise be a no to the request.
#[test]
fn a_refused_secret_may_have_another_status() {
    let marked = format!("{RESEND}unauthorized = [{{ says = 'INVALID_API_KEYS' }}]");
    let (marked, plain) = (vendor(&marked), vendor(RESEND));
    let refused = answer(400, &[], &json!({ "error_code": "INVALID_API_KEYS" }));
    let unauthorized = no(Refusal::Unauthorized, SpeaksFor::ThisAttempt);
    assert_eq!(judge(&marked, &refused, Effect::Unknown), unauthorized);
    let rejected = no(Refusal::Rejected, SpeaksFor::EarlierToo);
    assert_eq!(judge(&plain, &refused, Effect::Unknown), rejected);
    let other = answer(400, &[], &json!({ "error_code": "INVALID_FIELD" }));
    assert_eq!(judge(&marked, &other, Effect::Unknown), rejected);
}

fn page(status: u16, kind: &str, body: &str) -> Answer {
    let mut page = answer(status, &[("content-type", kind)], &Value::Null);
    page.body = Bytes::from(body.to_owned());
    page
}

#[test]
fn without_marks_a_page_is_a_proxys_and_only_json_speaks_for_an_earlier_attempt() {
    let html = page(404, "text/html", "<html></html>");
    for text in [RESEND, SQUARE, INCREASE] {
        assert_eq!(judge(&vendor(text), &html, Effect::None), retry(Effect::Unknown));
    }
    let plain = page(413, "text/plain", "Payload Too Large");
    let this_alone = no(Refusal::Rejected, SpeaksFor::ThisAttempt);
    assert_eq!(judge(&vendor(RESEND), &plain, Effect::Unknown), this_alone);
}

/// An ingress without a route says 404 too, and the lost DELETE before it may never have arrived.
#[test]
fn only_json_proves_that_an_earlier_delete_removed_it() {
    let delete = request(Method::DELETE, "");
    let judge = |answer: &Answer| {
        let attempt = Attempt::new(&delete, true, Ok(answer), Timestamp::default());
        vendor(RESEND).classify(&attempt.after(Effect::Unknown))
    };
    for (kind, body) in [("text/plain", "default backend - 404"), ("text/plain", "")] {
        assert_eq!(judge(&page(404, kind, body)), retry(Effect::Unknown), "{body}");
    }
    let gone = answer(404, &[], &json!({"message": "no such email"}));
    assert_eq!(judge(&gone), Verdict::Done { replayed: true });
}

/// A firewall that challenges its client keeps the request from the vendor, and says 202 without a word.
#[test]
fn a_challenge_is_no_success() {
    let mut challenge = page(202, "text/plain", "");
    challenge.headers.insert("x-amzn-waf-action", HeaderValue::from_static("challenge"));
    for text in [RESEND, SQUARE, INCREASE] {
        assert_eq!(judge(&vendor(text), &challenge, Effect::None), retry(Effect::Unknown));
    }
}

#[test]
fn with_a_mark_only_marked_answers_are_the_vendors_own() {
    let json = json!({ "error": { "code": "bad" } });
    for (mark, own) in [
        (r#"own = { header = "Request-Id" }"#, answer(400, &[("request-id", "1")], &json!({}))),
        (r#"own = { json = "/error/code" }"#, answer(400, &[], &json)),
        (r#"own = { header = "Request-Id", json = "/error" }"#, answer(400, &[("request-id", "1")], &json)),
    ] {
        let marked = vendor(&format!("{RESEND}\n{mark}"));
        assert_eq!(
            judge(&marked, &own, Effect::Unknown),
            no(Refusal::Rejected, SpeaksFor::EarlierToo),
            "{mark}"
        );
        for foreign in [
            answer(400, &[("x-request-id", "1")], &json!({ "error": null })),
            page(400, "text/html", "<html></html>"),
            page(400, "text/plain", ""),
        ] {
            assert_eq!(judge(&marked, &foreign, Effect::None), retry(Effect::Unknown), "{mark} {foreign:?}");
        }
    }
}

#[test]
fn a_page_with_status_200_is_no_success_but_mislabelled_json_is() {
    let keyed = vendor(RESEND);
    let html = page(200, "text/html", "<!doctype html><title>Sign in</title>");
    assert_eq!(judge(&keyed, &html, Effect::None), retry(Effect::Unknown));
    for body in ["ok", "", r#"{"id":1}"#] {
        let labelled = page(200, "text/html; charset=utf-8", body);
        assert_eq!(judge(&keyed, &labelled, Effect::None), Verdict::Done { replayed: false }, "{body}");
    }
    let get = request(Method::GET, "");
    let read = Attempt::new(&get, false, Ok(&html), Timestamp::default());
    assert_eq!(keyed.classify(&read), Verdict::Done { replayed: false }, "a page that was asked for");
    let marked = vendor(&format!("{RESEND}\nown = {{ header = \"Request-Id\" }}"));
    let mut own = html.clone();
    own.headers.insert("request-id", HeaderValue::from_static("1"));
    assert_eq!(judge(&marked, &own, Effect::None), Verdict::Done { replayed: false }, "its own page");
}

#[test]
fn a_short_limit_gets_a_shorter_key_that_still_differs_and_never_changes() {
    let key_of = |limit: usize, key: &str| {
        let mut config = KeyedConfig::new("short", "https://v.test");
        config.key_len_max = limit;
        let id = OperationId::new(Scope::from_stored("s"), Key::new(key).expect("a key"));
        Keyed::new(config, "").short_key(id.wire_key())
    };
    for (limit, length) in [(255, 36), (36, 36), (35, 32), (32, 32), (20, 20), (16, 16)] {
        assert_eq!(key_of(limit, "a").len(), length, "{limit}");
        assert_ne!(key_of(limit, "a"), key_of(limit, "b"));
        assert_eq!(key_of(limit, "a"), key_of(limit, "a"));
    }
}

#[test]
fn a_body_that_cannot_carry_the_key_is_refused_before_anything_is_sent() {
    let square = vendor(SQUARE);
    for body in ["", "a=1", "[]", r#"{"idempotency_key":"mine"}"#] {
        let error = square.stamp(wire_key(), &mut request(Method::POST, body)).expect_err(body);
        assert_eq!(error.code(), "VALIDATION.body", "{body}");
    }
    let mut delete = request(Method::DELETE, "");
    square.stamp(wire_key(), &mut delete).expect("a DELETE needs no key");
    assert_eq!((delete.body.len(), square.replay_window(&delete)), (0, None));
    let mut own = request(Method::POST, "{}");
    own.headers.insert("idempotency-key", HeaderValue::from_static("mine"));
    assert_eq!(vendor(RESEND).stamp(wire_key(), &mut own).expect_err("refused").code(), "VALIDATION.header");
}

#[test]
fn a_configuration_that_makes_no_sense_is_refused_with_the_field() {
    let base = "name = 'v'\nbase_url = 'https://v.test'\n";
    for (line, field) in [
        ("key_len_max = 15", "key_len_max"),
        ("window = '1h'", "window"),
        ("key = { body = '' }", "key.body"),
        ("key = { body = 'k' }\nkey_form = 'quoted'", "key_form"),
        ("key = { header = 'a b' }", "key.header"),
        ("key = { header = 'k' }\nwindow = '0s'", "window"),
        ("auth = { header = '' }", "auth.header"),
        ("reused = [{}]", "reused[0]"),
        ("in_progress = [{ json = { pointer = 'code', value = '1' } }]", "in_progress[0]"),
        ("retry_same_key = [{ status = 409 }, { status = 20 }]", "retry_same_key[1]"),
        ("unauthorized = [{ says = 'bad_key' }, { status = 403 }]", "unauthorized[1]"),
        ("replay = {}", "replay"),
        ("own = {}", "own"),
        ("own = { header = 'a b' }", "own"),
        ("own = { json = 'error' }", "own"),
    ] {
        let config: KeyedConfig = toml::from_str(&format!("{base}{line}")).expect(line);
        let error = Keyed::new(config, "s3cret").check().expect_err(line);
        assert!(error.to_string().contains(&format!("{field}:")), "{line}: {error}");
    }
    for unknown in
        ["windw = '1h'", "key = { query = 'k' }", "reused = [{ state = 1 }]", "key_form = 'base64'"]
    {
        assert!(toml::from_str::<KeyedConfig>(&format!("{base}{unknown}")).is_err(), "{unknown}");
    }
}

#[test]
fn the_secret_is_checked_sent_and_never_shown() {
    let transient = vendor(TRANSIENT);
    let (mut request, _) = stamped(&transient, "{}");
    assert!(!request.headers.contains_key("x-api-key"), "secrets are added at each send, not stamped");
    transient.authorize(&mut request);
    assert_eq!(request.headers["x-api-key"], "s3cret");
    assert!(!format!("{transient:?} {:?}", request.headers).contains("s3cret"));
    let config: KeyedConfig = toml::from_str(TRANSIENT).expect("a configuration");
    assert_eq!(Keyed::new(config, "").check().expect_err("empty").code(), "VALIDATION.secret");
}

#[test]
fn a_configuration_survives_being_written_and_read() {
    for text in [TRANSIENT, SQUARE, PAYPAL, RESEND, IETF, INCREASE] {
        let config: KeyedConfig = toml::from_str(text).expect("a configuration");
        let written = toml::to_string(&config).expect("text");
        assert_eq!(toml::from_str::<KeyedConfig>(&written).expect("a configuration"), config);
    }
}

proptest! {
    #[test]
    fn no_answer_makes_the_rules_panic(status in 100u16..1000, value in "[ -~]{0,20}", body in ".{0,40}") {
        let mut answer = answer(status, &[("transient-error", &value)], &Value::Null);
        answer.body = body.into();
        for text in [TRANSIENT, SQUARE, PAYPAL, RESEND, IETF, INCREASE] {
            judge(&vendor(text), &answer, Effect::None);
        }
    }
}

#[test]
fn a_success_needs_the_form_that_its_route_has_in_the_table() {
    let table = r#"
        name = "acme"
        base_url = "https://api.acme.test"
        success = [{ json = "/id" }, { route = "POST /batches", json = "/data", header = "X-Batch" }]
    "#;
    let acme = vendor(table);
    acme.check().expect("a good table");
    let judged = |method: Method, path: &str, headers: &[(&str, &str)], body: &str| {
        let url = Url::parse(&format!("https://api.acme.test{path}")).expect("a url");
        let (request, answer) = (Request::new(method, url), rig::answer(200, headers, body));
        acme.classify(&Attempt::new(&request, true, Ok(&answer), Timestamp::default()))
    };
    let (done, again) =
        (Verdict::Done { replayed: false }, Verdict::Retry { effect: Effect::Unknown, not_before: None });
    let batch = [("x-batch", "1")];
    for (path, headers, body, expected) in [
        ("/orders", &[][..], r#"{"id":7}"#, done),
        ("/orders", &[], r#"{"data":[]}"#, again),
        ("/orders", &batch, r#"{"data":[]}"#, again),
        ("/orders", &[], "OK", again),
        ("/orders", &[], "", again),
        ("/batches", &batch, r#"{"data":[]}"#, done),
        ("/batches", &[], r#"{"data":[]}"#, again),
        ("/batches", &[], r#"{"id":7}"#, done),
    ] {
        assert_eq!(judged(Method::POST, path, headers, body), expected, "{path} {body}");
        assert_eq!(judged(Method::GET, path, headers, body), done, "a read");
    }
    // What was cut off at its limit may have had it.
    let url = Url::parse("https://api.acme.test/orders").expect("a url");
    let (request, mut cut) = (Request::new(Method::POST, url), rig::answer(200, &[], "{\"i"));
    cut.cut = true;
    assert_eq!(acme.classify(&Attempt::new(&request, true, Ok(&cut), Timestamp::default())), done);
    for bad in ["success = [{}]", "success = [{ json = 'id' }]", "success = [{ route = '/a', json = '/id' }]"]
    {
        let text = format!("name = 'acme'\nbase_url = 'https://api.acme.test'\n{bad}");
        let config: KeyedConfig = toml::from_str(&text).expect("a configuration");
        assert!(config.check().is_err(), "{bad}");
    }
}
