//! The adapters: one answer, and what is made of it.

use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use serde_json::{Value, json};
use steadfast::Effect;
use steadfast::clock::Timestamp;
use steadfast::operation::{Key, OperationId, Scope};
use steadfast::transport::{Answer, Request};
use steadfast::vendor::{
    Adyen, Attempt, BigCommerce, Finding, Keyed, KeyedConfig, Postmark, SpeaksFor, Stripe, Subject, Vendor,
    Verdict,
};

/// Of the first claim, by both clocks: 2026-01-01T00:00:00Z.
const CLAIMED_AT: Timestamp = Timestamp::from_millis(1_767_225_600_000);

fn stripe() -> Stripe {
    Stripe::new("sk_test_1")
}

fn bigcommerce() -> BigCommerce {
    BigCommerce::new("abc", "token")
}

/// A call as it is stamped, and its wire key.
fn stamped(vendor: &dyn Vendor, route: &str, kind: &'static str, body: &str) -> (Request, String) {
    let base = vendor.base_url();
    let url = format!("{}{route}", base.as_str().trim_end_matches('/'));
    let mut request = Request::new(Method::POST, url.parse().expect("a url"));
    request.headers.insert(http::header::CONTENT_TYPE, HeaderValue::from_static(kind));
    request.body = body.to_owned().into();
    let scope = Scope::new("test", vendor.name(), "", &Method::POST, route);
    let id = OperationId::new(scope, Key::new("k").expect("a key"));
    let key = vendor.stamp(id.wire_key(), &mut request).expect("it takes a key");
    (request, key)
}

fn charge() -> (Request, String) {
    stamped(&stripe(), "/v1/charges", "application/x-www-form-urlencoded", "amount=100")
}

fn answer(status: u16, headers: &[(&'static str, &'static str)], body: &str) -> Answer {
    let headers = headers
        .iter()
        .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)))
        .collect::<HeaderMap>();
    Answer::new(StatusCode::from_u16(status).expect("a status"), headers, body.to_owned())
}

/// The meaning of Stripe's answer to a resend, after an attempt of unknown effect.
fn resent(answer: &Answer, in_window: bool) -> Verdict {
    let (request, _) = charge();
    let attempt = Attempt::new(&request, true, Ok(answer), CLAIMED_AT);
    stripe().classify(&attempt.after(Effect::Unknown).in_window(in_window))
}

const OWN: (&str, &str) = ("request-id", "req_1");
const DECLINED: &str = r#"{"error":{"type":"card_error","code":"card_declined"}}"#;

pub fn a_page_for_a_browser_is_not_done() -> bool {
    let page = answer(200, &[("content-type", "text/html")], "<!DOCTYPE html><html>Please log in</html>");
    let acme = Keyed::new(KeyedConfig::new("acme", "https://acme.test"), "");
    let (request, _) = stamped(&acme, "/orders", "application/json", "{}");
    !matches!(acme.classify(&Attempt::new(&request, true, Ok(&page), CLAIMED_AT)), Verdict::Done { .. })
}

/// On a route whose successes have no form that is known.
pub fn a_text_is_not_done() -> bool {
    let store = bigcommerce();
    let (request, _) = stamped(&store, "/v3/orders/7/payment_actions/capture", "application/json", "{}");
    let text = answer(200, &[("content-type", "text/plain")], "OK");
    !matches!(store.classify(&Attempt::new(&request, true, Ok(&text), CLAIMED_AT)), Verdict::Done { .. })
}

pub fn a_proxys_400_is_no_refusal() -> bool {
    !matches!(resent(&answer(400, &[], "Bad Request"), true), Verdict::Refused { .. })
}

pub fn a_replayed_500_is_not_sent_again() -> bool {
    let stored = answer(500, &[OWN, ("idempotent-replayed", "true")], r#"{"error":{"type":"api_error"}}"#);
    resent(&stored, true) == Verdict::Unknown
}

pub fn a_decline_after_the_window_says_nothing_of_the_first_send() -> bool {
    is_of_the_resend_alone(&answer(402, &[OWN], DECLINED))
}

/// After the window the key may have been forgotten, and the mark be of a send between.
pub fn a_marked_no_after_the_window_says_nothing_of_the_first_send() -> bool {
    is_of_the_resend_alone(&answer(402, &[OWN, ("idempotent-replayed", "true")], DECLINED))
}

/// Whether Stripe's no to a resend after the window speaks for that alone.
fn is_of_the_resend_alone(no: &Answer) -> bool {
    match resent(no, false) {
        Verdict::Refused { speaks_for, .. } => speaks_for == SpeaksFor::ThisAttempt,
        other => panic!("{other:?}"),
    }
}

/// Whether a no to a resend within the window speaks for the first send.
fn speaks_for_first(vendor: &dyn Vendor, route: &str, no: &Answer) -> bool {
    let (request, _) = stamped(vendor, route, "application/json", "{}");
    let attempt = Attempt::new(&request, true, Ok(no), CLAIMED_AT);
    match vendor.classify(&attempt.after(Effect::Unknown).in_window(true)) {
        Verdict::Refused { speaks_for, .. } => speaks_for == SpeaksFor::EarlierToo,
        other => panic!("{other:?}"),
    }
}

/// Checkout.com stores what succeeds: a request that is still on its way is carried out after the no.
pub fn a_no_that_is_kept_nowhere_says_nothing_of_the_first_send() -> bool {
    let mut config = KeyedConfig::preset("checkout").expect("a preset");
    config.base_url = "https://api.checkout.test".to_owned();
    let no = answer(422, &[("content-type", "application/json")], r#"{"error_type":"request_invalid"}"#);
    !speaks_for_first(&Keyed::new(config, ""), "/payments", &no)
}

pub fn a_decline_of_the_second_interface_says_nothing_of_the_first_send() -> bool {
    let stripe = stripe().api_version("2025-03-31.preview");
    !speaks_for_first(&stripe, "/v2/core/accounts", &answer(402, &[OWN], DECLINED))
}

pub fn what_fails_validation_says_nothing_of_the_first_send() -> bool {
    let missing = r#"{"error":{"type":"invalid_request_error","code":"resource_missing"}}"#;
    !speaks_for_first(&stripe(), "/v1/payment_intents", &answer(400, &[OWN], missing))
}

/// By its prefix or by its host, whichever says so.
pub fn a_test_payment_is_no_live_one() -> bool {
    let account = |adyen: &Adyen| Vendor::account(adyen, &HeaderMap::new()).into_owned();
    let test = account(&Adyen::new("k"));
    let live_host = "https://company-checkout-live.adyenpayments.com/checkout";
    let live = [Adyen::new("k").live("company"), Adyen::new("k").base_url(live_host)];
    live.iter().all(|live| account(live) != test)
}

pub fn what_goes_to_a_third_party_is_not_sent_again() -> bool {
    let adyen = Adyen::new("k");
    let (request, _) = stamped(&adyen, "/v71/forward", "application/json", "{}");
    Vendor::replay_window(&adyen, &request).is_none()
}

pub fn nobody_is_shown_a_security_code() -> bool {
    Adyen::new("k").redacted().names().iter().any(|name| name == "cvc")
}

pub fn a_resend_keeps_to_the_version_of_its_claim() -> bool {
    let (mut request, _) = charge();
    stripe().api_version("2026-01-28").authorize(&mut request);
    !request.headers.contains_key("stripe-version")
}

/// The finding of Stripe's list about a charge that was claimed at [`CLAIMED_AT`].
fn listed(objects: &Value, headers: &[(&'static str, &'static str)]) -> Finding {
    listed_at("/v1/charges", objects, headers)
}

fn listed_at(route: &str, objects: &Value, headers: &[(&'static str, &'static str)]) -> Finding {
    let (request, key) = stamped(&stripe(), route, "application/x-www-form-urlencoded", "amount=100");
    let mut objects = objects.clone();
    for object in objects.as_array_mut().into_iter().flatten() {
        object["metadata"] = json!({ "steadfast_key": key });
    }
    let body = json!({ "object": "list", "data": objects, "has_more": false });
    let subject = Subject::new(&request, &key, CLAIMED_AT).with_vendor_clock(Some(0));
    stripe().read_lookup(&subject, &request, &answer(200, headers, &body.to_string()))
}

pub fn last_weeks_charge_is_not_this_weeks() -> bool {
    let last_week = json!([{ "id": "ch_1", "created": CLAIMED_AT.as_millis() / 1_000 - 7 * 86_400 }]);
    !matches!(listed(&last_week, &[]), Finding::Found(_))
}

pub fn a_miss_is_no_proof_where_the_claim_is_ahead_of_the_vendor() -> bool {
    listed(&json!([]), &[("date", "Wed, 31 Dec 2025 20:00:00 GMT")]) == Finding::CannotTell
}

/// A list of subscriptions may leave out those that are cancelled.
pub fn a_miss_among_subscriptions_is_no_proof() -> bool {
    listed_at("/v1/subscriptions", &json!([]), &[]) == Finding::CannotTell
}

/// The finding of BigCommerce's rows about a call to `route`.
fn rows(route: &str, sent: &Value, rows: &Value) -> Finding {
    let (request, key) = stamped(&bigcommerce(), route, "application/json", &sent.to_string());
    let subject = Subject::new(&request, &key, CLAIMED_AT).with_vendor_clock(Some(0));
    bigcommerce().read_lookup(&subject, &request, &answer(200, &[], &rows.to_string()))
}

pub fn a_miss_among_refunds_without_reasons_is_no_proof() -> bool {
    let sent = json!({ "items": [{ "item_id": 1, "item_type": "ORDER", "amount": 5 }], "payments": [] });
    let others =
        json!({ "data": [{ "id": 9, "items": [{ "item_id": 2, "item_type": "ORDER" }] }], "meta": {} });
    rows("/v3/orders/1/payment_actions/refunds", &sent, &others) == Finding::CannotTell
}

/// It is older than the operation, as orders of others are, and says nothing of ours.
pub fn an_order_of_somebody_else_is_not_ours() -> bool {
    let others = json!([{ "id": 9, "external_order_id": "theirs", "date_created": "2025-01-01T00:00:00Z" }]);
    rows("/v2/orders", &json!({ "status_id": 1 }), &others) == Finding::CannotTell
}

/// Two parcels of one order, whose id the caller chose: this is the other's.
pub fn another_order_with_the_same_id_is_not_ours() -> bool {
    let others = json!([{ "id": 9, "external_order_id": "order-7", "customer_id": 6 }]);
    let sent = json!({ "external_order_id": "order-7", "customer_id": 5 });
    !matches!(rows("/v2/orders", &sent, &others), Finding::Found(_))
}

/// A service with a store of its own has made the same key.
pub fn a_charge_of_another_amount_is_not_ours() -> bool {
    let another = json!([{ "id": "ch_1", "created": CLAIMED_AT.as_millis() / 1_000, "amount": 999 }]);
    listed(&another, &[]) == Finding::CannotTell
}

pub fn a_mail_to_somebody_else_is_not_ours() -> bool {
    let postmark = Postmark::new("token");
    let sent = json!({ "From": "me@shop.test", "To": "ann@x.test", "TextBody": "Paid." });
    let (request, key) = stamped(&postmark, "/email", "application/json", &sent.to_string());
    let subject = Subject::new(&request, &key, CLAIMED_AT).with_vendor_clock(Some(0));
    let hit = json!({ "TotalCount": 1, "Messages": [{ "MessageID": "1", "ReceivedAt": "2026-01-01T00:00:01Z",
        "Metadata": { "steadfast_key": key }, "To": [{ "Email": "zoe@x.test" }] }] });
    postmark.read_lookup(&subject, &request, &answer(200, &[], &hit.to_string())) == Finding::CannotTell
}

/// A brand of last year may be this operation's, whose clock was wrong, and a repeat would be the second.
pub fn what_time_alone_excludes_may_be_ours() -> bool {
    let old = json!({ "id": 9, "name": "Mug", "sku": "M", "date_created": "2025-01-01T00:00:00Z" });
    rows("/v3/catalog/products", &json!({ "name": "Mug", "sku": "M" }), &json!({ "data": [old], "meta": {} }))
        == Finding::CannotTell
}

pub fn an_order_may_be_in_the_archive() -> bool {
    rows("/v2/orders", &json!({ "status_id": 1 }), &json!([])) != Finding::Absent
}

pub fn a_text_is_not_done_whatever_headers_are_beside_it() -> bool {
    !matches!(resent(&answer(200, &[("content-type", "text/plain"), OWN], "OK"), true), Verdict::Done { .. })
}

/// Its operations would be carried on with another account's secret.
pub fn no_account_begins_with_anothers() -> bool {
    let mut config = KeyedConfig::preset("resend").expect("a preset");
    config.account = "live>team-2".to_owned();
    Keyed::new(config, "re_1").check().is_err()
}
