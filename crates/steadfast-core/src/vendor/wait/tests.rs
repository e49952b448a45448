use http::{HeaderName, HeaderValue};
use proptest::prelude::*;
use serde_json::Value;

use super::*;

fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (name, value) in pairs {
        headers.append(HeaderName::from_static(name), HeaderValue::from_str(value).expect("a value"));
    }
    headers
}

fn vector(name: &str) -> Value {
    let path = format!("{}/../../tests/vectors/{name}", env!("CARGO_MANIFEST_DIR"));
    serde_json::from_slice(&std::fs::read(path).expect("the vector file")).expect("json")
}

fn status(code: u64) -> StatusCode {
    StatusCode::from_u16(u16::try_from(code).expect("a status")).expect("a status")
}

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn every_row_of_the_retry_after_vectors_holds() {
    let vectors = vector("retry_after.json");
    let now = vectors["now_for_dates"].as_str().expect("a date");
    let now = Timestamp::from(httpdate::parse_http_date(now).expect("a date"));
    let rows = vectors["parse"].as_array().expect("rows");
    assert_eq!(rows.len(), 7);
    for row in rows {
        let mut map = HeaderMap::new();
        if let Some(value) = row["v"].as_str() {
            map.insert("retry-after", HeaderValue::from_str(value).expect("a value"));
            assert_eq!(
                retry_after(value.as_bytes(), now),
                row["s"].as_u64().map(Duration::from_secs),
                "{row}"
            );
        }
        assert_eq!(asked(status(429), &map, now), row["s"].as_u64().map(Duration::from_secs), "{row}");
    }
    for client in ["go-retryablehttp", "failsafe-go"] {
        for code in vectors["which_statuses"][client].as_array().expect("statuses") {
            let two = headers(&[("retry-after", "2")]);
            let code = code.as_u64().expect("a status");
            assert_eq!(asked(status(code), &two, now), Some(2 * SECOND), "{code}");
        }
    }
}

#[test]
fn retry_after_counts_beside_every_status_but_success() {
    let map = headers(&[("retry-after", "2")]);
    for code in [307, 400, 403, 404, 408, 409, 413, 429, 500, 502, 503, 504, 529, 599] {
        assert_eq!(asked(status(code), &map, Timestamp::default()), Some(2 * SECOND), "{code}");
    }
    for code in [200, 201, 202, 204] {
        assert_eq!(asked(status(code), &map, Timestamp::default()), None, "{code}");
    }
}

#[test]
fn a_date_is_read_against_the_answers_own_date() {
    let ours = Timestamp::from(httpdate::parse_http_date("Fri, 31 Dec 1999 23:59:57 GMT").expect("a date"));
    let after = ("retry-after", "Fri, 31 Dec 1999 23:09:57 GMT");
    for (sent_at, expected) in [
        // The vendor's clock is 51 minutes behind ours, then an hour ahead, then unreadable or missing.
        (Some("Fri, 31 Dec 1999 23:08:57 GMT"), 60),
        (Some("Sat, 01 Jan 2000 00:59:57 GMT"), 0),
        (Some("soon"), 0),
        (None, 0),
    ] {
        let mut map = headers(&[after]);
        if let Some(sent_at) = sent_at {
            map.insert("date", HeaderValue::from_str(sent_at).expect("a value"));
        }
        assert_eq!(asked(status(503), &map, ours), Some(expected * SECOND), "{sent_at:?}");
    }
    let ahead = headers(&[
        ("retry-after", "Sat, 01 Jan 2000 00:04:57 GMT"),
        ("date", "Sat, 01 Jan 2000 00:04:55 GMT"),
    ]);
    assert_eq!(asked(status(429), &ahead, ours), Some(2 * SECOND), "five minutes ahead of us");
}

#[test]
fn a_fraction_rounds_up_and_a_list_counts_with_its_longest() {
    let now = Timestamp::from(httpdate::parse_http_date("Fri, 31 Dec 1999 23:59:57 GMT").expect("a date"));
    for (value, expected) in [
        ("1.5", 2),
        ("0.001", 1),
        (".5", 1),
        ("2.", 2),
        ("2.000", 2),
        ("5, 10", 10),
        ("10,5", 10),
        ("5, soon", 5),
        ("soon, 1.2, -9", 2),
        ("Fri, 31 Dec 1999 23:59:59 GMT, 1", 2),
        ("1, Fri, 31 Dec 1999 23:59:59 GMT", 2),
        ("Fri, 31 Dec 1999 23:59:58 GMT, Fri, 31 Dec 1999 23:59:59 GMT", 2),
        ("Friday, 31-Dec-99 23:59:59 GMT", 2),
        ("Fri Dec 31 23:59:59 1999", 2),
        ("Fri, 5", 5),
    ] {
        assert_eq!(retry_after(value.as_bytes(), now), Some(expected * SECOND), "{value:?}");
    }
    assert_eq!(bigcommerce(&headers(&[("x-retry-after", "1.5")])), Some(2 * SECOND));
}

#[test]
fn a_wait_too_large_to_hold_is_the_largest_and_not_zero() {
    let huge = "9".repeat(60);
    assert_eq!(retry_after(huge.as_bytes(), Timestamp::default()), Some(Duration::from_secs(u64::MAX)));
    let map = headers(&[("x-rate-limit-time-reset-ms", &huge)]);
    assert_eq!(bigcommerce(&map), Some(Duration::from_millis(u64::MAX)));
}

#[test]
fn signs_and_units_are_not_numbers() {
    for bad in ["+2", "-0", "-1.5", "1.5.2", "1e3", "0x10", "2s", ".", ",", "", " ", "١", "Fri, soon"] {
        assert_eq!(retry_after(bad.as_bytes(), Timestamp::default()), None, "{bad:?}");
    }
    assert_eq!(retry_after(b" 7\t", Timestamp::default()), Some(7 * SECOND));
}

#[test]
fn a_header_sent_twice_counts_with_its_longest_wait() {
    let map =
        headers(&[("retry-after", "3"), ("retry-after", "junk"), ("retry-after", "9"), ("retry-after", "1")]);
    assert_eq!(asked(status(503), &map, Timestamp::default()), Some(9 * SECOND));
}

#[test]
fn bigcommerces_milliseconds_are_not_read_as_seconds() {
    let reset = ("x-rate-limit-time-reset-ms", "15000");
    assert_eq!(bigcommerce(&headers(&[reset])), Some(15 * SECOND));
    assert_eq!(bigcommerce(&headers(&[reset, ("x-retry-after", "14")])), Some(15 * SECOND));
    assert_eq!(bigcommerce(&headers(&[reset, ("x-retry-after", "16")])), Some(16 * SECOND));
    assert_eq!(bigcommerce(&headers(&[("x-retry-after", "16")])), Some(16 * SECOND));
    // A time in place of a wait.
    let reset = ("x-rate-limit-time-reset-ms", "1609844400000");
    let date = ("date", "Tue, 05 Jan 2021 10:59:30 GMT");
    assert_eq!(bigcommerce(&headers(&[reset, date])), Some(30 * SECOND));
    assert_eq!(bigcommerce(&headers(&[("retry-after", "16")])), None, "BigCommerce never sends it");
}

#[test]
fn rate_limit_fields_ask_for_a_wait_only_when_nothing_remains() {
    let now = Timestamp::default();
    for (pairs, expected) in [
        (vec![("ratelimit", r#""default";r=0;t=30"#)], Some(30)),
        (vec![("ratelimit", r#""default";r=1;t=30"#)], None),
        (vec![("ratelimit", r#""a";r=0;t=5, "b,;\"x";r=0; t=40 ,"c";r=9;t=99"#)], Some(40)),
        (vec![("ratelimit", r#""default";r=0"#)], None),
        (vec![("ratelimit", "r=0;t=30")], None),
        (vec![("ratelimit-remaining", "0"), ("ratelimit-reset", "12")], Some(12)),
        (vec![("ratelimit-remaining", "3"), ("ratelimit-reset", "12")], None),
        (vec![("ratelimit-reset", "12")], None),
        (vec![("ratelimit-remaining", "0"), ("ratelimit-reset", "12"), ("retry-after", "20")], Some(20)),
        // A time in place of a wait, as GitLab writes it.
        (
            vec![("ratelimit-remaining", "0"), ("ratelimit-reset", "1609844400"), ("retry-after", "30")],
            Some(30),
        ),
        (
            vec![
                ("ratelimit-remaining", "0"),
                ("ratelimit-reset", "1609844400"),
                ("date", "Tue, 05 Jan 2021 10:59:30 GMT"),
            ],
            Some(30),
        ),
        (vec![("ratelimit-remaining", "0"), ("ratelimit-reset", "1609844400")], None),
        (
            vec![("ratelimit", r#""default";r=0;t=1609844400"#), ("date", "Tue, 05 Jan 2021 10:59:30 GMT")],
            Some(30),
        ),
        (vec![("ratelimit", r#""default";r=0;t=1609844400"#)], None),
    ] {
        for code in [429, 503] {
            let wait = asked(status(code), &headers(&pairs), now);
            assert_eq!(wait, expected.map(Duration::from_secs), "{code} {pairs:?}");
        }
        let beside_500 = expected.filter(|_| pairs.iter().any(|(name, _)| *name == "retry-after"));
        assert_eq!(
            asked(status(500), &headers(&pairs), now),
            beside_500.map(Duration::from_secs),
            "{pairs:?}"
        );
    }
}

#[test]
fn a_number_is_a_wait_or_a_time_since_1970_in_each_unit() {
    let now = Timestamp::from(httpdate::parse_http_date("Wed, 26 Nov 2025 00:00:00 GMT").expect("a date"));
    // 1764115200 is that moment.
    for (name, value, expected) in [
        ("retry-after", "1764115260", 60),
        ("retry-after", "1764115260.2", 61),
        ("retry-after", "1764115260000", 60),
        ("retry-after", "1764115100", 0),
        ("retry-after", "Sat, 31 Dec 2016 23:59:60 GMT", 0),
        ("retry-after", "86400", 86_400),
        ("retry-after-ms", "2500", 3),
        ("retry-after-ms", "2500.5", 3),
        ("retry-after-ms", "1764115260000", 60),
        ("x-ms-retry-after-ms", "60000", 60),
        ("x-ratelimit-reset", "60", 60),
        ("x-ratelimit-reset", "60.5", 61),
        ("x-ratelimit-reset", "1764115260", 60),
        ("x-ratelimit-reset", "1764115260000", 60),
        ("x-ratelimit-reset", "6m0s", 360),
        ("x-ratelimit-reset", "2025-11-26T00:01:00Z", 60),
        ("x-rate-limit-reset", "Wed, 26 Nov 2025 00:01:00 GMT", 60),
        ("x-ratelimit-reset-after", "1.2", 2),
        ("ratelimit", "limit=10, remaining=0, reset=30", 30),
        ("ratelimit", "limit=10;w=60,remaining=0,reset=1764115260", 60),
    ] {
        let map = headers(&[(name, value)]);
        let wait = asked(status(429), &map, now).map(|wait| wait.as_millis().div_ceil(1000));
        assert_eq!(wait, Some(expected), "{name}: {value}");
        let beside_503 = asked(status(503), &map, now).is_some();
        assert_eq!(beside_503, name.ends_with("retry-after") || name.ends_with("-ms"), "{name}: {value}");
        assert_eq!(asked(status(200), &map, now), None);
    }
    for (remaining, value) in [("x-ratelimit-remaining", "3"), ("x-rate-limit-remaining", "1")] {
        let map = headers(&[(remaining, value), ("x-ratelimit-reset", "60")]);
        assert_eq!(asked(status(429), &map, now), None, "something remains");
    }
    for junk in ["soon", "-5", "", "limit=10, remaining=3, reset=30", "6 parsecs", "reset", "remaining=0"] {
        for name in ["x-ratelimit-reset", "retry-after-ms", "ratelimit"] {
            assert_eq!(asked(status(429), &headers(&[(name, junk)]), now), None, "{name}: {junk}");
        }
    }
}

#[test]
fn no_wait_is_believed_beyond_a_day() {
    let day = Duration::from_secs(86_400);
    for (wait, expected) in
        [(Duration::ZERO, Duration::ZERO), (day, day), (day + SECOND, day), (Duration::MAX, day)]
    {
        assert_eq!(believed(wait), expected);
    }
}

#[test]
fn should_retry_is_true_false_or_nothing() {
    for (value, expected) in [("true", Some(true)), ("False", Some(false)), ("1", None), ("", None)] {
        assert_eq!(stripe_should_retry(&headers(&[("stripe-should-retry", value)])), expected);
    }
    assert_eq!(stripe_should_retry(&HeaderMap::new()), None);
}

fn any_header_map(name: &'static str, value: &[u8]) -> HeaderMap {
    let mut map = HeaderMap::new();
    if let Ok(value) = HeaderValue::from_bytes(value) {
        map.insert(name, value);
    }
    map
}

proptest! {
    #[test]
    fn no_bytes_make_a_parser_panic(bytes in proptest::collection::vec(any::<u8>(), 0..80), now: u64) {
        let now = Timestamp::from_millis(now);
        retry_after(&bytes, now);
        rate_limit_list(&bytes, &HeaderMap::new());
        for name in ["retry-after", "ratelimit", "ratelimit-remaining", "ratelimit-reset",
            "retry-after-ms", "x-ratelimit-reset", "x-retry-after", "x-rate-limit-time-reset-ms", "stripe-should-retry"] {
            let map = any_header_map(name, &bytes);
            asked(status(429), &map, now);
            bigcommerce(&map);
            rate_limit(&map);
            stripe_should_retry(&map);
        }
    }

    #[test]
    fn no_rate_limit_field_panics(text in r#"["a-z;=, \\0-9rt]{0,60}"#) {
        rate_limit_list(text.as_bytes(), &HeaderMap::new());
    }

    #[test]
    fn a_date_is_never_waited_for_less_than_it_says(millis in 0u64..4_000_000_000_000, ahead in 0u64..1_000_000) {
        let now = Timestamp::from_millis(millis);
        let date = Timestamp::from_millis((millis / 1000 + ahead) * 1000);
        let wait = retry_after(date.to_string().as_bytes(), now).expect("a date");
        prop_assert_eq!(wait, date.since(now));
    }
}
