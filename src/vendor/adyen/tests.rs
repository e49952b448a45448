use http::StatusCode;
use proptest::prelude::*;
use serde_json::json;

use steadfast_core::clock::Timestamp;
use steadfast_core::internal::vendor::ShownOperation;
use steadfast_core::operation::{Key, OperationId, Scope};
use steadfast_core::transport::{SendError, SendErrorKind};
use steadfast_core::vendor::SpeaksFor;
use steadfast_core::{Effect, Refusal};

use super::*;
use crate::vendor::rig::{self, wire_key};

fn adyen() -> Adyen {
    Adyen::new("AQE-secret")
}

fn request(method: Method, path: &str) -> Request {
    let url = Url::parse(&format!("https://checkout-test.adyen.com{path}")).expect("a url");
    let mut request = Request::new(method, url);
    request.body = json!({ "reference": "order-42" }).to_string().into();
    request
}

fn stamped(path: &str) -> Request {
    let mut request = request(Method::POST, path);
    adyen().stamp(wire_key(), &mut request).expect("stamped");
    request
}

fn judge(request: &Request, answer: &Answer) -> Verdict {
    adyen().classify(&Attempt::new(request, true, Ok(answer), Timestamp::default()))
}

fn window(request: &Request) -> Option<Duration> {
    Vendor::replay_window(&adyen(), request)
}

const DONE: Verdict = Verdict::Done { replayed: false };

const fn retry(effect: Effect) -> Verdict {
    Verdict::Retry { effect, not_before: None }
}

const fn no(refusal: Refusal, speaks_for: SpeaksFor) -> Verdict {
    Verdict::Refused { refusal, speaks_for }
}

#[test]
fn every_fixture_gets_its_verdict() {
    let request = stamped("/v71/payments");
    let rejected = no(Refusal::Rejected, SpeaksFor::ThisAttempt);
    let unauthorized = no(Refusal::Unauthorized, SpeaksFor::ThisAttempt);
    let expected = [
        ("authorised", DONE),
        ("refused", DONE),
        ("redirect", DONE),
        ("received", DONE),
        ("invalid_json", rejected),
        ("unknown_fields", rejected),
        ("key_too_long", rejected),
        ("wrong_kind", rejected),
        ("out_of_bounds", rejected),
        ("metadata_too_large", rejected),
        ("not_decrypted", rejected),
        ("contract_missing", rejected),
        ("currency_invalid", rejected),
        ("details_unknown", rejected),
        ("unauthorized", unauthorized),
        ("invalid_merchant", unauthorized),
        ("not_found", rejected),
        ("amount_missing", rejected),
        ("card_invalid", rejected),
        ("reference_missing", rejected),
        ("amount_invalid", rejected),
        ("original_missing", rejected),
        ("return_url_missing", rejected),
        ("field_missing", rejected),
        ("field_invalid", rejected),
        ("query_missing", rejected),
        ("not_active", rejected),
        ("metadata_key_too_large", rejected),
        ("in_progress", retry(Effect::Unknown)),
        ("in_progress_409", retry(Effect::Unknown)),
        ("already_processed", Verdict::Unknown),
        ("store_unavailable", retry(Effect::None)),
        ("no_connection", retry(Effect::None)),
        ("io_exception", Verdict::Unknown),
        ("configuration_500", Verdict::Unknown),
        ("unsupported", rejected),
        ("rate_limited", retry(Effect::None)),
        ("gateway_html", retry(Effect::Unknown)),
    ];
    for (name, verdict) in expected {
        assert_eq!(judge(&request, &rig::fixture("adyen", name)), verdict, "{name}");
    }
    // What is no payment has not the form of one.
    let others = ["payment_methods", "session", "session_result", "payment_link"];
    for name in others {
        let answer = rig::fixture("adyen", name);
        assert_eq!(judge(&stamped("/v71/sessions"), &answer), DONE, "{name}");
        assert_eq!(judge(&request, &answer), retry(Effect::Unknown), "{name}");
    }
    let named = rig::fixtures("adyen")["fixtures"].as_array().expect("a list").len();
    assert_eq!(named, expected.len() + others.len(), "a fixture without its verdict");
}

#[test]
fn a_refusal_speaks_for_no_earlier_attempt_also_inside_the_window() {
    let request = stamped("/v71/payments");
    let of = |name: &str, open: bool| {
        let answer = rig::fixture("adyen", name);
        let attempt = Attempt::new(&request, true, Ok(&answer), Timestamp::default());
        adyen().classify(&attempt.after(Effect::Unknown).in_window(open))
    };
    assert_eq!(of("amount_missing", true), no(Refusal::Rejected, SpeaksFor::ThisAttempt));
    assert_eq!(of("amount_missing", false), no(Refusal::Rejected, SpeaksFor::ThisAttempt));
    assert_eq!(of("unauthorized", true), no(Refusal::Unauthorized, SpeaksFor::ThisAttempt));
    assert_eq!(of("already_processed", true), Verdict::Unknown);
    // A route whose replay is not documented.
    let request = stamped("/v71/validateShopperId");
    let answer = rig::fixture("adyen", "amount_missing");
    let attempt = Attempt::new(&request, true, Ok(&answer), Timestamp::default()).in_window(true);
    assert_eq!(adyen().classify(&attempt), no(Refusal::Rejected, SpeaksFor::ThisAttempt));
}

#[test]
fn only_answers_in_adyens_form_are_its_own() {
    let request = stamped("/v71/payments");
    let of =
        |status, headers: &[(&str, &str)], body: &str| judge(&request, &rig::answer(status, headers, body));
    // A proxy's words, in JSON or not.
    for body in ["", "{}", "[]", r#"{"message":"no"}"#, r#"{"errorCode":"100"}"#, "<html>no</html>"] {
        for status in [400, 401, 403, 404, 409, 422, 500, 503] {
            assert_eq!(of(status, &[], body), retry(Effect::Unknown), "{status} {body}");
        }
    }
    // Its mark on what is not Adyen's: again, but nothing is known of the effect.
    assert_eq!(of(503, &[("transient-error", "true")], ""), retry(Effect::Unknown));
    let own = |status: u16, kind: &str| {
        json!({ "status": status, "errorCode": "000", "message": "", "errorType": kind }).to_string()
    };
    assert_eq!(of(422, &[("Transient-Error", "TRUE")], &own(422, "internal")), retry(Effect::None));
    assert_eq!(of(422, &[("transient-error", "false")], &own(422, "internal")), Verdict::Unknown);
    assert_eq!(of(408, &[], &own(408, "validation")), Verdict::Unknown);
    assert_eq!(of(409, &[], &own(409, "validation")), Verdict::Unknown);
    // A success that is another's, and one of a route whose answers have no such members.
    for body in [r#"{"status":"ok"}"#, "ok", ""] {
        assert_eq!(of(200, &[], body), retry(Effect::Unknown), "{body}");
    }
    assert_eq!(judge(&stamped("/v71/sessions"), &rig::answer(201, &[], r#"{"id":"CS1"}"#)), DONE);
    assert_eq!(judge(&stamped("/v71/sessions"), &rig::answer(201, &[], "<html>")), retry(Effect::Unknown));
    let lost = SendError::new(SendErrorKind::Reset);
    let attempt = Attempt::new(&request, true, Err(&lost), Timestamp::default());
    assert_eq!(adyen().classify(&attempt), retry(Effect::Unknown));
}

#[test]
fn the_key_goes_on_each_post_and_counts_where_adyen_documents_it() {
    for (path, replayed) in [
        ("/v71/payments", true),
        ("/v71/payments/details", true),
        ("/v70/payments/993617894903480A/captures", true),
        ("/v71/payments/993617894903480A/cancels", true),
        ("/v71/payments/993617894903480A/refunds", true),
        ("/v71/payments/993617894903480A/reversals", true),
        ("/v71/payments/993617894903480A/amountUpdates", true),
        ("/v71/cancels", true),
        ("/payments", true),
        ("/v71/sessions", true),
        ("/v71/orders/cancel", true),
        ("/v71/validateShopperId", false),
        ("/v71/forward", false),
        ("/v71/payments/993617894903480A/captures/more", false),
        ("/v71/payments/993617894903480A", false),
        ("/v71/payments/details/captures/more", false),
        ("/vX/payments", false),
        ("/v71payments", false),
        ("/pal/servlet/Payment/v68/authorise", false),
    ] {
        let request = stamped(path);
        assert_eq!(request.headers[IDEMPOTENCY_KEY], wire_key().to_string(), "{path}");
        let week = Duration::from_secs(7 * 24 * 3600);
        assert_eq!(window(&request), replayed.then_some(week), "{path}");
    }
    for method in [Method::GET, Method::PATCH, Method::DELETE] {
        let mut request = request(method, "/v71/storedPaymentMethods");
        adyen().stamp(wire_key(), &mut request).expect("nothing to refuse");
        assert!(!request.headers.contains_key(IDEMPOTENCY_KEY));
        assert_eq!(window(&request), None);
    }
    let mut own = request(Method::POST, "/v71/payments");
    own.headers.insert(IDEMPOTENCY_KEY, "mine".parse().expect("a value"));
    assert!(adyen().stamp(wire_key(), &mut own).expect_err("two keys").is_validation());
    let unstamped = request(Method::POST, "/v71/payments");
    assert_eq!(window(&unstamped), None);
    let short = adyen().replay_window(Duration::from_secs(1));
    assert_eq!(Vendor::replay_window(&short, &stamped("/v71/payments")), Some(Duration::from_secs(1)));
}

#[test]
fn the_live_environment_has_a_prefix_and_its_own_scope() {
    let live = adyen().live("1797a841fbb37ca7-AdyenDemo").account("acme");
    live.check().expect("a prefix");
    assert_eq!(
        live.base.url().host_str(),
        Some("1797a841fbb37ca7-adyendemo-checkout-live.adyenpayments.com")
    );
    assert_eq!(Vendor::account(&live, &HeaderMap::new()), "live:acme");
    let mut paid = stamped("/v71/payments");
    paid.url = live.base.at("/v71/payments", &[]);
    assert!(Vendor::replay_window(&live, &paid).is_some());
    assert_eq!(Vendor::account(&adyen(), &HeaderMap::new()), "test");
    assert_eq!(Vendor::account(&adyen().account("acme"), &HeaderMap::new()), "test:acme");
    for bad in ["", "https://x", "a.b", "a/b", "a b"] {
        let error = adyen().live(bad).check().expect_err(bad);
        assert!(error.is_validation() && error.to_string().contains("live prefix"), "{error}");
    }
    assert_eq!(adyen().base_url("x").check().expect_err("no URL").code(), "VALIDATION.base_url");
    assert_eq!(Adyen::new("").check().expect_err("empty").code(), "VALIDATION.secret");
}

#[test]
fn nothing_shows_the_secret_and_a_psp_reference_is_shown() {
    let mut request = stamped("/v71/payments");
    adyen().authorize(&mut request);
    assert_eq!(request.headers[X_API_KEY], "AQE-secret");
    assert!(!format!("{:?} {:?}", adyen(), request.headers).contains("AQE-secret"));
    assert_eq!(adyen().secret_headers(), [X_API_KEY]);
    for (segment, shown) in [
        ("993617894903480A", true),
        ("QFQTPCQ8HXSKGK82", true),
        ("captures", true),
        ("PL61C53A8B97E6915A", false),
        ("CS451F2AB1ED897A94", false),
        ("qfqtpcq8hxskgk82", false),
    ] {
        assert_eq!(adyen().may_show(segment), shown, "{segment}");
    }
    let hidden = adyen().redacted();
    for name in [
        "number",
        "cvc",
        "encryptedcardnumber",
        "encryptedsecuritycode",
        "holdername",
        "iban",
        "amazonpaytoken",
        "ownername",
    ] {
        assert!(hidden.names().iter().any(|hidden| hidden == name), "{name}");
    }
}

#[test]
fn a_live_account_is_never_that_of_the_test_environment() {
    let us = "https://prefix-checkout-live-us.adyenpayments.com/checkout";
    let name = |adyen: &Adyen| Vendor::account(adyen, &HeaderMap::new()).into_owned();
    assert_eq!(name(&adyen()), "test");
    assert_eq!(name(&adyen().base_url(us)), "live");
    assert_eq!(name(&adyen().account("acme").base_url(us)), "live:acme");
    assert_eq!(name(&adyen().base_url("http://127.0.0.1:1").live("prefix")), "live");
    let again = adyen().live("other").live("prefix");
    assert_eq!(Vendor::base_url(&again).as_str(), "https://prefix-checkout-live.adyenpayments.com/checkout");
    for both in [adyen().base_url(us).live("prefix"), adyen().live("prefix").base_url(us)] {
        assert_eq!((name(&both).as_str(), Vendor::base_url(&both).as_str()), ("live", us));
    }
}

#[test]
fn an_operation_recorded_under_another_base_version_keeps_its_route() {
    for (base, path, takes) in [
        ("", "/v71/payments", true),
        ("", "/payments", true),
        ("", "/forward/v71/payments", false),
        ("/v71", "/v71/payments", true),
        ("/v71", "/v70/payments", true),
        ("/v71", "/v70/forward/v2/payments", false),
        ("/checkout/v71", "/checkout/v70/payments/993617894903480A/refunds", true),
        ("/checkout", "/other/v70/payments", false),
    ] {
        let at = adyen().base_url(format!("https://checkout-test.adyen.com{base}"));
        let mut sent = request(Method::POST, path);
        at.stamp(wire_key(), &mut sent).expect("stamped");
        assert_eq!(Vendor::replay_window(&at, &sent).is_some(), takes, "{base} {path}");
    }
}

#[test]
fn an_operations_name_lacks_only_the_version() {
    for (base, path, named) in [
        ("", "/v71/payments", "/payments"),
        ("", "/v72/payments/993617894903480A/refunds", "/payments/993617894903480A/refunds"),
        ("", "/payments", "/payments"),
        ("/v1/adyen", "/v1/adyen/v71/payments", "/adyen/payments"),
        ("", "/v71", "/v71"),
        ("", "/vault/payments", "/vault/payments"),
        ("/v71", "/v71/payments", "/payments"),
        ("/v72", "/v71/payments", "/payments"),
        ("/checkout", "/checkout/v71/payments", "/checkout/payments"),
        ("/checkout/v71", "/checkout/v72/payments", "/checkout/payments"),
        // Below a former base.
        ("", "/adyen/v71/payments", "/adyen/payments"),
        ("/checkout/v71", "/adyen/v72/payments", "/adyen/payments"),
        ("", "/adyen/v71/v71/payments", "/adyen/payments"),
    ] {
        let at = adyen().base_url(format!("https://checkout-test.adyen.com{base}"));
        assert_eq!(at.operation_path(path), named, "{base} {path}");
    }
}

#[test]
fn an_operation_is_shown_below_a_base_that_ends_in_a_version() {
    for (base, path) in [
        ("", "/v71/payments"),
        ("/v71", "/v71/payments"),
        ("/gateway-9f3a7c5e1b2d/v71", "/gateway-9f3a7c5e1b2d/v71/payments"),
    ] {
        let at = adyen().base_url(format!("https://checkout-test.adyen.com{base}"));
        let scope = Scope::new("prod", "adyen", "test", &Method::POST, &at.operation_path(path));
        let id = OperationId::new(scope, Key::new("order-42").expect("a key"));
        let shown = ShownOperation { vendor: &at, id: &id }.to_string();
        assert_eq!(shown, "prod/adyen/test/POST /payments key order-42", "{base}");
    }
}

proptest! {
    #[test]
    fn no_answer_makes_it_panic_and_no_failure_is_a_success(
        status in 100_u16..1000, body in "\\PC{0,60}", transient in any::<bool>(), path in "/[a-z0-9/]{0,20}",
    ) {
        let headers: &[(&str, &str)] = if transient { &[("transient-error", "true")] } else { &[] };
        let answer = rig::answer(status, headers, &body);
        let verdict = judge(&stamped(&path), &answer);
        let is_success = StatusCode::from_u16(status).expect("a status").is_success();
        let is_done = matches!(verdict, Verdict::Done { .. });
        prop_assert!(is_success || !is_done);
    }
}
