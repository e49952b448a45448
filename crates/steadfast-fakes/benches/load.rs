//! How fast the fakes are, and what they keep. Speed is measured on request, since a machine that does something else at
//! the time would fail it:
//!
//! `cargo test --release -p steadfast-fakes --bench load -- --ignored --nocapture --test-threads 1`
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "a measurement says what it found"
)]

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::thread;
use std::time::{Duration, Instant};

use http::{HeaderValue, Method};
use serde_json::{Value, json};
use steadfast_core::transport::{Answer, Limits, Request, Transport as _};
use steadfast_fakes::{AdyenFake, BigCommerceFake, InProcess, Ledger, PostmarkFake, StripeFake};

const OBJECTS: usize = 100_000;
const LOOKUP_MAX: Duration = Duration::from_millis(5);
const COUNT_OF_ALL_MAX: Duration = Duration::from_millis(60);
const TAKEN_APART_MAX: Duration = Duration::from_secs(2);
const RATE_MIN: f64 = 5_000.0;

async fn ask(fake: &InProcess, method: Method, path: &str, body: String) -> Value {
    answer_of(fake, method, path, body).await.json().unwrap_or(Value::Null)
}

async fn answer_of(fake: &InProcess, method: Method, path: &str, body: String) -> Answer {
    let mut request = Request::new(method, format!("http://fake.test{path}").parse().unwrap());
    for (name, value) in [
        ("authorization", "Bearer sk_test_1"),
        ("x-auth-token", "t"),
        ("x-postmark-server-token", "t"),
        ("x-api-key", "AQE"),
    ] {
        request.headers.insert(name, HeaderValue::from_static(value));
    }
    request.body = body.into();
    let answer = fake.send(request, Limits::new(100_000_000)).await.unwrap();
    assert!(answer.status.is_success(), "{path}: {} {:?}", answer.status, answer.body);
    answer
}

/// The slowest of many such lookups, but for one in twenty: the machine does other things too.
async fn slowest(fake: &InProcess, path: &str) -> Duration {
    slowest_of(fake, Method::GET, path, "").await
}

async fn slowest_of(fake: &InProcess, method: Method, path: &str, body: &str) -> Duration {
    let mut took = Vec::new();
    for _ in 0..100 {
        let begun = Instant::now();
        // How long its asker then takes to read it is not the fake's.
        let answer = answer_of(fake, method.clone(), path, body.to_owned()).await;
        took.push(begun.elapsed());
        drop(answer);
    }
    took.sort();
    println!("{path}: median {:?}, 95th {:?}", took[50], took[95]);
    took[95]
}

/// Of each: what the lookups are asked of.
async fn fill(stripe: &InProcess, postmark: &InProcess, store: &InProcess, customer: &str) {
    let half = OBJECTS / 2;
    for n in 0..OBJECTS {
        let owner = if n == half { format!("&customer={customer}") } else { String::new() };
        ask(stripe, Method::POST, "/v1/payment_intents", format!("amount=100&currency=usd{owner}")).await;
        let active = if n == half { "&active=false" } else { "" };
        ask(stripe, Method::POST, "/v1/products", format!("name=p{n}&id=prod_{n}{active}")).await;
        ask(stripe, Method::POST, "/v1/charges", "amount=100&currency=usd&source=tok_visa".to_owned()).await;
        let mail = json!({ "From": "a@example.com", "To": format!("b{n}@example.com"), "Subject": "s", "TextBody": "t",
            "Metadata": { "steadfast_key": n.to_string() } });
        ask(postmark, Method::POST, "/email", mail.to_string()).await;
        let order = json!({ "external_order_id": n.to_string(), "customer_id": n + 1, "billing_address": { "zip": "12345" }, "products": [{ "product_id": 1, "quantity": 1 }] });
        ask(store, Method::POST, "/stores/s/v2/orders", order.to_string()).await;
    }
}

#[tokio::test]
#[ignore = "a measurement"]
async fn a_lookup_among_100_000_objects_is_under_5_ms() {
    let (stripe, postmark, store) = (
        StripeFake::builder().in_process(),
        PostmarkFake::builder().in_process(),
        (1..=OBJECTS).fold(BigCommerceFake::builder(), |store, n| store.customer(n as u32)).in_process(),
    );
    let (stripe, postmark, store) = (stripe.transport(), postmark.transport(), store.transport());
    let customer = ask(&stripe, Method::POST, "/v1/customers", String::new()).await["id"].clone();
    let (customer, half) = (customer.as_str().unwrap().to_owned(), OBJECTS / 2);
    fill(&stripe, &postmark, &store, &customer).await;
    let middle =
        ask(&stripe, Method::GET, "/v1/payment_intents?limit=1", String::new()).await["data"][0]["id"]
            .clone();
    let path = format!("/stores/s/v2/orders?external_order_id={half}");
    let order = ask(&store, Method::GET, &path, String::new()).await[0]["id"].clone();
    for (fake, path) in [
        (&stripe, format!("/v1/payment_intents/{}", middle.as_str().unwrap())),
        (&stripe, "/v1/payment_intents?limit=100&created[gte]=1".to_owned()),
        (&stripe, format!("/v1/payment_intents?customer={customer}")),
        (&stripe, "/v1/events?type=payment_intent.created&limit=10".to_owned()),
        (&stripe, "/v1/products?active=false".to_owned()),
        (&stripe, "/v1/products?active=true&type=service&limit=100".to_owned()),
        (&stripe, format!("/v1/products?ids[]=prod_1&ids[]=prod_{half}")),
        (&stripe, format!("/v1/products?ending_before=prod_{half}&active=true&limit=100")),
        (&stripe, "/v1/charges?created[lt]=1".to_owned()),
        (&stripe, "/v1/balance".to_owned()),
        (&postmark, format!("/messages/outbound?count=500&offset=0&metadata_steadfast_key={half}")),
        (&postmark, format!("/messages/outbound?count=500&offset=0&recipient=b{half}@example.com")),
        (&store, format!("/stores/s/v2/orders?external_order_id={half}")),
        (&store, format!("/stores/s/v2/orders/{}", order.as_u64().unwrap())),
        (&store, "/stores/s/v2/orders?limit=250".to_owned()),
        (&store, format!("/stores/s/v2/orders?min_id={}", order)),
        (&store, "/stores/s/v2/orders?min_date_created=2020-01-01&page=9".to_owned()),
        (&store, format!("/stores/s/v2/orders?customer_id={half}")),
        (&store, "/stores/s/v2/orders?status_id=11".to_owned()),
        (&store, "/stores/s/v2/orders?status_id=1&channel_id=1&limit=250".to_owned()),
    ] {
        assert!(slowest(fake, &path).await < LOOKUP_MAX, "{path}");
    }
    // Every message passes: the search tells how many there are, and so counts them all. No adapter asks like this.
    for path in [
        "/messages/outbound?count=500&offset=0",
        "/messages/outbound?count=500&offset=9500&subject=s&fromdate=2020-01-01",
    ] {
        assert!(slowest(&postmark, path).await < COUNT_OF_ALL_MAX, "{path}");
    }
}

#[tokio::test]
#[ignore = "a measurement"]
async fn a_lookup_in_a_v3_list_of_100_000_is_under_5_ms() {
    let store =
        (1..=OBJECTS).fold(BigCommerceFake::builder(), |store, n| store.customer(n as u32)).in_process();
    let (store, half) = (store.transport(), OBJECTS / 2);
    let mut middle = Value::Null;
    for n in 0..OBJECTS {
        let product = json!({ "name": format!("P{n}"), "sku": format!("S{n}"), "type": "physical", "weight": 1, "price": n });
        let made = ask(&store, Method::POST, "/stores/s/v3/catalog/products", product.to_string()).await;
        if n == half {
            middle = made["data"]["id"].clone();
        }
        let list = json!({ "name": format!("L{n}") });
        ask(&store, Method::POST, "/stores/s/v3/pricelists", list.to_string()).await;
    }
    for path in [
        format!("catalog/products/{middle}"),
        format!("catalog/products?sku=S{half}"),
        format!("catalog/products?name=P{half}"),
        format!("catalog/products?sku:in=S1,S{half}"),
        format!("catalog/products?id:in={middle},9"),
        format!("catalog/products?id:min={middle}&limit=250"),
        format!("catalog/products?price={half}"),
        format!("catalog/products?is_visible=true&name=P{half}"),
        "catalog/products?is_visible=true".to_owned(),
        "catalog/products?limit=250".to_owned(),
        "catalog/products?limit=250&page=300".to_owned(),
        "catalog/products?date_modified:min=2020-01-01&limit=250".to_owned(),
        format!("customers?email:in=customer-{half}@example.com"),
        format!("customers?id:in={half}"),
        "customers?limit=250&page=9".to_owned(),
        "customers?date_created:min=2020-01-01".to_owned(),
        format!("pricelists?name=L{half}"),
    ] {
        assert!(slowest(&store, &format!("/stores/s/v3/{path}")).await < LOOKUP_MAX, "{path}");
    }
    // Every product passes, and the list tells how many there are: each is taken apart. No adapter asks like this.
    let path = "/stores/s/v3/catalog/products?is_visible=false";
    assert!(slowest(&store, path).await < TAKEN_APART_MAX, "{path}");
}

#[tokio::test]
#[ignore = "a measurement"]
async fn adyen_finds_a_payment_and_a_webhook_among_100_000_in_under_5_ms() {
    let adyen = AdyenFake::builder().in_process();
    let (adyen, half) = (adyen.transport(), OBJECTS / 2);
    let mut middle = String::new();
    for n in 0..OBJECTS {
        let made = ask(&adyen, Method::POST, "/v71/payments", payment(&n.to_string()).to_string()).await;
        if n == half {
            middle = made["pspReference"].as_str().unwrap().to_owned();
        }
    }
    let hooks = "/v3/merchants/Other/webhooks";
    let hook = json!({ "type": "standard", "url": "http://127.0.0.1:1/", "active": false, "communicationFormat": "json" });
    let mut last = Value::Null;
    for _ in 0..OBJECTS {
        last = ask(&adyen, Method::POST, hooks, hook.to_string()).await["id"].clone();
    }
    let capture = json!({ "merchantAccount": "Shop", "amount": { "value": 1, "currency": "EUR" } });
    let cancel = json!({ "merchantAccount": "Shop", "paymentReference": half.to_string() });
    for (method, path, body) in [
        (Method::POST, format!("/v71/payments/{middle}/captures"), capture.to_string()),
        (Method::POST, "/v71/cancels".to_owned(), cancel.to_string()),
        (Method::GET, format!("{hooks}/{}", last.as_str().unwrap()), String::new()),
        (Method::GET, format!("{hooks}?pageSize=100"), String::new()),
        (Method::GET, format!("{hooks}?pageNumber=900&pageSize=100"), String::new()),
    ] {
        assert!(slowest_of(&adyen, method, &path, &body).await < LOOKUP_MAX, "{path}");
    }
}

fn payment(reference: &str) -> Value {
    json!({
        "merchantAccount": "Shop", "reference": reference, "returnUrl": "https://shop.example/return",
        "amount": { "value": 1000, "currency": "EUR" },
        "paymentMethod": { "type": "scheme", "encryptedCardNumber": "test_4111111111111111" },
    })
}

/// A connection that stays open.
struct Wire {
    stream: TcpStream,
    answers: BufReader<TcpStream>,
}

impl Wire {
    fn to(address: &str) -> Wire {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_nodelay(true).unwrap();
        let answers = BufReader::new(stream.try_clone().unwrap());
        Wire { stream, answers }
    }

    /// Sends a request and reads its answer, which must be a success.
    fn exchange(&mut self, request: &str) {
        self.stream.write_all(request.as_bytes()).unwrap();
        let (mut line, mut length) = (String::new(), 0);
        self.answers.read_line(&mut line).unwrap();
        assert!(line.starts_with("HTTP/1.1 20"), "{line}");
        while line != "\r\n" {
            line.clear();
            self.answers.read_line(&mut line).unwrap();
            if let Some(value) = line.strip_prefix("content-length: ") {
                length = value.trim().parse().unwrap();
            }
        }
        self.answers.read_exact(&mut vec![0; length]).unwrap();
    }
}

/// A write to a fake, the `n`th of a caller: what is before its body, and its body.
type Writes = fn(usize, usize) -> (String, String);

const WRITES: [(&str, Writes); 4] = [
    ("stripe", |caller, n| {
        let head = format!(
            "POST /v1/charges HTTP/1.1\r\nauthorization: Bearer sk_test_1\r\nidempotency-key: {caller}-{n}"
        );
        (head, "amount=1000&currency=usd".to_owned())
    }),
    ("postmark", |caller, n| {
        let mail = json!({ "From": "a@example.com", "To": "b@example.com", "Subject": "s", "TextBody": "t",
            "Metadata": { "steadfast_key": format!("{caller}-{n}") } });
        ("POST /email HTTP/1.1\r\nx-postmark-server-token: t".to_owned(), mail.to_string())
    }),
    ("bigcommerce", |caller, n| {
        let order = json!({ "external_order_id": format!("{caller}-{n}"), "billing_address": { "zip": "12345" },
            "products": [{ "product_id": 1, "quantity": 1 }] });
        ("POST /stores/s/v2/orders HTTP/1.1\r\nx-auth-token: t".to_owned(), order.to_string())
    }),
    ("adyen", |caller, n| {
        let key = format!("{caller}-{n}");
        (
            format!("POST /v71/payments HTTP/1.1\r\nx-api-key: AQE\r\nidempotency-key: {key}"),
            payment(&key).to_string(),
        )
    }),
];

/// Sends so many on one connection.
fn write_all(address: &str, writes: Writes, count: usize, caller: usize) {
    let mut wire = Wire::to(address);
    for n in 0..count {
        let (head, body) = writes(caller, n);
        let length = body.len();
        wire.exchange(&format!(
            "{head}\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
        ));
    }
}

/// How many a second, in two halves: what the fake holds by then must not make it slower.
async fn rates(url: &str, writes: Writes) -> [f64; 2] {
    let address = url.trim_start_matches("http://").to_owned();
    let mut rates = [0.0; 2];
    for (half, rate) in rates.iter_mut().enumerate() {
        let begun = Instant::now();
        let callers: Vec<_> = (0..CALLERS)
            .map(|caller| {
                let address = address.clone();
                thread::spawn(move || write_all(&address, writes, EACH / 2, 2 * caller + half))
            })
            .collect();
        for caller in callers {
            tokio::task::spawn_blocking(move || caller.join().unwrap()).await.unwrap();
        }
        *rate = (CALLERS * EACH / 2) as f64 / begun.elapsed().as_secs_f64();
    }
    rates
}

const CALLERS: usize = 16;
const EACH: usize = 2_000;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "a measurement"]
async fn the_fakes_serve_5_000_requests_a_second() {
    let (stripe, postmark) = (StripeFake::start().await, PostmarkFake::start().await);
    let (store, adyen) = (BigCommerceFake::start().await, AdyenFake::start().await);
    let fakes: [(String, Ledger); 4] = [
        (stripe.url(), stripe.ledger()),
        (postmark.url(), postmark.ledger()),
        (store.url(), store.ledger()),
        (adyen.url(), adyen.ledger()),
    ];
    let mut all = Vec::new();
    for ((url, ledger), (name, writes)) in fakes.iter().zip(WRITES) {
        let rates = rates(url, writes).await;
        println!("{name}: {rates:.0?} writes a second by halves, the callers on the same cores");
        assert_eq!(ledger.count(), CALLERS * EACH, "{name}");
        all.push((name, rates));
    }
    for (name, rates) in all {
        assert!(rates.iter().all(|rate| *rate >= RATE_MIN), "{name}: {rates:.0?} a second");
        assert!(rates[1] > rates[0] * 0.8, "{name} is slower by what it has answered: {rates:.0?} a second");
    }
}

/// The memory that this process holds, in bytes; 0 where the system does not tell.
fn held() -> u64 {
    let pages = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = pages.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok());
    pages.unwrap_or(0) * 4096
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_fake_has_answered_takes_no_memory() {
    let fake = StripeFake::start().await;
    let address = fake.url().trim_start_matches("http://").to_owned();
    let lookup = |count| {
        let address = address.clone();
        tokio::task::spawn_blocking(move || {
            let ask = "GET /v1/charges HTTP/1.1\r\nhost: x\r\nauthorization: Bearer sk_test_1\r\n\r\n";
            let mut line = Wire::to(&address);
            (0..count).for_each(|_| line.exchange(ask));
        })
    };
    lookup(4_000).await.unwrap();
    let before = held();
    lookup(24_000).await.unwrap();
    let grown = held().saturating_sub(before);
    println!("grown by {grown} bytes");
    // The copies that wiremock makes of 24,000 requests are more than 40 MB. The allocator holds some on its own.
    assert!(grown < 20_000_000, "grown by {grown} bytes");
}
