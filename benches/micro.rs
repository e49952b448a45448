//! The cost of single operations of the library, each on its own.
//!
//! `cargo bench --bench micro`; `-- --test` runs each once, `-- --quick` stops as soon as criterion is sure.

use std::hint::black_box;
use std::time::Duration;

use criterion::{Criterion, criterion_group, criterion_main};
use http::{HeaderValue, Method, header};
use steadfast::clock::Timestamp;
use steadfast::operation::{Key, OperationId, Scope, fingerprint};
use steadfast::policy::Backoff;
use steadfast::transport::Request;
use steadfast::vendor::wait;
use url::Url;

fn names(criterion: &mut Criterion) {
    let scope = || Scope::new("prod", "stripe", "acct_1", &Method::POST, "/v1/payment_intents");
    let id = OperationId::new(scope(), Key::new("order-42/charge").expect("a key"));
    criterion.bench_function("wire key", |bench| bench.iter(|| black_box(&id).wire_key()));

    let mut form = request("application/x-www-form-urlencoded", "amount=1000&currency=usd");
    criterion.bench_function("fingerprint of a form", |bench| {
        bench.iter(|| fingerprint("acct_1", black_box(&form)));
    });
    form.body = vec![b'x'; 64 * 1024].into();
    criterion.bench_function("fingerprint of 64 KiB", |bench| {
        bench.iter(|| fingerprint("acct_1", black_box(&form)));
    });
    let json = request("application/json", r#"{"currency":"usd","amount":1000,"metadata":{"order":"42"}}"#);
    criterion.bench_function("fingerprint of small JSON", |bench| {
        bench.iter(|| fingerprint("acct_1", black_box(&json)));
    });
}

fn waits(criterion: &mut Criterion) {
    let backoff = Backoff::background();
    criterion.bench_function("backoff", |bench| {
        bench.iter(|| backoff.wait(black_box(2), Duration::from_secs(1), black_box(0.5)));
    });
    let now = Timestamp::from_millis(1_700_000_000_000);
    criterion.bench_function("Retry-After in seconds", |bench| {
        bench.iter(|| wait::retry_after(black_box(b"120"), now));
    });
    criterion.bench_function("Retry-After as a date", |bench| {
        bench.iter(|| wait::retry_after(black_box(b"Wed, 15 Nov 2023 00:00:00 GMT"), now));
    });
}

fn request(kind: &'static str, body: &'static str) -> Request {
    let url = Url::parse("https://api.stripe.com/v1/payment_intents").expect("a URL");
    let mut request = Request::new(Method::POST, url);
    request.headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    request.body = body.into();
    request
}

criterion_group!(benches, names, waits);
criterion_main!(benches);
