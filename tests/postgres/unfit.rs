//! Values that Postgres cannot store or index, and databases that cannot store every request.

use std::sync::Arc;

use support::server::{self};

use steadfast::store::{Store, StoreErrorKind};
use steadfast::testkit::ScriptedTransport;
use steadfast::{Client, Effect};
use steadfast_core::store::outbox::Outbox as _;

use super::driven::fresh_schema;
use super::{opened, refused, stripe};

/// A scope of 4 KiB: an entry of an index has a third of a page.
fn long_path() -> String {
    // Without repetitions, which would be compressed.
    let mut state = 32_u64;
    let letters = (0..4_096).map(|_| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        char::from(b'a' + ((state >> 33) % 26) as u8)
    });
    format!("/v1/{}", letters.collect::<String>())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_that_cannot_be_stored_has_no_effect_and_blocks_no_other() {
    let Some(server) = server::shared() else { return };
    let network = ScriptedTransport::new().always(answer());
    let store: Arc<dyn Store> = Arc::new(opened(&server.url(&fresh_schema("unfit"))).expect("it opens"));
    let stripe = stripe(store, &network);
    let path = long_path();
    let call = |path: &str, key: &str| stripe.post(path).key(key).form(&[("amount", "1")]).send();
    let others: Vec<_> = (0..8).map(|nth| format!("order-{nth}")).collect();
    // They share a batch.
    let (unfit, fit) = tokio::join!(
        call(&path, "unfit"),
        futures(others.iter().map(|key| call("/v1/charges", key)).collect())
    );
    let error = unfit.expect_err("it cannot be claimed");
    assert_eq!(error.effect(), Effect::None, "{error:#}");
    assert!(fit.into_iter().all(|result| result.is_ok()), "the others are held");
    assert_eq!(network.requests().len(), others.len());
}

async fn futures<F: Future>(all: Vec<F>) -> Vec<F::Output> {
    let mut result = Vec::new();
    for one in all {
        result.push(one.await);
    }
    result
}

fn answer() -> steadfast::transport::Answer {
    let body = r#"{"id":"ch_1","object":"charge"}"#;
    let mut headers = http::HeaderMap::new();
    headers.insert("content-type", http::HeaderValue::from_static("application/json"));
    headers.insert("request-id", http::HeaderValue::from_static("req_1"));
    steadfast::transport::Answer::new(http::StatusCode::OK, headers, body)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_row_that_cannot_be_stored_is_rejected_and_its_sequence_continues() {
    let Some(server) = server::shared() else { return };
    let schema = fresh_schema("unfit");
    let network = ScriptedTransport::new().always(answer());
    let store = Arc::new(opened(&server.url(&schema)).expect("it opens"));
    let stripe: Client = stripe(Arc::<steadfast::store::Postgres>::clone(&store), &network);
    let put = |path: &str, key: &str| {
        server.sql(&format!(
            "SELECT {schema}.enqueue_text('stripe', 'POST', '{path}', '{key}', 'amount=1', \
             'application/x-www-form-urlencoded', account => 'test', sequence => 's', on_dead_letter => 'skip')"
        ));
    };
    put(&long_path(), "unfit");
    put("/v1/charges", "behind");
    for _ in 0..3 {
        stripe.recover(10).await.expect("the store works");
    }
    let rejected = store.rejected(None, 10).await.expect("it may look").rows;
    let whys: Vec<_> = rejected.iter().map(|row| (row.key.as_str(), row.why.contains("54000"))).collect();
    assert_eq!(whys, [("unfit", true)], "{rejected:?}");
    assert_eq!(network.requests().len(), 1, "the one behind it is sent");
}

#[test]
fn a_database_whose_encoding_cannot_hold_every_request_is_refused() {
    let Some(server) = server::shared() else { return };
    for (encoding, opens) in [("LATIN1", false), ("EUC_JP", false), ("SQL_ASCII", true)] {
        let name = encoding.to_lowercase();
        server.sql(&format!(
            "CREATE DATABASE {name} ENCODING '{encoding}' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0"
        ));
        let url = server.url_as("postgres", &name, "shop");
        if opens {
            opened(&url).expect(encoding);
        } else {
            let text = refused(&url, StoreErrorKind::Unsupported);
            assert!(text.contains(encoding) && text.contains("UTF8"), "{text}");
        }
    }
}

/// Keys and sequences are compared byte by byte, whatever the database's collation holds for equal.
#[test]
fn outbox_texts_ignore_the_databases_collation() {
    let Some(server) = server::shared() else { return };
    let schema = fresh_schema("collated");
    opened(&server.url(&schema)).expect("it opens");
    let others = format!(
        "SELECT string_agg(attname, ',') FROM pg_attribute a JOIN pg_collation c ON c.oid = a.attcollation \
         WHERE a.attrelid = '{schema}.outbox'::regclass AND a.attnum > 0 AND c.collname <> 'C'"
    );
    assert_eq!(server.sql(&others), "");
}
