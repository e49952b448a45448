//! Rows that plain SQL wrote: made into calls by the same rules, and kept aside where they cannot be.

use std::time::Duration;

use steadfast::clock::{Clock as _, Timestamp};
use steadfast::operation::record::{Phase, Resolution};
use steadfast::{Obtained, OnUnknown};

use super::bench::Shop;

const CHARGE: &str = "INSERT INTO steadfast_outbox (vendor, account, path, key, content_type, body) \
     VALUES ('stripe', 'test', '/v1/charges', 'order-42/charge', 'application/x-www-form-urlencoded', \
             'amount=1000&currency=usd')";

/// A row with some columns of its own, such as `"key = 'x'"`, as SQL.
fn row(columns: &[(&str, &str)]) -> String {
    let defaults = [("vendor", "'stripe'"), ("account", "'test'"), ("path", "'/v1/charges'")];
    let given = |name: &str| columns.iter().any(|(column, _)| *column == name);
    let all: Vec<_> = defaults.iter().filter(|(name, _)| !given(name)).chain(columns).collect();
    let list =
        |pick: fn(&(&str, &str)) -> String| all.iter().map(|it| pick(it)).collect::<Vec<_>>().join(", ");
    format!(
        "INSERT INTO steadfast_outbox ({}) VALUES ({})",
        list(|(name, _)| (*name).to_owned()),
        list(|(_, value)| (*value).to_owned())
    )
}

#[tokio::test]
async fn plain_sql_enqueues_and_a_later_send_of_the_key_replays() {
    let shop = Shop::open();
    // One transaction of the shop's own, without this crate.
    shop.sql(&format!("BEGIN; INSERT INTO orders VALUES (42); {CHARGE}; COMMIT"));
    shop.sql(&format!("BEGIN; INSERT INTO orders VALUES (43); {CHARGE}; ROLLBACK"));
    shop.deliver().await;
    assert_eq!((shop.fake.ledger().count(), shop.waiting(), shop.count("orders")), (1, 0, 1));
    let reply = shop.charge(42).send().await.expect("it is done");
    assert_eq!(reply.obtained(), Obtained::Replayed);
}

#[tokio::test]
async fn a_trigger_enqueues() {
    let shop = Shop::open();
    shop.sql(
        "CREATE TRIGGER charge AFTER INSERT ON orders BEGIN \
         INSERT INTO steadfast_outbox (vendor, account, path, key, content_type, body) \
         VALUES ('stripe', 'test', '/v1/charges', 'order-' || new.number || '/charge', \
                 'application/x-www-form-urlencoded', 'amount=1000&currency=usd'); END",
    );
    shop.sql("INSERT INTO orders VALUES (1), (2)");
    shop.deliver().await;
    assert_eq!(shop.fake.ledger().count(), 2);
    assert_eq!(shop.charge(2).send().await.expect("it is done").obtained(), Obtained::Replayed);
}

#[tokio::test]
async fn json_is_the_same_request_in_whichever_order_and_whether_text_or_bytes() {
    let shop = Shop::open();
    shop.sql(&row(&[("key", "'a'"), ("body", "'{\"b\": 1.0, \"a\": [2]}'")]));
    shop.sql(&row(&[("key", "'b'"), ("body", "CAST('{\"a\":[2],\"b\":1}' AS BLOB)")]));
    shop.stripe.engage_kill_switch();
    shop.deliver().await;
    assert_eq!(shop.rejected().await, []);
    for key in ["a", "b"] {
        let same = shop.stripe.post("/v1/charges").key(key).json(&serde_json::json!({"a": [2], "b": 1}));
        assert!(!same.enqueue().await.expect("the same request").is_new());
    }
}

#[tokio::test]
async fn every_column_counts() {
    let shop = Shop::open();
    let day_ms = 24 * 3_600 * 1_000;
    let due = shop.clock.wall().as_millis() + 60_000;
    shop.sql(&row(&[
        ("key", "'full'"),
        ("method", "'PUT'"),
        ("path", "'/v1/{x}?expand=1'"),
        ("headers", r#"'{"X-A": ["1", "2"], "Content-Type": "text/plain"}'"#),
        ("body", "x'00ff'"),
        ("due_ms", &due.to_string()),
        ("on_unknown", "'dead_letter'"),
        ("retention_ms", &(40 * day_ms).to_string()),
        ("redact", r#"'["Email"]'"#),
    ]));
    shop.sql(&row(&[("key", "'bare'")]));
    shop.stripe.engage_kill_switch();
    shop.deliver().await;
    assert_eq!(shop.rejected().await, []);
    let full =
        shop.operations().await.into_iter().find(|it| it.id.key.as_str() == "full").expect("it is there");
    let record =
        steadfast::store::Store::get(&*shop.store, &full.id).await.expect("a store").expect("it is there");
    assert_eq!(full.id.scope.as_str(), "default/stripe/test/PUT /v1/%7Bx%7D");
    assert_eq!(record.request.url.query(), Some("expand=1"));
    let headers = &record.request.headers;
    assert!(
        headers.get_all("x-a").iter().eq(["1", "2"]) && headers["content-type"] == "text/plain",
        "{headers:?}"
    );
    assert_eq!(&record.request.body[..], b"\x00\xff");
    assert_eq!((full.phase, full.until), (Phase::Scheduled, Some(Timestamp::from_millis(due))));
    assert_eq!((record.on_unknown, record.keep), (OnUnknown::Park, Duration::from_millis(40 * day_ms)));
    assert_eq!(record.redact.names(), ["email"]);
    let bare =
        shop.operations().await.into_iter().find(|it| it.id.key.as_str() == "bare").expect("it is there");
    let record =
        steadfast::store::Store::get(&*shop.store, &bare.id).await.expect("a store").expect("it is there");
    assert!(record.request.body.is_empty() && !record.request.headers.contains_key("content-type"));
}

/// A mistake that the table itself can see fails where somebody hears of it.
#[tokio::test]
async fn what_the_checks_see_fails_in_the_callers_transaction() {
    let shop = Shop::open();
    let long = format!("'{}'", "k".repeat(256));
    for columns in [
        &[("key", "''")][..],
        &[("key", &long)],
        &[("key", "'tab\t'")],
        &[("key", "'ü'")],
        &[("key", "NULL")],
        &[("key", "'k'"), ("vendor", "NULL")],
        &[("key", "'k'"), ("account", "NULL")],
        &[("key", "'k'"), ("path", "'v1/charges'")],
        &[("key", "'k'"), ("path", "'https://evil.test/'")],
        &[("key", "'k'"), ("method", "'post'")],
        &[("key", "'k'"), ("method", "''")],
        &[("key", "'k'"), ("headers", "'x'")],
        &[("key", "'k'"), ("headers", "'[]'")],
        &[("key", "'k'"), ("body", "7")],
        &[("key", "'k'"), ("due_ms", "'soon'")],
        &[("key", "'k'"), ("on_unknown", "'retry'")],
        &[("key", "'k'"), ("retention_ms", "0")],
        &[("key", "'k'"), ("redact", "'{}'")],
        &[("key", "'k'"), ("supersedes", "''")],
        &[("key", "'k'"), ("rejected", "'why'")],
    ] {
        let refused = shop.connection().execute_batch(&row(columns));
        assert!(refused.is_err(), "{columns:?}");
    }
    assert_eq!(shop.count("steadfast_outbox"), 0);
}

/// A malformed row is kept aside with its reason, and the rest goes on.
#[tokio::test]
async fn what_cannot_be_admitted_is_rejected_with_its_reason_and_the_rest_goes_on() {
    let shop = Shop::open();
    shop.charge(7).send().await.expect("it is sent");
    shop.sql("CREATE TABLE large (body TEXT)");
    shop.sql("INSERT INTO large VALUES (replace(hex(zeroblob(9000000)), '0', 'x'))");
    let secret = r#"'{"authorization": "Bearer hunter2"}'"#;
    let form = ("content_type", "'application/x-www-form-urlencoded'");
    let bad: &[(&[(&str, &str)], &str)] = &[
        (&[("key", "'a'"), ("path", "'/v1/../x'")], "invalid path"),
        (&[("key", "'b'"), ("path", "'/v1/x#y'")], "invalid path"),
        (&[("key", "'c'"), ("headers", secret)], "authorization carries a secret"),
        (&[("key", "'d'"), ("headers", r#"'{"X A": "hunter2"}'"#)], "HTTP has no header of such a name"),
        (
            &[("key", "'e'"), ("headers", r#"'{"X-A": "hunter2\nX-B: 1"}'"#)],
            "x-a: a header cannot carry this value",
        ),
        (
            &[("key", "'f'"), ("headers", r#"'{"X-A": {"hunter2": 1}}'"#)],
            "the value of \"X-A\" must be a text",
        ),
        (&[("key", "'g'"), ("headers", r#"'{"Idempotency-Key": "hunter2"}'"#)], "is set by the client"),
        (&[("key", "'h'"), ("body", "(SELECT body FROM large)")], "18000000 bytes are over the limit"),
        (&[("key", "'i'"), ("redact", "'[1]'")], "redact: it must be a JSON array of names"),
        (&[("key", "'j'"), ("redact", "'[\"\"]'")], "a field's name must not be empty"),
        (&[("key", "'k'"), ("retention_ms", "1")], "invalid retention"),
        (&[("key", "'l'"), ("supersedes", "'l'")], "a call cannot supersede its own key"),
        (&[("key", "'m'"), ("supersedes", "'nobody'")], "key nobody cannot be started over"),
        (
            &[("key", "'order-7/charge'"), form, ("body", "'amount=9'")],
            "the key already belongs to another request",
        ),
        (
            &[
                ("key", "'n'"),
                ("method", "'--'"),
                ("path", "'/v1/x'"),
                ("content_type", "'a\nb'"),
                ("body", "'x'"),
            ],
            "content-type",
        ),
    ];
    let sent = shop.fake.ledger().count();
    for (nth, (columns, _)) in bad.iter().enumerate() {
        shop.sql(&row(columns));
        shop.place(100 + nth as u64);
    }
    shop.deliver().await;
    assert_eq!(shop.fake.ledger().count() - sent, bad.len(), "what is between them went on");
    let rejected = shop.rejected().await;
    assert_eq!((rejected.len(), shop.waiting()), (bad.len(), 0));
    for (row, (columns, why)) in rejected.iter().zip(bad) {
        assert!(row.why.contains(why), "{columns:?}: {}", row.why);
        assert!(!format!("{row:?}").contains("hunter2"), "{row:?}");
        assert!(row.vendor == "stripe" && row.at <= shop.clock.wall(), "{row:?}");
    }
    let stats = shop.letters().stats().await.expect("a store");
    assert_eq!(
        (stats.outbox.len(), stats.outbox[0].waiting, stats.outbox[0].rejected),
        (1, 0, bad.len() as u64)
    );
    assert_eq!(stats.outbox[0].oldest, None);
    // The operation whose key was used is as it was.
    assert_eq!(shop.charge(7).send().await.expect("it is done").obtained(), Obtained::Replayed);
    shop.deliver().await;
    assert_eq!(shop.rejected().await, rejected, "nobody looks at them again");
}

/// SQLite keeps any bytes as a text, such as Latin-1 of a script. Such a row is kept aside like any other that is malformed,
/// and so is one in whose name nobody delivers.
#[tokio::test]
async fn a_text_that_is_not_utf_8_is_rejected_and_the_rest_goes_on() {
    let shop = Shop::open();
    // A place on the Champs-\u{c9}lys\u{e9}es, in each column that the checks let through.
    let bad = [
        ("path", "CAST(x'2F76312FC96C7973E96573' AS TEXT)"),
        ("headers", "CAST(x'7B22582D41223A22E9227D' AS TEXT)"),
        ("content_type", "CAST(x'746578742FE9' AS TEXT)"),
        ("redact", "CAST(x'5B22E9225D' AS TEXT)"),
    ];
    for (nth, (column, text)) in bad.into_iter().enumerate() {
        let key = format!("'{column}'");
        shop.sql(&row(&[("key", &key), (column, text), ("body", "'x'")]));
        shop.place(100 + nth as u64);
    }
    shop.sql(&row(&[("key", "'vendor'"), ("vendor", "CAST(x'E9' AS TEXT)")]));
    shop.deliver().await;
    assert_eq!((shop.fake.ledger().count(), shop.waiting()), (bad.len(), 1), "what is between them went on");
    let rejected = shop.rejected().await;
    assert_eq!(rejected.len(), bad.len());
    for (row, (column, _)) in rejected.iter().zip(bad) {
        assert!(row.why.contains(&format!("{column}: it is not UTF-8")), "{column}: {}", row.why);
    }
    let vendors: Vec<_> =
        shop.letters().stats().await.expect("a store").outbox.into_iter().map(|tally| tally.vendor).collect();
    assert_eq!(vendors, ["stripe", "\u{fffd}"]);
}

/// Its key was not used up: once somebody has mended the row and put it back, it is an operation like any other.
#[tokio::test]
async fn a_row_that_is_mended_and_put_back_is_admitted() {
    let shop = Shop::open();
    shop.sql(CHARGE);
    shop.sql(r#"UPDATE steadfast_outbox SET headers = '{"Cookie": "a=1"}'"#);
    shop.deliver().await;
    assert_eq!((shop.rejected().await.len(), shop.fake.ledger().count()), (1, 0));
    shop.sql("UPDATE steadfast_outbox SET headers = '{}', rejected_at_ms = NULL, rejected = NULL");
    shop.deliver().await;
    assert_eq!((shop.rejected().await.len(), shop.fake.ledger().count()), (0, 1));
    assert_eq!(shop.charge(42).send().await.expect("it is done").obtained(), Obtained::Replayed);
}

#[tokio::test]
async fn a_row_that_starts_over_closes_the_old_operation() {
    let shop = Shop::open();
    let old = shop.charge(42).after(Duration::from_secs(60)).enqueue().await.expect("it is recorded");
    old.cancel("the amount was wrong").await.expect("nobody sends it");
    let form = ("content_type", "'application/x-www-form-urlencoded'");
    let body = ("body", "'amount=900&currency=usd'");
    shop.sql(&row(&[("key", "'order-42/again'"), ("supersedes", "'order-42/charge'"), form, body]));
    shop.deliver().await;
    assert_eq!((shop.rejected().await.len(), shop.fake.ledger().count()), (0, 1));
    let shown = shop.operations().await.into_iter().find(|it| it.id == *old.id()).expect("it is there");
    let said = shown.resolved.expect("a word").resolution;
    assert!(matches!(said, Resolution::Superseded { .. }), "{said}");
}

/// Nobody's client here: it waits, somebody sees that it does, and the client that comes later finds it.
#[tokio::test]
async fn a_row_of_an_account_without_a_client_waits_and_is_counted() {
    let shop = Shop::open();
    for (name, column) in [("namespace", "'prod'"), ("vendor", "'postmark'"), ("account", "'live'")] {
        shop.sql(&row(&[("key", "'k'"), (name, column)]));
    }
    shop.sql(&row(&[("key", "'k'"), ("account", "'test>acct_1'")]));
    shop.deliver().await;
    assert_eq!((shop.waiting(), shop.rejected().await.len(), shop.operations().await.len()), (4, 0, 0));
    let outbox = shop.letters().stats().await.expect("a store").outbox;
    let names: Vec<String> = outbox
        .iter()
        .map(|it| format!("{}/{}/{} {} {}", it.namespace, it.vendor, it.account, it.waiting, it.rejected))
        .collect();
    let expected = [
        "default/postmark/test 1 0",
        "default/stripe/live 1 0",
        "default/stripe/test>acct_1 1 0",
        "prod/stripe/test 1 0",
    ];
    assert_eq!(names, expected);
    assert!(outbox.iter().all(|it| it.oldest.is_some()));
}

/// Whoever wrote the row had another host in mind: a charge of the staging shop is not to be made for real.
#[tokio::test]
async fn a_row_that_was_written_for_another_host_is_rejected() {
    let shop = Shop::open();
    shop.place(42);
    shop.sql("UPDATE steadfast_outbox SET origin = 'https://stripe.staging.example'");
    shop.sql(&format!(
        "{CHARGE}; UPDATE steadfast_outbox SET key = 'other', origin = 'no url' WHERE number = 2"
    ));
    shop.deliver().await;
    let rejected = shop.rejected().await;
    assert_eq!((rejected.len(), shop.fake.ledger().count(), shop.operations().await.len()), (2, 0, 0));
    let expected = "the row was written for https://stripe.staging.example, and this client calls ";
    assert!(rejected[0].why.contains(expected), "{}", rejected[0].why);
    // A former host of the vendor's is its own.
    shop.sql("UPDATE steadfast_outbox SET rejected_at_ms = NULL, rejected = NULL");
    let moved = steadfast::Client::builder(steadfast::vendor::Stripe::new("sk_test_123"))
        .store(std::sync::Arc::clone(&shop.store))
        .clock(shop.clock.clone())
        .transport(shop.fake.transport())
        .former_base_url("https://stripe.staging.example")
        .build()
        .expect("a client");
    super::bench::deliver(&moved).await;
    assert_eq!((shop.rejected().await.len(), shop.fake.ledger().count()), (1, 1));
}

/// A path of SQL's is below the base URL, however it looks; and no header leads elsewhere.
#[tokio::test]
async fn a_row_of_sql_names_no_host() {
    let shop = Shop::open();
    let network = steadfast::testkit::ScriptedTransport::new().always(steadfast::transport::Answer::new(
        http::StatusCode::OK,
        http::HeaderMap::new(),
        "{}",
    ));
    let setup = support::rig::Rig::of(steadfast::vendor::Stripe::new("sk_test_123")).network(network.clone());
    let stripe = setup.store(std::sync::Arc::clone(&shop.store)).clock(&shop.clock).client();
    let paths = [
        "//evil.example/x",
        "/@evil.example/x",
        "/\\evil.example/x",
        "/:80@evil.example",
        "/x?y=//evil.example",
    ];
    for (nth, path) in paths.iter().enumerate() {
        shop.sql(&row(&[("key", &format!("'p-{nth}'")), ("path", &format!("'{path}'"))]));
    }
    for (nth, path) in ["https://evil.example/x", "@evil.example/x", "evil.example"].iter().enumerate() {
        let sql = row(&[("key", &format!("'q-{nth}'")), ("path", &format!("'{path}'"))]);
        assert!(shop.connection().execute_batch(&sql).is_err(), "{path}");
    }
    shop.sql(&row(&[("key", "'host'"), ("headers", "'{\"Host\": \"evil.example\"}'")]));
    super::bench::deliver(&stripe).await;
    let sent = network.requests();
    assert_eq!((sent.len(), shop.rejected().await.len()), (paths.len(), 1));
    for request in sent {
        assert_eq!(request.url.origin().ascii_serialization(), "https://api.stripe.com", "{}", request.url);
        assert_eq!(request.url.username(), "");
    }
}
