use bytes::Bytes;
use http::HeaderValue;
use serde_json::{Value, json};

use steadfast_core::clock::Timestamp;
use steadfast_core::transport::{SendError, SendErrorKind};
use steadfast_core::vendor::SpeaksFor;
use steadfast_core::{Effect, Refusal};

use super::rules::retried_at_once;
use super::*;
use crate::vendor::rig::{self, answer, wire_key};

fn stripe() -> Stripe {
    Stripe::new("sk_test_123")
}

fn form(method: Method, path: &str, body: &str) -> Request {
    let mut request =
        Request::new(method, Url::parse(&format!("https://api.stripe.com{path}")).expect("a url"));
    let kind = HeaderValue::from_static("application/x-www-form-urlencoded");
    request.headers.insert(http::header::CONTENT_TYPE, kind);
    request.body = Bytes::from(body.to_owned());
    request
}

fn charge() -> Request {
    form(Method::POST, "/v1/charges", "amount=1000&currency=usd")
}

fn stamped() -> Request {
    let mut request = charge();
    stripe().stamp(wire_key(), &mut request).expect("stamped");
    request
}

/// Stripe puts `Request-Id` on each of its answers; the fixtures show it where they were captured with it.
fn fixture(name: &str) -> Answer {
    let mut answer = rig::fixture("stripe", name);
    if serde_json::from_slice::<Value>(&answer.body).is_ok_and(|body| body.is_object()) {
        answer.headers.entry("request-id").or_insert(HeaderValue::from_static("req_1"));
    }
    answer
}

fn judge(answer: &Answer, before: Effect) -> Verdict {
    let request = stamped();
    stripe().classify(
        &Attempt::new(&request, true, Ok(answer), Timestamp::default()).after(before).in_window(true),
    )
}

/// Stripe's own failure.
fn own(status: u16, error: &Value) -> Answer {
    answer(status, &[("request-id", "req_1")], &json!({ "error": error }).to_string())
}

const fn no(refusal: Refusal, speaks_for: SpeaksFor) -> Verdict {
    Verdict::Refused { refusal, speaks_for }
}

const fn retry(effect: Effect) -> Verdict {
    Verdict::Retry { effect, not_before: None }
}

#[test]
fn ids_of_objects_are_shown_and_ids_that_grant_access_are_not() {
    let id = "3MtwBwLkdIwHu7ix28a3tqPa";
    for prefix in ["ch", "pi", "cus", "acct", "re", "sub", "evt"] {
        assert!(stripe().may_show(&format!("{prefix}_{id}")), "{prefix}");
    }
    for hidden in [
        format!("pi_{id}_secret_YrKJUKribcBjcG8HVhfZluoGH"),
        format!("cs_test_{id}"),
        format!("cs_{id}"),
        format!("tok_{id}"),
        format!("ephkey_{id}"),
        format!("sk_live_{id}"),
        format!("new_{id}"),
        format!("pi_{id}%2F"),
        id.to_owned(),
    ] {
        assert!(!stripe().may_show(&hidden), "{hidden}");
    }
}

#[test]
fn every_row_of_the_should_retry_vectors_holds() {
    let path = format!("{}/tests/vectors/stripe_should_retry.json", env!("CARGO_MANIFEST_DIR"));
    let vectors: Value = serde_json::from_slice(&std::fs::read(path).expect("the vectors")).expect("json");
    let cases = vectors["cases"].as_array().expect("rows");
    assert_eq!(cases.len(), 15);
    let mut held = 0;
    for case in cases {
        let want = case["want"].as_bool().expect("a verdict");
        if case.get("retries").is_some() || case.get("ctx").is_some() {
            continue; // Attempts left and deadlines are the engine's, and tested there.
        }
        held += 1;
        if let Some(error) = case["err"].as_str() {
            for kind in kinds(error) {
                assert_eq!(retried_at_once(Err(&SendError::new(kind))), want, "{case} {kind:?}");
            }
            continue;
        }
        let status = u16::try_from(case["status"].as_u64().expect("a status")).expect("a status");
        let body = json!({ "error": { "code": case["code"] } }).to_string();
        let headers: Vec<_> = case["Stripe-Should-Retry"]
            .as_str()
            .map(|told| ("stripe-should-retry", told))
            .into_iter()
            .collect();
        assert_eq!(retried_at_once(Ok(&answer(status, &headers, &body))), want, "{case}");
    }
    assert_eq!(held, 13);
}

fn kinds(error: &str) -> Vec<SendErrorKind> {
    use SendErrorKind::{Connect, Dns, Redirected, Reset, Timeout, Truncated};
    match error {
        "too many redirects" => vec![Redirected],
        "unsupported scheme" => vec![SendErrorKind::Request],
        "tls certificate" => vec![SendErrorKind::Tls],
        _ => vec![Connect, Dns, Reset, Timeout, Truncated],
    }
}

#[test]
fn every_fixture_gets_its_verdict() {
    use Effect::{None, Unknown};
    use SpeaksFor::{EarlierToo, ThisAttempt};
    for (name, expected) in [
        ("create_ok_first", Verdict::Done { replayed: false }),
        ("create_ok_replayed", Verdict::Done { replayed: true }),
        ("param_mismatch", no(Refusal::KeyReused, ThisAttempt)),
        ("endpoint_mismatch", no(Refusal::KeyReused, ThisAttempt)),
        ("concurrent_key_in_use", retry(Unknown)),
        ("lock_timeout", retry(None)),
        ("rate_limited_global", retry(None)),
        ("stored_500", Verdict::Unknown),
        ("card_declined", no(Refusal::Rejected, EarlierToo)),
        ("invalid_param", no(Refusal::Rejected, ThisAttempt)),
        ("unauthorized", no(Refusal::Unauthorized, ThisAttempt)),
        ("oauth_error", no(Refusal::Rejected, ThisAttempt)),
        ("gateway_html", retry(Unknown)),
        ("should_retry_true_on_400", retry(None)),
        ("should_retry_false_on_409", no(Refusal::Rejected, ThisAttempt)),
    ] {
        assert_eq!(judge(&fixture(name), None), expected, "{name}");
    }
}

#[test]
fn a_replayed_500_is_not_retried_even_with_should_retry() {
    for headers in [
        vec![("idempotent-replayed", "true")],
        vec![("idempotent-replayed", "true"), ("stripe-should-retry", "true")],
    ] {
        assert_eq!(judge(&answer(500, &headers, "{}"), Effect::Unknown), Verdict::Unknown);
    }
    assert_eq!(judge(&answer(500, &[], "{}"), Effect::Unknown), retry(Effect::Unknown));
}

#[test]
fn a_replayed_success_is_done_and_marked_as_a_replay() {
    let replay = answer(200, &[("idempotent-replayed", "true")], "{}");
    assert_eq!(judge(&replay, Effect::Unknown), Verdict::Done { replayed: true });
}

#[test]
fn should_retry_on_a_plain_200_means_nothing() {
    for told in ["true", "false"] {
        let answer = answer(200, &[("stripe-should-retry", told)], "{}");
        assert_eq!(judge(&answer, Effect::None), Verdict::Done { replayed: false });
    }
}

#[test]
fn a_409_is_decided_by_status_and_code_and_never_by_type() {
    for kind in ["idempotency_error", "invalid_request_error", "anything"] {
        let body = json!({ "error": { "code": "idempotency_key_in_use", "type": kind } }).to_string();
        for headers in [&[][..], &[("request-id", "req_1")]] {
            let judged = judge(&answer(409, headers, &body), Effect::None);
            assert_eq!(judged, retry(Effect::Unknown), "{kind}");
        }
        let told_not_to = ("stripe-should-retry", "false");
        for headers in [&[told_not_to][..], &[told_not_to, ("request-id", "req_1")]] {
            let judged = judge(&answer(409, headers, &body), Effect::None);
            assert_eq!(judged, Verdict::Unknown, "{kind}: the other request may execute");
        }
    }
}

#[test]
fn a_429_that_says_do_not_retry_is_obeyed() {
    let told = answer(429, &[("stripe-should-retry", "false")], "{}");
    assert_eq!(judge(&told, Effect::None), no(Refusal::Rejected, SpeaksFor::ThisAttempt));
    let waits = answer(429, &[("retry-after", "7")], "");
    let expected = Verdict::Retry { effect: Effect::None, not_before: Some(Duration::from_secs(7)) };
    assert_eq!(judge(&waits, Effect::None), expected);
}

#[test]
fn a_refusal_speaks_for_earlier_attempts_only_where_stripe_would_have_replayed_them() {
    use SpeaksFor::{EarlierToo, ThisAttempt};
    let request = stamped();
    let judge = |answer: &Answer, in_window: bool| {
        let attempt = Attempt::new(&request, true, Ok(answer), Timestamp::default());
        stripe().classify(&attempt.after(Effect::Unknown).in_window(in_window))
    };
    let declined = own(402, &json!({ "code": "card_declined" }));
    assert_eq!(judge(&declined, true), no(Refusal::Rejected, EarlierToo));
    assert_eq!(judge(&declined, false), no(Refusal::Rejected, ThisAttempt), "its record may be gone");
    let mut replayed = declined.clone();
    replayed.headers.insert("idempotent-replayed", HeaderValue::from_static("true"));
    assert_eq!(judge(&replayed, true), no(Refusal::Rejected, EarlierToo), "it is the first one's own");
    assert_eq!(judge(&replayed, false), no(Refusal::Rejected, ThisAttempt), "or a later one's");
    for (status, refusal, error) in [
        (401, Refusal::Unauthorized, json!({})),
        (403, Refusal::Unauthorized, json!({})),
        (400, Refusal::KeyReused, json!({ "type": "idempotency_error" })),
        (404, Refusal::KeyReused, json!({ "type": "idempotency_error" })),
    ] {
        assert_eq!(judge(&own(status, &error), true), no(refusal, ThisAttempt), "{status} {error}");
    }
    // An unkeyed call's outcome is kept under no key.
    let unkeyed = Attempt::new(&request, false, Ok(&declined), Timestamp::default()).in_window(true);
    assert_eq!(stripe().classify(&unkeyed), no(Refusal::Rejected, ThisAttempt));
}

#[test]
fn a_proxys_4xx_is_no_refusal_and_leaves_the_effect_unknown() {
    let error = json!({ "error": { "type": "invalid_request_error" } }).to_string();
    for status in [400, 401, 402, 403, 404, 405, 413, 421, 431] {
        for foreign in [
            answer(status, &[("content-type", "text/html")], "<html><body>Bad request</body></html>"),
            answer(status, &[], ""),
            answer(status, &[("request-id", "req_1")], "<html></html>"),
            answer(status, &[("request-id", "req_1")], r#"{"message":"no route"}"#),
            answer(status, &[], &error),
        ] {
            for before in [Effect::None, Effect::Unknown] {
                assert_eq!(judge(&foreign, before), retry(Effect::Unknown), "{foreign:?}");
            }
            // What reads has no effect that somebody else's no could leave open.
            let list = form(Method::GET, "/v1/charges", "");
            let attempt = Attempt::new(&list, false, Ok(&foreign), Timestamp::default());
            assert!(matches!(stripe().classify(&attempt), Verdict::Refused { .. }), "{foreign:?}");
        }
    }
    let told = answer(400, &[("stripe-should-retry", "true")], "");
    assert_eq!(judge(&told, Effect::None), retry(Effect::Unknown));
    // Stripe's word on resending is in it, and so is its mark of a replay.
    let told_not_to = answer(400, &[("stripe-should-retry", "false")], "");
    assert_eq!(judge(&told_not_to, Effect::None), Verdict::Unknown);
    let marked = answer(402, &[("idempotent-replayed", "true")], &error);
    assert_eq!(judge(&marked, Effect::Unknown), Verdict::Unknown);
}

#[test]
fn a_404_to_a_repeated_delete_is_stripes_own_or_proves_nothing() {
    let delete = form(Method::DELETE, "/v1/coupons/c_1", "");
    let judge = |answer: &Answer| {
        let attempt = Attempt::new(&delete, false, Ok(answer), Timestamp::default());
        stripe().classify(&attempt.after(Effect::Unknown))
    };
    let missing = own(404, &json!({ "type": "invalid_request_error", "code": "resource_missing" }));
    assert_eq!(judge(&missing), Verdict::Done { replayed: true });
    assert_eq!(judge(&answer(404, &[], "no such route")), retry(Effect::Unknown));
}

#[test]
fn a_page_with_status_200_is_no_success() {
    for body in ["<!DOCTYPE html><title>Sign in</title>", " \n<HTML>", "\u{feff}<html>"] {
        assert_eq!(judge(&answer(200, &[], body), Effect::None), retry(Effect::Unknown), "{body}");
    }
    let labelled = answer(200, &[("content-type", "Text/HTML; charset=utf-8")], "<head></head>");
    assert_eq!(judge(&labelled, Effect::None), retry(Effect::Unknown));
}

const DONE: Verdict = Verdict::Done { replayed: false };

/// A proxy's answer in the vendor's place may be "OK", or nothing.
#[test]
fn a_text_with_status_200_is_no_success_whatever_number_it_has() {
    for body in ["", "OK", "1", "\"OK\"", r#"{"id":"ch_1","#] {
        for status in [200, 201, 202] {
            let judged = judge(&answer(status, &[], body), Effect::None);
            assert_eq!(judged, retry(Effect::Unknown), "{status} {body}");
            let numbered = answer(status, &[("request-id", "req_1")], body);
            assert_eq!(judge(&numbered, Effect::None), retry(Effect::Unknown), "{status} {body}");
        }
    }
    for (status, body) in [
        (200, r#"{"status":"ok"}"#),
        (200, r#"{"id":null,"object":null,"message":"maintenance"}"#),
        (200, "[]"),
        (200, "null"),
        (204, ""),
    ] {
        for headers in [&[][..], &[("request-id", "req_1")]] {
            let judged = judge(&answer(status, headers, body), Effect::None);
            assert_eq!(judged, retry(Effect::Unknown), "all of v1 has an id: {body}");
        }
    }
    // No body is what a 204 of v2 says. Of one that was cut off at our limit the form is not known.
    let mut v2 = stamped();
    v2.url.set_path("/v2/core/accounts/acct_1/close");
    let nothing = answer(204, &[], "");
    let attempt = Attempt::new(&v2, true, Ok(&nothing), Timestamp::default());
    assert_eq!(stripe().classify(&attempt), DONE);
    // And an object without members is what some of v2 answers with; one without an id is a gateway's.
    for (body, expected) in [("{}", DONE), (r#"{"message":"queued"}"#, retry(Effect::Unknown))] {
        let told = answer(200, &[("request-id", "req_1")], body);
        let attempt = Attempt::new(&v2, true, Ok(&told), Timestamp::default());
        assert_eq!(stripe().classify(&attempt), expected, "{body}");
    }
    let mut cut = answer(200, &[], r#"{"id":"ch_1","#);
    cut.cut = true;
    assert_eq!(judge(&cut, Effect::None), DONE);
    // What reads changes nothing, whoever answers it.
    let (list, text) = (form(Method::GET, "/v1/charges", ""), answer(200, &[], "OK"));
    let attempt = Attempt::new(&list, false, Ok(&text), Timestamp::default());
    assert_eq!(stripe().classify(&attempt), DONE);
}

#[test]
fn a_400_with_the_code_rate_limit_is_a_rate_limit() {
    let limit = json!({ "code": "rate_limit" });
    assert_eq!(judge(&own(400, &limit), Effect::Unknown), retry(Effect::None));
    let foreign = answer(400, &[], &json!({ "error": limit }).to_string());
    assert_eq!(
        judge(&foreign, Effect::None),
        retry(Effect::Unknown),
        "a proxy has no limit of Stripe's to tell of"
    );
}

#[test]
fn a_v1_post_carries_the_raw_key_and_a_get_or_delete_none() {
    let request = stamped();
    assert_eq!(request.headers["idempotency-key"], wire_key().to_string());
    assert_eq!(Vendor::replay_window(&stripe(), &request), Some(Duration::from_secs(86_400)));
    for method in [Method::GET, Method::DELETE] {
        let mut request = form(method, "/v1/charges/ch_1", "");
        stripe().stamp(wire_key(), &mut request).expect("stamped");
        assert!(!request.headers.contains_key("idempotency-key"));
        assert_eq!(Vendor::replay_window(&stripe(), &request), None);
    }
}

#[test]
fn v2_keys_posts_and_deletes_for_30_days_and_needs_a_version() {
    let versioned = stripe().api_version("2025-08-27.basil");
    for method in [Method::POST, Method::DELETE] {
        let mut request = v2(method.clone());
        let error = stripe().stamp(wire_key(), &mut request).expect_err("no version");
        assert_eq!(error.code(), "VALIDATION.header");
        versioned.stamp(wire_key(), &mut request).expect("stamped");
        assert_eq!(request.headers["stripe-version"], "2025-08-27.basil");
        assert_eq!(Vendor::replay_window(&versioned, &request), Some(Duration::from_secs(30 * 86_400)));
    }
}

fn v2(method: Method) -> Request {
    let mut request = form(method, "/v2/core/accounts/1", r#"{"amount":1}"#);
    request.headers.insert("content-type", HeaderValue::from_static("application/json"));
    request
}

#[test]
fn v2_takes_json_and_executes_failed_requests_again() {
    let versioned = stripe().api_version("2025-08-27.basil");
    let error = versioned.stamp(wire_key(), &mut form(Method::POST, "/v2/core/accounts", "a=1"));
    assert_eq!(error.expect_err("a form").code(), "VALIDATION.body");

    let mut request = v2(Method::POST);
    versioned.stamp(wire_key(), &mut request).expect("stamped");
    let own = [("request-id", "req_1"), ("idempotent-replayed", "true")];
    let verdict = |status, request: &Request| {
        let answer = answer(status, &own, r#"{"error":{"type":"x","code":"y"}}"#);
        let attempt = Attempt::new(request, true, Ok(&answer), Timestamp::from_millis(0));
        versioned.classify(&attempt.after(Effect::Unknown).in_window(true))
    };
    // A stored failure of v1 never changes. There is none in v2.
    let v1 = stamped();
    assert_eq!(verdict(500, &v1), Verdict::Unknown);
    assert_eq!(verdict(500, &request), Verdict::Retry { effect: Effect::Unknown, not_before: None });
    let refused = |speaks_for| Verdict::Refused { refusal: Refusal::Rejected, speaks_for };
    assert_eq!(verdict(402, &v1), refused(SpeaksFor::EarlierToo));
    assert_eq!(verdict(402, &request), refused(SpeaksFor::ThisAttempt));
    // Another request's key is a conflict to v1 and will be free again. In v2 it is the end.
    let conflict = r#"{"error":{"type":"idempotency_error","code":"idempotency_error"}}"#;
    let reused = |headers: &[(&'static str, &'static str)], request: &Request| {
        let answer = answer(409, headers, conflict);
        let attempt = Attempt::new(request, true, Ok(&answer), Timestamp::from_millis(0));
        versioned.classify(&attempt.after(Effect::Unknown).in_window(true))
    };
    let again = Verdict::Retry { effect: Effect::Unknown, not_before: None };
    let key_reused = Verdict::Refused { refusal: Refusal::KeyReused, speaks_for: SpeaksFor::ThisAttempt };
    assert_eq!(reused(&own, &request), key_reused);
    assert_eq!(reused(&own, &v1), refused(SpeaksFor::EarlierToo), "a replay");
    assert_eq!(reused(&own[..1], &v1), again);
    assert_eq!(reused(&[], &request), again, "nobody's own");
    assert_eq!(reused(&[own[0], ("stripe-should-retry", "true")], &request), again);
    let done = answer(200, &own, r#"{"object":"v2.core.account","id":"acct_1"}"#);
    let attempt = Attempt::new(&request, true, Ok(&done), Timestamp::from_millis(0));
    assert_eq!(versioned.classify(&attempt), Verdict::Done { replayed: true });
}

#[test]
fn objects_with_metadata_and_a_list_by_created_can_be_found() {
    for route in METADATA_ROUTES {
        let mut request = form(Method::POST, route, "a=1");
        let key = stripe().stamp(wire_key(), &mut request).expect("stamped");
        let subject = Subject::new(&request, &key, Timestamp::from_millis(1_700_000_000_000));
        let asked = stripe().lookup(&subject).expect(route);
        assert_eq!(asked.url.path(), route);
        let list = answer(200, &[], r#"{"object":"list","data":[],"has_more":false}"#);
        let missed = stripe().read_lookup(&subject, &asked, &list);
        // Their lists leave out what is cancelled, and what is not active.
        let is_a_part = matches!(route, "/v1/subscriptions" | "/v1/prices");
        let expected = if is_a_part { Finding::CannotTell } else { Finding::Absent };
        assert_eq!(missed, expected, "{route}");
    }
    for route in [
        "/v1/checkout/sessions",
        "/v1/payment_links",
        "/v1/payment_methods",
        "/v1/credit_notes",
        "/v1/quotes",
    ] {
        let mut request = form(Method::POST, route, "a=1");
        let key = stripe().stamp(wire_key(), &mut request).expect("stamped");
        assert_eq!(request.body, "a=1", "{route}");
        let subject = Subject::new(&request, &key, Timestamp::from_millis(1_700_000_000_000));
        assert_eq!(stripe().lookup(&subject), None, "{route}");
    }
}

/// Stripe's list of customers shows those of a test clock to who asks for that clock alone.
#[test]
fn an_object_on_a_test_clock_is_not_known_to_be_absent() {
    let mut request = form(Method::POST, "/v1/customers", "email=a%40x.test&test_clock=clock_1");
    let key = stripe().stamp(wire_key(), &mut request).expect("stamped");
    let subject = Subject::new(&request, &key, Timestamp::from_millis(1_700_000_000_000));
    let asked = stripe().lookup(&subject).expect("asked");
    let list = answer(200, &[], r#"{"object":"list","data":[],"has_more":false}"#);
    assert_eq!(stripe().read_lookup(&subject, &asked, &list), Finding::CannotTell);
}

#[test]
fn a_resend_is_byte_identical_after_the_version_and_the_secret_have_changed() {
    let mut request = charge();
    stripe().api_version("2024-01-01").stamp(wire_key(), &mut request).expect("stamped");
    let mut without = stamped();
    let later = Stripe::new("sk_test_rotated").api_version("2025-08-27.basil");
    later.authorize(&mut request);
    later.authorize(&mut without);
    assert_eq!(request.headers["stripe-version"], "2024-01-01");
    assert!(!without.headers.contains_key("stripe-version"), "recorded without one, resent without one");
    assert_eq!(request.headers["authorization"], "Bearer sk_test_rotated");
    let mut unkeyed = form(Method::GET, "/v1/charges", "");
    later.authorize(&mut unkeyed);
    assert_eq!(unkeyed.headers["stripe-version"], "2025-08-27.basil");
}

#[test]
fn an_idempotency_key_of_the_callers_own_is_refused() {
    let mut request = charge();
    request.headers.insert("idempotency-key", HeaderValue::from_static("mine"));
    assert_eq!(stripe().stamp(wire_key(), &mut request).expect_err("refused").code(), "VALIDATION.header");
}

#[test]
fn the_account_survives_a_rotated_secret_and_separates_modes_and_connected_accounts() {
    let account = |stripe: &Stripe, connected: Option<&'static str>| {
        let mut headers = HeaderMap::new();
        if let Some(connected) = connected {
            headers.insert("stripe-account", HeaderValue::from_static(connected));
        }
        Vendor::account(stripe, &headers).into_owned()
    };
    assert_eq!(account(&Stripe::new("sk_live_1"), None), account(&Stripe::new("rk_live_2"), None));
    assert_eq!(account(&Stripe::new("sk_live_1"), None), "live");
    assert_eq!(account(&stripe(), None), "test");
    assert_eq!(account(&stripe().account("acct_1"), None), "test:acct_1");
    assert_eq!(account(&stripe().account("acct_1"), Some("acct_2")), "test:acct_1>acct_2");
    assert_eq!(account(&Stripe::new("odd"), None), "default");
}

/// docs.stripe.com/context: it supersedes `Stripe-Account`.
#[test]
fn a_context_is_part_of_the_account_and_of_the_lookup_as_a_connected_account_is() {
    let mut request = charge();
    request.headers.insert("stripe-context", HeaderValue::from_static("acct_2/acct_3"));
    assert_eq!(Vendor::account(&stripe(), &request.headers), "test>acct_2/acct_3");
    stripe().stamp(wire_key(), &mut request).expect("stamped");
    let key = wire_key().to_string();
    let subject = Subject::new(&request, &key, Timestamp::from_millis(1_700_000_000_000));
    let asked = stripe().lookup(&subject).expect("a lookup");
    assert_eq!(asked.headers["stripe-context"], "acct_2/acct_3");

    let mut both = charge();
    for name in ["stripe-context", "stripe-account"] {
        both.headers.insert(name, HeaderValue::from_static("acct_2"));
    }
    let refused = stripe().stamp(wire_key(), &mut both).expect_err("which of them?");
    assert_eq!(refused.code(), "VALIDATION.header");
}

#[test]
fn the_key_of_an_organization_shows_its_mode_or_is_given_a_name() {
    let account = |stripe: &Stripe| Vendor::account(stripe, &HeaderMap::new()).into_owned();
    assert_eq!(account(&Stripe::new("sk_org_live_1")), "live");
    assert_eq!(account(&Stripe::new("sk_org_test_1")), "test");
    let silent = Stripe::new("sk_org_1");
    let refused = silent.check().expect_err("live or not?");
    assert!(refused.to_string().contains("account"), "{refused}");
    let named = silent.account("live");
    named.check().expect("it is named");
    assert_eq!(account(&named), "default:live");
}

#[test]
fn secrets_are_checked_and_never_shown() {
    stripe().check().expect("a good adapter");
    assert_eq!(Stripe::new("").check().expect_err("empty").code(), "VALIDATION.secret");
    assert_eq!(Stripe::new("sk\n").check().expect_err("line break").code(), "VALIDATION.secret");
    assert_eq!(stripe().base_url("nonsense").check().expect_err("no url").code(), "VALIDATION.base_url");
    assert_eq!(stripe().api_version("a\nb").check().expect_err("version").code(), "VALIDATION.header");
    let mut request = stamped();
    stripe().authorize(&mut request);
    let shown = format!("{:?} {request:?} {:?}", stripe(), request.headers);
    assert!(!shown.contains("sk_test"), "{shown}");
}

#[test]
fn metadata_is_stamped_on_form_bodies_of_the_configured_routes_only() {
    let body = |request: &Request| String::from_utf8(request.body.to_vec()).expect("text");
    let stamp = format!("metadata%5Bsteadfast_key%5D={}", wire_key());
    assert_eq!(body(&stamped()), format!("amount=1000&currency=usd&{stamp}"));
    let stamped_as = |mut request: Request, stripe: Stripe| {
        stripe.stamp(wire_key(), &mut request).expect("stamped");
        request
    };
    assert_eq!(body(&stamped_as(form(Method::POST, "/v1/customers", ""), stripe())), stamp);
    let off = stripe().lookup_by_metadata(Vec::<String>::new());
    for request in [
        stamped_as(charge(), off),
        stamped_as(form(Method::POST, "/v1/charges/ch_1", "amount=1000&currency=usd"), stripe()),
    ] {
        assert_eq!(body(&request), "amount=1000&currency=usd");
        assert!(stripe().lookup(&Subject::new(&request, "k", Timestamp::default())).is_none());
    }
}

#[test]
fn a_body_with_fifty_metadata_keys_is_sent_without_ours() {
    let keys = |count: usize| (0..count).map(|n| format!("metadata[k{n}]=v")).collect::<Vec<_>>().join("&");
    for (count, has_stamp) in [(49, true), (50, false)] {
        let mut request = form(Method::POST, "/v1/charges", &keys(count));
        stripe().stamp(wire_key(), &mut request).expect("stamped");
        let found =
            url::form_urlencoded::parse(&request.body).any(|(name, _)| name == "metadata[steadfast_key]");
        assert_eq!(found, has_stamp, "{count}");
    }
    let mut clears = form(Method::POST, "/v1/charges", "amount=1&metadata=");
    stripe().stamp(wire_key(), &mut clears).expect("not stamped");
    assert_eq!(clears.body, "amount=1&metadata=", "it would be cleared too");
    let mut taken = form(Method::POST, "/v1/charges", "metadata%5Bsteadfast_key%5D=x");
    assert_eq!(stripe().stamp(wire_key(), &mut taken).expect_err("reserved").code(), "VALIDATION.body");
}

/// Time at which the operation of the lookups was claimed, in milliseconds.
const CLAIMED: u64 = 1_700_000_000_000;

fn page(ids: std::ops::Range<u32>, hit: Option<u32>, has_more: bool) -> Answer {
    let data: Vec<Value> = ids
        .map(|id| {
            let key = if hit == Some(id) { wire_key().to_string() } else { "other".into() };
            json!({
                "id": format!("ch_{id}"), "created": CLAIMED / 1000, "status": "succeeded",
                "metadata": { "steadfast_key": key },
            })
        })
        .collect();
    answer(200, &[], &json!({ "object": "list", "data": data, "has_more": has_more }).to_string())
}

fn lookup(read: impl Fn(&Subject<'_>, &Request) -> Finding) -> Finding {
    let (request, key) = (stamped(), wire_key().to_string());
    let subject = Subject::new(&request, &key, Timestamp::from_millis(CLAIMED));
    let asked = stripe().lookup(&subject).expect("a lookup");
    read(&subject, &asked)
}

#[test]
fn a_lookup_lists_from_before_the_claim_in_the_same_account_and_version() {
    let mut request = charge();
    request.headers.insert("stripe-account", HeaderValue::from_static("acct_2"));
    stripe().api_version("2024-01-01").stamp(wire_key(), &mut request).expect("stamped");
    let key = wire_key().to_string();
    let subject = Subject::new(&request, &key, Timestamp::from_millis(1_700_000_000_000));
    let asked = stripe().lookup(&subject).expect("a lookup");
    assert_eq!(asked.method, Method::GET);
    let list = "https://api.stripe.com/v1/charges?created%5Bgte%5D=";
    let week = 7 * 24 * 3600;
    // Nothing is known of the clocks, or how far Stripe's was ahead of or behind ours at the claim.
    for (clock, since) in [
        (None, 1_700_000_000 - week),
        (Some(0), 1_699_999_700),
        // A clock that says later is not believed: the list would begin too late if it were wrong.
        (Some(60_000), 1_699_999_700),
        (Some(-600_000), 1_699_999_100),
    ] {
        let asked = stripe().lookup(&subject.with_vendor_clock(clock)).expect("a lookup");
        assert_eq!(asked.url.as_str(), format!("{list}{since}&limit=100"), "{clock:?}");
    }
    assert_eq!(asked.headers["stripe-account"], "acct_2");
    assert_eq!(asked.headers["stripe-version"], "2024-01-01");
}

#[test]
fn a_miss_is_no_proof_if_the_clock_of_the_claim_was_ahead_of_stripes() {
    let read_at = |before: Duration, hit| {
        lookup(|subject, asked| {
            let mut answer = page(0..3, hit, false);
            let date = subject.claimed_at.minus(before).to_string();
            answer.headers.insert(http::header::DATE, HeaderValue::from_str(&date).expect("a date"));
            stripe().read_lookup(subject, asked, &answer)
        })
    };
    let (allowed, more) = (Duration::from_secs(300), Duration::from_secs(301));
    assert_eq!(read_at(allowed, None), Finding::Absent);
    assert_eq!(read_at(more, None), Finding::CannotTell);
    assert!(matches!(read_at(more, Some(1)), Finding::Found(_)), "a hit is proof all the same");
}

#[test]
fn an_object_older_than_the_claim_is_of_the_keys_previous_life() {
    let (request, key) = (stamped(), wire_key().to_string());
    let read = |clock: Option<i64>, created: &Value| {
        let subject = Subject::new(&request, &key, Timestamp::from_millis(CLAIMED)).with_vendor_clock(clock);
        let asked = stripe().lookup(&subject).expect("a lookup");
        let object = json!({ "id": "ch_1", "created": created, "status": "succeeded", "metadata": { "steadfast_key": key } });
        let body = json!({ "object": "list", "data": [object], "has_more": false }).to_string();
        stripe().read_lookup(&subject, &asked, &answer(200, &[], &body))
    };
    let claimed = CLAIMED / 1000;
    assert!(matches!(read(None, &json!(claimed - 300)), Finding::Found(_)), "clocks may differ by so much");
    assert_eq!(read(None, &json!(claimed - 301)), Finding::CannotTell, "or our clock was ahead");
    assert_eq!(
        read(Some(0), &json!(claimed - 301)),
        Finding::CannotTell,
        "it was not, and time alone excludes it"
    );
    assert!(matches!(read(Some(-600_000), &json!(claimed - 601)), Finding::Found(_)), "it was");
    assert_eq!(read(Some(0), &Value::Null), Finding::CannotTell);
}

#[test]
fn a_hit_is_found_with_its_own_bytes_and_a_whole_scan_without_one_is_absent() {
    let found = lookup(|subject, asked| stripe().read_lookup(subject, asked, &page(0..3, Some(1), true)));
    let Finding::Found(answer) = found else { panic!("{found:?}") };
    assert_eq!(answer.status, 200);
    assert_eq!(answer.json().expect("json")["id"], "ch_1");
    let absent = lookup(|subject, asked| stripe().read_lookup(subject, asked, &page(0..3, None, false)));
    assert_eq!(absent, Finding::Absent);
}

#[test]
fn an_invoice_item_is_found_by_its_date() {
    let key = wire_key().to_string();
    let item = json!({ "id": "ii_1", "date": CLAIMED / 1000, "metadata": { "steadfast_key": key } });
    let items = json!({ "object": "list", "data": [item], "has_more": false }).to_string();
    let found = lookup(|subject, asked| stripe().read_lookup(subject, asked, &answer(200, &[], &items)));
    assert!(matches!(found, Finding::Found(_)), "{found:?}");
}

#[test]
fn a_scan_goes_on_after_the_last_object_and_ends_at_its_bound() {
    lookup(|subject, asked| {
        let mut asked = asked.clone();
        for number in 1..10 {
            let answer = page(number * 100..number * 100 + 100, None, true);
            let Finding::Next(next) = stripe().read_lookup(subject, &asked, &answer) else {
                panic!("{number}")
            };
            let after: Vec<_> = next.url.query_pairs().filter(|(name, _)| name == "starting_after").collect();
            assert_eq!(after.len(), 1);
            assert_eq!(after[0].1, format!("ch_{}", number * 100 + 99));
            asked = next;
        }
        let last = stripe().read_lookup(subject, &asked, &page(0..100, None, true));
        assert_eq!(last, Finding::CannotTell, "a scan that was not finished proves nothing");
        last
    });
}

#[test]
fn a_failed_lookup_is_not_taken_for_absence() {
    let mut cut = page(0..1, None, false);
    cut.cut = true;
    for bad in [
        answer(500, &[], ""),
        answer(404, &[], "{}"),
        answer(200, &[], "<html>"),
        answer(200, &[], "{}"),
        answer(200, &[], r#"{"object":"list","data":[]}"#),
        answer(200, &[], r#"{"object":"search_result","data":[],"has_more":false}"#),
        answer(204, &[], ""),
        cut,
    ] {
        let finding = lookup(|subject, asked| stripe().read_lookup(subject, asked, &bad));
        assert_eq!(finding, Finding::Unanswered, "{bad:?}");
    }
}

#[test]
fn a_declined_charge_is_not_reported_as_a_success() {
    let key = wire_key().to_string();
    let declined = json!({ "code": "card_declined" });
    for member in [
        json!({ "status": "failed" }),
        json!({ "last_payment_error": declined }),
        json!({ "last_setup_error": declined }),
    ] {
        let mut object =
            json!({ "id": "ch_1", "created": CLAIMED / 1000, "metadata": { "steadfast_key": key } });
        object.as_object_mut().expect("an object").extend(member.as_object().expect("an object").clone());
        let body = json!({ "object": "list", "data": [object], "has_more": false }).to_string();
        let finding = lookup(|subject, asked| stripe().read_lookup(subject, asked, &answer(200, &[], &body)));
        assert_eq!(finding, Finding::CannotTell);
    }
}
