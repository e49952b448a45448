//! Sequences: the operations that wait, and the one that holds them.

use serde_json::json;

use steadfast::Sequence;
use steadfast::testkit::ScriptedTransport;
use steadfast::transport::SendErrorKind;

use super::{NOW, TestDirectory};

#[tokio::test]
async fn a_held_sequence_names_the_dead_letter_that_holds_it() {
    let place = TestDirectory::fresh();
    let stripe = place.stripe(NOW, &ScriptedTransport::new().fail(SendErrorKind::Connect));
    for (key, sequence) in [
        ("order-1", Sequence::new("customer-7")),
        ("order-2", Sequence::new("customer-7").skip_dead_letters()),
    ] {
        let quote = stripe.post("/v1/quotes").key(key).form(&[("amount", "1")]).sequence(sequence);
        quote.enqueue().await.expect("it is recorded");
    }
    assert_eq!(place.json(0, &["stats"])["held_sequences"], json!([]));
    stripe.recover(9).await.expect("works");

    let name = |key: &str| format!("default/stripe/test/POST /v1/quotes key {key}");
    let stats = place.run(&["stats"]).ended(0);
    assert!(stats.ends_with(&format!("held: sequence customer-7, by {}\n", name("order-1"))), "{stats}");
    let stats = place.json(0, &["stats"]);
    assert_eq!(
        (&stats["held_sequences"][0]["key"], &stats["held_sequences_more"]),
        (&json!("order-1"), &json!(false))
    );
    let letters = place.json(0, &["dead-letters", "list", "--sequence", "customer-7"]);
    assert_eq!(letters["letters"][0]["sequence"]["position"], 1);
    let none = place.json(0, &["dead-letters", "list", "--sequence", "customer-8"]);
    assert_eq!(none["letters"], json!([]));

    let holds = place.run(&["show", "order-1"]).ended(0);
    let expected = "\nsequence: customer-7, position 1; it holds the sequence: those behind it wait\n          until it is";
    assert!(holds.contains(expected), "{holds}");
    let waits = place.run(&["show", "order-2"]).ended(0);
    let behind = format!(
        "\nsequence: customer-7, position 2, skips dead letters\nwaits:    behind {}, dead\n",
        name("order-1")
    );
    assert!(waits.contains(&behind), "{waits}");
    let shown = place.json(0, &["show", "order-2"]);
    assert_eq!(shown["sequence"]["behind"]["operation"], name("order-1"));
    assert_eq!(place.json(0, &["show", "order-1"])["sequence"]["behind"], json!(null));

    place.run(&["dead-letters", "resolve", "order-1", "--not-applied", "--why", "never sent"]).ended(0);
    assert_eq!(place.json(0, &["stats"])["held_sequences"], json!([]));
    assert_eq!(place.json(0, &["show", "order-2"])["sequence"]["behind"], json!(null));
}
