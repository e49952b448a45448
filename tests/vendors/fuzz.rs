//! Every parser of what comes from outside, on arbitrary bytes: it never panics, and it never takes nonsense for
//! a proof.
//!
//! Shrinking and seeds are proptest's; the strategies lean towards what nearly makes sense, since plain noise
//! rarely gets past a parser's first line.

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Value, json};
use steadfast::clock::Timestamp;
use steadfast::operation::{Key, OperationId, Scope, WireKey, fingerprint};
use steadfast::transport::{Answer, Request, SendError, SendErrorKind};
use steadfast::vendor::{
    Attempt, BigCommerce, Finding, Keyed, KeyedConfig, Postmark, Stripe, Subject, Vendor, Verdict, wait,
};
use steadfast::{Effect, Inbound};

const NOW: Timestamp = Timestamp::from_millis(1_700_000_000_000);

/// Calls whose rules or lookups differ.
const ROUTES: &[(&str, &str)] = &[
    ("POST", "/v1/payment_intents"),
    ("POST", "/v1/refunds"),
    ("GET", "/v1/charges"),
    ("POST", "/email"),
    ("POST", "/email/batch"),
    ("POST", "/email/withTemplate"),
    ("POST", "/v2/orders"),
    ("PUT", "/v2/orders/1"),
    ("POST", "/v2/orders/1/shipments"),
    ("POST", "/v3/catalog/products"),
    ("POST", "/v3/catalog/products/1/variants"),
    ("POST", "/v3/customers"),
    ("POST", "/v3/orders/1/payment_actions/refund_quotes"),
    ("DELETE", "/v3/customers"),
    ("POST", "/"),
];

const HEADERS: &[&str] = &[
    "retry-after",
    "x-rate-limit-time-reset-ms",
    "x-rate-limit-requests-left",
    "x-retry-after",
    "ratelimit",
    "ratelimit-remaining",
    "ratelimit-reset",
    "stripe-should-retry",
    "idempotent-replayed",
    "original-request",
    "content-type",
    "idempotency-key",
    "x-request-timeout",
    "x-do-not-retry",
];

const WORDS: &[&str] = &[
    "id",
    "data",
    "has_more",
    "object",
    "error",
    "type",
    "code",
    "message",
    "errors",
    "ErrorCode",
    "Message",
    "MessageID",
    "Messages",
    "TotalCount",
    "To",
    "From",
    "Metadata",
    "steadfast_key",
    "metadata",
    "meta",
    "pagination",
    "total",
    "status",
    "sku",
    "name",
    "email",
    "external_id",
    "external_source",
    "idempotency_error",
    "idempotency_key_in_use",
    "api_error",
    "true",
    "false",
    "",
    "external_order_id",
    "staff_notes",
];

fn vendors() -> Vec<Box<dyn Vendor>> {
    let keyed = |config: Value| -> Box<dyn Vendor> {
        let config: KeyedConfig = serde_json::from_value(config).expect("a vendor");
        Box::new(Keyed::new(config, "secret"))
    };
    vec![
        Box::new(Stripe::new("sk_test_123")),
        Box::new(Postmark::new("token")),
        Box::new(BigCommerce::new("abc123", "token")),
        keyed(json!({
            "name": "headed", "base_url": "https://headed.test", "window": "24h", "key_form": "quoted",
            "key": {"header": "Idempotency-Key"}, "auth": {"header": "Authorization", "prefix": "Bearer "},
            "replay": {"header": {"name": "Idempotent-Replayed", "value": "true"}},
            "in_progress": [{"status": 409}], "reused": [{"status": 422}],
        })),
        keyed(json!({
            "name": "bodied", "base_url": "https://bodied.test/v2", "window": "24h",
            "key": {"body": "idempotency_key"}, "key_len_max": 20,
            "reused": [{"status": 400, "json": {"pointer": "/errors/0/code", "value": "IDEMPOTENCY_KEY_REUSED"}}],
        })),
    ]
}

fn number_text() -> impl Strategy<Value = String> {
    prop_oneof![
        any::<u64>().prop_map(|number| number.to_string()),
        any::<i64>().prop_map(|number| number.to_string()),
        any::<f64>().prop_map(|number| number.to_string()),
        "[0-9]{1,60}",
        "[0-9]{0,3}(\\.|,)?[0-9]{0,3} ?(s|ms|m)?",
        "(Mon|Sun|Xyz), [0-9]{2} (Jan|Feb|Foo) [0-9]{4} [0-9]{2}:[0-9]{2}:[0-9]{2} (GMT|UTC)",
        "(\"[a-z]{0,4}\"?)(;[rtqx]=?-?[0-9]{0,30}){0,4}(, ?\"a\\\\?\";r=0;t=[0-9]{1,4})?",
    ]
}

fn header_value() -> impl Strategy<Value = HeaderValue> {
    prop_oneof![
        number_text().prop_map(String::into_bytes),
        select(WORDS).prop_map(|word| word.as_bytes().to_vec()),
        vec(any::<u8>(), 0..40),
    ]
    .prop_filter_map("a header's value", |bytes| HeaderValue::from_bytes(&bytes).ok())
}

fn headers() -> impl Strategy<Value = HeaderMap> {
    vec((select(HEADERS), header_value()), 0..6).prop_map(|pairs| {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(HeaderName::from_static(name), value);
        }
        headers
    })
}

fn document() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        select(WORDS).prop_map(Value::from),
        "\\PC{0,12}".prop_map(Value::from),
    ];
    leaf.prop_recursive(5, 48, 6, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..6).prop_map(Value::from),
            vec((select(WORDS), inner), 0..6).prop_map(|members| {
                Value::Object(members.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
            }),
        ]
    })
}

fn body() -> impl Strategy<Value = Bytes> {
    let json = || document().prop_map(|value| value.to_string().into_bytes());
    prop_oneof![
        6 => json(),
        1 => (json(), any::<prop::sample::Index>(), any::<u8>()).prop_map(|(mut text, at, byte)| {
            let at = at.index(text.len());
            text[at] = byte;
            text
        }),
        1 => "([a-z]{0,5}(\\[[a-z]{0,5}\\]?)?=(%[0-9a-g]{0,2})?&?){0,5}".prop_map(String::into_bytes),
        1 => vec(any::<u8>(), 0..200),
    ]
    .prop_map(Bytes::from)
}

fn status() -> impl Strategy<Value = StatusCode> {
    let usual =
        select(vec![200u16, 201, 204, 207, 301, 400, 401, 402, 403, 404, 406, 409, 422, 429, 500, 503]);
    prop_oneof![usual, 100u16..1000].prop_map(|status| StatusCode::from_u16(status).expect("in range"))
}

fn answer() -> impl Strategy<Value = Answer> {
    (status(), headers(), body(), any::<bool>()).prop_map(|(status, headers, body, cut)| {
        let mut answer = Answer::new(status, headers, body);
        answer.cut = cut && answer.body.len() > 3;
        answer
    })
}

/// A call of some vendor, and its query.
fn request() -> impl Strategy<Value = ((&'static str, &'static str), Option<String>, HeaderMap, Bytes)> {
    (select(ROUTES), proptest::option::of("[a-z:_\\[\\]]{0,8}=[^#]{0,10}"), headers(), body())
}

fn build(
    vendor: &dyn Vendor,
    (route, query, headers, body): &((&str, &str), Option<String>, HeaderMap, Bytes),
) -> Request {
    let method = Method::from_bytes(route.0.as_bytes()).expect("a method");
    let mut url = vendor.base_url().clone();
    url.set_path(&format!("{}{}", url.path().trim_end_matches('/'), route.1));
    url.set_query(query.as_deref());
    let mut request = Request::new(method, url);
    request.headers = headers.clone();
    request.body = body.clone();
    request
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn no_answer_makes_an_adapter_panic_and_no_failure_is_taken_for_a_yes_or_a_no(
        call in request(),
        answers in vec(answer(), 1..4),
        kind in select(vec![SendErrorKind::Dns, SendErrorKind::Timeout, SendErrorKind::Reset, SendErrorKind::Truncated]),
        keyed in any::<bool>(),
        before in select(vec![Effect::None, Effect::Unknown]),
    ) {
        for vendor in vendors() {
            let mut request = build(&*vendor, &call);
            let account = vendor.account(&request.headers).into_owned();
            let scope = Scope::new("fuzz", vendor.name(), &account, &request.method, request.url.path());
            let id = OperationId::new(scope, Key::new("order-42").expect("a key"));
            let _ = fingerprint(&account, &request);
            let unstamped = request.clone();
            let Ok(wire_key) = vendor.stamp(id.wire_key(), &mut request) else { continue };
            prop_assert!(!wire_key.is_empty());
            let mut again = unstamped;
            prop_assert_eq!(vendor.stamp(id.wire_key(), &mut again).ok(), Some(wire_key.clone()));
            prop_assert_eq!(&again, &request, "stamping is deterministic");
            let _ = vendor.replay_window(&request);
            vendor.authorize(&mut again);

            for answer in &answers {
                let attempt = Attempt::new(&request, keyed, Ok(answer), NOW).after(before);
                let verdict = vendor.classify(&attempt);
                if matches!(verdict, Verdict::Done { .. }) {
                    prop_assert!(!answer.status.is_server_error(), "{}: {verdict:?} of {answer:?}", vendor.name());
                }
            }
            let lost = SendError::new(kind);
            let verdict = vendor.classify(&Attempt::new(&request, keyed, Err(&lost), NOW).after(before));
            match verdict {
                Verdict::Retry { effect, .. } => prop_assert_eq!(effect, lost.effect()),
                Verdict::Unknown => prop_assert_eq!(lost.effect(), Effect::Unknown),
                other => prop_assert!(false, "{}: {other:?} of {kind:?}", vendor.name()),
            }

            let subject = Subject::new(&request, &wire_key, NOW);
            let Some(mut question) = vendor.lookup(&subject) else { continue };
            for answer in &answers {
                match vendor.read_lookup(&subject, &question, answer) {
                    Finding::Next(next) => question = next,
                    Finding::Absent => prop_assert!(
                        answer.status.is_success() || answer.status == StatusCode::NOT_FOUND,
                        "{}: absent by {answer:?}", vendor.name()
                    ),
                    Finding::Found(_) => prop_assert!(answer.status.is_success(), "found by {answer:?}"),
                    _ => {}
                }
            }
        }
    }

    #[test]
    fn no_answer_makes_the_helpers_panic(answer in answer()) {
        let _ = (Postmark::failed_items(&answer), BigCommerce::partial_errors(&answer), answer.json());
    }

    #[test]
    fn no_header_makes_a_wait_panic(status in status(), headers in headers(), bytes in vec(any::<u8>(), 0..60)) {
        let _ = wait::retry_after(&bytes, NOW);
        let asked = wait::asked(status, &headers, NOW);
        prop_assert!(asked.is_none() || !status.is_success());
        let _ = (wait::bigcommerce(&headers), wait::bigcommerce_unless_quota_is_left(&headers));
        let _ = (wait::rate_limit(&headers), wait::stripe_should_retry(&headers));
        let inbound = Inbound::from_headers(&headers);
        let _ = (inbound.remaining(), inbound.retries_allowed());
    }

    #[test]
    fn no_text_makes_a_key_panic(text in "\\PC{0,300}", bytes in vec(any::<u8>(), 0..40)) {
        let _ = text.parse::<WireKey>();
        if let Ok(key) = Key::new(text.clone()) {
            prop_assert!((1..=255).contains(&text.len()) && text.bytes().all(|byte| (0x20..0x7f).contains(&byte)));
            prop_assert_eq!(key.as_str(), text);
        }
        let _ = String::from_utf8_lossy(&bytes).parse::<WireKey>();
    }
}
