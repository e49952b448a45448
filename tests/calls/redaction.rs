//! A secret that a call or its client names is never shown to whoever looks at the operation, and is stored and sent
//! all the same.

use std::sync::Arc;

use serde_json::{Value, json};
use steadfast::dead_letter::{Change, DeadLetters, Message, Shown};
use steadfast::operation::record::Filter;
use steadfast::operation::{Key, OperationId, RedactedFields, Scope};
use steadfast::policy::Backoff;
use steadfast::store::{Memory, Store};
use steadfast::testkit::{ScriptedTransport, TestClock};
use steadfast::transport::SendErrorKind;
use steadfast::vendor::Stripe;
use steadfast::{Call, Client, ClientBuilder, Error, Policy};

struct Bench {
    store: Arc<dyn Store>,
    clock: TestClock,
}

impl Bench {
    fn client(&self, network: &ScriptedTransport) -> Client {
        self.builder(network).build().expect("a client")
    }

    fn builder(&self, network: &ScriptedTransport) -> ClientBuilder {
        Client::builder(Stripe::new("sk_test_1"))
            .policy(Policy::background().backoff(Backoff::none()).without_breaker().without_budget())
            .store(Arc::clone(&self.store))
            .clock(self.clock.clone())
            .transport(network.clone())
    }

    fn letters(&self) -> DeadLetters {
        DeadLetters::new(Arc::clone(&self.store)).with_clock(self.clock.clone())
    }

    async fn shown(&self, id: &OperationId) -> Shown {
        self.letters().open(id, &look()).await.expect("shown")
    }
}

fn look() -> Change {
    Change::by("ada").because("ticket 7")
}

/// On each store, with the file it may have beside it until the test ends.
async fn on_each_store(test: impl AsyncFn(Bench)) {
    test(Bench { store: Arc::new(Memory::new()), clock: TestClock::auto() }).await;
    #[cfg(feature = "sqlite")]
    {
        let directory = tempfile::TempDir::new().expect("a directory");
        let store = steadfast::store::Sqlite::open(directory.path().join("calls.db")).expect("opens");
        test(Bench { store: Arc::new(store), clock: TestClock::auto() }).await;
    }
}

/// A personal value in the query, in a header, and at two depths of the body.
fn call(client: &Client, key: &str) -> Call {
    client
        .post("/v1/quotes")
        .key(key)
        .query(&[("email", "ada@example.test"), ("page", "2")])
        .header("X-Customer", "Ada")
        .json(&json!({"amount": 1000, "to": [{"Email": "ada@example.test"}], "card": {"number": "4242"}}))
}

/// An answer that repeats them.
fn answered(network: ScriptedTransport, status: u16) -> ScriptedTransport {
    network
        .json(status, json!({"id": "po_1", "receipt": {"EMAIL": "ada@example.test"}, "card": "4242"}))
        .header("X-Customer", "Ada")
}

fn id(client: &Client, error: &Error) -> OperationId {
    assert_eq!(client.vendor(), "stripe");
    let key = Key::new(error.key().expect("keyed")).expect("a key");
    OperationId::new(Scope::from_stored(error.operation().expect("keyed")), key)
}

fn text(message: &Message) -> &str {
    message.body.as_deref().expect("shown")
}

fn value_of<'a>(headers: &'a [(String, String)], name: &str) -> &'a str {
    headers.iter().find(|(own, _)| own == name).map(|(_, value)| value.as_str()).expect(name)
}

const FIELDS: [&str; 3] = ["email", "Card", "x-customer"];

fn assert_redacted(shown: &Shown) {
    let form = serde_json::to_string(shown).expect("JSON");
    for secret in ["example.test", "4242", "\"Ada\""] {
        assert!(!form.contains(secret), "{secret} in {form}");
    }
}

#[tokio::test]
async fn what_a_call_names_is_redacted_in_whatever_is_shown() {
    on_each_store(async |bench| {
        let network = answered(ScriptedTransport::new(), 402);
        let client = bench.client(&network);
        let error = call(&client, "a").redact(FIELDS).send().await.expect_err("refused");
        let sent = &network.requests()[0];
        let body: Value = serde_json::from_slice(&sent.body).expect("JSON");
        assert_eq!(
            (&body["card"]["number"], sent.url.query()),
            (&json!("4242"), Some("email=ada%40example.test&page=2"))
        );

        let shown = bench.shown(&id(&client, &error)).await;
        assert_redacted(&shown);
        assert!(shown.url.ends_with("?email=%5Bredacted%5D&page=2"), "{}", shown.url);
        assert_eq!(value_of(&shown.request.headers, "x-customer"), "[redacted]");
        assert_eq!(value_of(&shown.request.headers, "content-type"), "application/json");
        let expected = json!({"amount": 1000, "to": [{"Email": "[redacted]"}], "card": "[redacted]"});
        assert_eq!(serde_json::from_str::<Value>(text(&shown.request)).expect("JSON"), expected);
        let reply = shown.reply.expect("an answer");
        assert_eq!(value_of(&reply.headers, "x-customer"), "[redacted]");
        let expected = json!({"id": "po_1", "receipt": {"EMAIL": "[redacted]"}, "card": "[redacted]"});
        assert_eq!(serde_json::from_str::<Value>(text(&reply)).expect("JSON"), expected);
    })
    .await;
}

#[tokio::test]
async fn a_call_that_names_nothing_is_shown_whole() {
    on_each_store(async |bench| {
        let client = bench.client(&answered(ScriptedTransport::new(), 402));
        let error = call(&client, "a").send().await.expect_err("refused");
        let shown = bench.shown(&id(&client, &error)).await;
        assert!(text(&shown.request).contains("4242"));
        assert!(text(&shown.reply.expect("an answer")).contains("ada@example.test"));
        assert_eq!(value_of(&shown.request.headers, "x-customer"), "Ada");
    })
    .await;
}

#[tokio::test]
async fn the_first_claims_names_stay_and_a_viewer_adds_to_them() {
    on_each_store(async |bench| {
        let network = answered(ScriptedTransport::new(), 402);
        let client = bench.client(&network);
        let first = call(&client, "a").redact(["email"]).redact(["x-customer"]).send().await;
        let id = id(&client, &first.expect_err("refused"));
        call(&client, "a").redact(["amount"]).send().await.expect_err("replayed");
        call(&client, "a").send().await.expect_err("replayed");
        assert_eq!(network.requests().len(), 1);
        let record = bench.store.get(&id).await.expect("works").expect("a record");
        assert_eq!(record.redact.names(), ["email", "x-customer"]);

        let letters = bench.letters().redact(["number"]).redact(["id"]);
        let shown = letters.open(&id, &look()).await.expect("shown");
        let expected =
            json!({"amount": 1000, "to": [{"Email": "[redacted]"}], "card": {"number": "[redacted]"}});
        assert_eq!(serde_json::from_str::<Value>(text(&shown.request)).expect("JSON"), expected);
        assert!(text(&shown.reply.expect("an answer")).contains(r#""id":"[redacted]""#));
        let closed = bench.letters().show(&id).await.expect("shown");
        assert!(closed.request.body.is_err());
    })
    .await;
}

#[tokio::test]
async fn an_export_and_an_edit_keep_the_names() {
    on_each_store(async |bench| {
        let network = ScriptedTransport::new().fail(SendErrorKind::Connect);
        let client = bench.client(&network);
        let error = call(&client, "a").redact(FIELDS).send().await.expect_err("never sent");
        assert!(error.is_dead_letter());
        let mut lines = Vec::new();
        let letters = bench.letters().with_client(&client);
        assert_eq!(letters.export_opened(&Filter::default(), &look(), &mut lines).await.expect("written"), 1);
        let line = String::from_utf8(lines).expect("text");
        assert!(
            line.contains("amount") && !line.contains("4242") && !line.contains("example.test"),
            "{line}"
        );

        let body = r#"{"amount":900,"card":{"number":"4343"},"email":"bob@example.test"}"#;
        let (key, how) = (Key::new("b").expect("a key"), Change::by("ada").because("another card"));
        let new = letters.edit(&id(&client, &error), key, body, &how).await.expect("edited");
        let shown = bench.shown(&new).await;
        assert_redacted(&shown);
        assert_eq!(text(&shown.request), r#"{"amount":900,"card":"[redacted]","email":"[redacted]"}"#);
    })
    .await;
}

#[tokio::test]
async fn a_client_names_fields_for_all_of_its_calls() {
    on_each_store(async |bench| {
        let network = answered(answered(ScriptedTransport::new(), 402), 402);
        let client = bench.builder(&network).redact(FIELDS).build().expect("a client");
        let error = call(&client, "a").send().await.expect_err("refused");
        assert_redacted(&bench.shown(&id(&client, &error)).await);
        let error = call(&client, "b").redact(["amount", "EMAIL"]).send().await.expect_err("refused");
        let record = bench.store.get(&id(&client, &error)).await.expect("works").expect("a record");
        assert_eq!(record.redact.names(), ["email", "card", "x-customer", "amount"]);
    })
    .await;
}

#[tokio::test]
async fn a_form_is_redacted_by_whole_names_and_by_their_parts() {
    let bench = Bench { store: Arc::new(Memory::new()), clock: TestClock::auto() };
    let client = bench.client(&ScriptedTransport::new().json(402, json!({})));
    let form =
        [("card[number]", "4242"), ("card[cvc]", "123"), ("to[0][email]", "ada@example.test"), ("n", "1")];
    let call = client.post("/v1/quotes").key("a").form(&form).redact(["Card[Number]", "email"]);
    let shown = bench.shown(&id(&client, &call.send().await.expect_err("refused"))).await;
    let expected =
        "card%5Bnumber%5D=%5Bredacted%5D&card%5Bcvc%5D=123&to%5B0%5D%5Bemail%5D=%5Bredacted%5D&n=1";
    assert_eq!(text(&shown.request), expected);
}

#[tokio::test]
async fn a_name_that_makes_no_sense_is_a_mistake_and_nothing_is_sent() {
    let bench = Bench { store: Arc::new(Memory::new()), clock: TestClock::auto() };
    let network = ScriptedTransport::new();
    let client = bench.client(&network);
    let many = (0..=RedactedFields::COUNT_MAX).map(|nth| format!("field {nth}"));
    let long = "x".repeat(RedactedFields::NAME_BYTES_MAX + 1);
    for call in [
        call(&client, "a").redact([""]),
        call(&client, "a").redact([long.as_str()]),
        call(&client, "a").redact(many.clone()),
        many.clone().fold(call(&client, "a"), |call, name| call.redact([name])),
    ] {
        assert_eq!(call.send().await.expect_err("a mistake").code(), "VALIDATION.redact");
    }
    assert_eq!(network.requests().len(), 0);
    for builder in [bench.builder(&network).redact([""]), bench.builder(&network).redact(many.clone())] {
        assert_eq!(builder.build().expect_err("a mistake").code(), "VALIDATION.redact");
    }
}
