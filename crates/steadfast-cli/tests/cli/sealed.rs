//! A store that the service seals.

use std::sync::Arc;

use serde_json::json;

use steadfast::policy::Backoff;
use steadfast::store::{SealKeys, Sqlite};
use steadfast::testkit::ScriptedTransport;
use steadfast::transport::SendErrorKind;
use steadfast::vendor::Stripe;

use super::TestDirectory;
use support::on_disk;
use support::rig::{Rig, plain};

/// A place with one dead letter, `order-1`, sealed with the key of this byte.
async fn sealed(byte: u8) -> TestDirectory {
    let place = TestDirectory::fresh();
    let store = Sqlite::builder(place.path("calls.db")).seal(SealKeys::new([byte; 32])).open();
    let store = Arc::new(store.expect("opens"));
    let network = ScriptedTransport::new().fail(SendErrorKind::Connect);
    let setup = Rig::of(Stripe::new("sk_test_secret")).policy(plain().backoff(Backoff::none()));
    let client = setup.store(Arc::clone(&store)).network(network).client();
    let form = [("amount", "1000"), ("receipt_email", "ada@example.test"), ("card[number]", "4242")];
    let call = client.post("/v1/quotes").key("order-1").redact(["receipt_email", "CARD"]).form(&form);
    assert!(call.send().await.expect_err("never sent").is_dead_letter());
    drop(client);
    // All of it is in the file from here on.
    Arc::into_inner(store).expect("no client is left").close().await;
    place
}

fn hex(byte: u8) -> String {
    format!("{byte:02x}").repeat(32)
}

#[tokio::test]
async fn a_sealed_store_is_read_with_the_services_keys() {
    let mut place = sealed(1).await;
    place.seal_keys = Some(format!("{}, {}", hex(2), hex(1)));
    let shown = place.json(0, &["dead-letters", "show", "order-1", "--bodies", "--why", "ticket 7"]);
    assert_eq!(
        shown["request"]["body"],
        json!({"text": "amount=1000&receipt_email=%5Bredacted%5D&card%5Bnumber%5D=%5Bredacted%5D"}),
        "and what the call redacted stays redacted"
    );
    assert_eq!(place.json(0, &["stats"])["totals"]["dead"], 1);
}

#[tokio::test]
async fn every_command_redacts_a_calls_fields() {
    let mut place = sealed(1).await;
    place.seal_keys = Some(hex(1));
    for command in [
        &["show", "order-1"][..],
        &["show", "order-1", "--json"],
        &["dead-letters", "show", "order-1"],
        &["dead-letters", "show", "order-1", "--json"],
        &["dead-letters", "export"],
    ] {
        let text = place.run(&[command, &["--bodies", "--why", "ticket 7"]].concat()).ended(0);
        assert!(text.contains("amount=1000"), "{text}");
        assert!(!text.contains("example.test") && !text.contains("4242"), "{text}");
    }
}

#[tokio::test]
async fn a_sealed_store_without_its_key_is_refused_with_three_and_names_the_key() {
    let mut place = sealed(1).await;
    let before = on_disk::read(&place.path("calls.db"));
    let ids = format!("{:?}", SealKeys::new([1; 32]));
    let id = ids.trim_start_matches("SealKeys[").trim_end_matches(']');
    let problem = format!(
        "the store does not open: the file is sealed: 1 of its operations need the key {id}, which was not given; \
         give the service's keys in STEADFAST_SEAL_KEYS"
    );
    for keys in [None, Some(hex(2))] {
        place.seal_keys = keys;
        let result = place.run(&["stats"]);
        assert_eq!((result.code, result.err), (3, format!("steadfast: {problem}\n")));
        let error = place.json_error(3, &["dead-letters", "redrive", "order-1"]);
        assert_eq!(error, json!({"code": "store", "problem": problem}));
    }
    assert!(on_disk::read(&place.path("calls.db")) == before, "untouched");
}

#[tokio::test]
async fn invalid_keys_are_refused_with_two_and_not_repeated() {
    let mut place = sealed(1).await;
    for (keys, problem) in [
        (String::new(), "key 1: it is empty"),
        (format!("{},hunter2", hex(1)), "key 2: it is neither base64 nor hex"),
        (hex(1)[..60].to_owned(), "key 1: 45 bytes; a key is exactly 32 bytes"),
    ] {
        place.seal_keys = Some(keys);
        let result = place.run(&["stats"]);
        assert_eq!((result.code, result.err), (2, format!("steadfast: STEADFAST_SEAL_KEYS: {problem}\n")));
        assert_eq!(place.json_error(2, &["stats"])["code"], "usage");
    }
}

#[tokio::test]
async fn the_vendors_file_names_the_keys_of_the_store_that_it_names() {
    let mut place = sealed(1).await;
    place.seal_keys = Some(hex(2));
    let text = "store = 'sqlite:calls.db'\nseal_keys_env = 'SHOP_KEYS'\n[vendors.stripe]\nsecret_env = 'S'\n";
    std::fs::write(place.path("named.toml"), text).expect("writes");
    let show = ["--vendors", "named.toml", "show", "order-1"];
    let right = hex(1);
    assert!(place.run_as(&[("SHOP_KEYS", &right)], &show).ended(0).contains("order-1"));
    let unset = place.run_as(&[], &show);
    assert_eq!(unset.code, 2, "{}", unset.err);
    assert!(
        unset.err.contains("`seal_keys_env`: the environment variable SHOP_KEYS is not set"),
        "{}",
        unset.err
    );
    let wrong = place.run_as(&[("SHOP_KEYS", &hex(2))], &show);
    assert_eq!(wrong.code, 3, "{}", wrong.err);
    assert!(wrong.err.contains("the file is sealed"), "{}", wrong.err);
}

#[tokio::test]
async fn a_reseal_makes_the_older_key_needless() {
    let mut place = sealed(1).await;
    place.seal_keys = Some(format!("{}, {}", hex(2), hex(1)));
    let before = place.json(0, &["show", "order-1", "--bodies", "--why", "ticket 7"])["request"].clone();
    let counted = place.run(&["reseal", "--dry-run"]).ended(0);
    let expected = "1 operations are not sealed with the current key\n\
                    nothing was changed; to seal them: without --dry-run\n";
    assert_eq!(counted, expected);
    let resealed = place.run(&["reseal"]).ended(0);
    let expected = "1 operations were not sealed with the current key; 1 now are\n\
                    no operation on record needs an older key\n\
                    the store's free space may still hold the old bytes: --wipe rewrites the store\n";
    assert_eq!(resealed, expected);
    let none = json!({"dry_run": false, "matched": 0, "resealed": 0, "remaining": 0, "unreadable": 0,
        "why_unreadable": [], "wiped": true});
    assert_eq!(place.json(0, &["reseal", "--wipe"]), none);
    place.seal_keys = Some(hex(2));
    let after = place.json(0, &["show", "order-1", "--bodies", "--why", "ticket 7"])["request"].clone();
    assert_eq!(after, before);
    place.seal_keys = Some(hex(1));
    assert_eq!(place.run(&["stats"]).code, 3, "the older key alone");
}

#[tokio::test]
async fn a_rewrite_removes_the_old_bytes_of_resealed_rows() {
    let mut place = TestDirectory::fresh();
    place.lost("order-1", std::time::Duration::ZERO).await;
    let holds = |place: &TestDirectory| on_disk::holds(&place.path("calls.db"), "amount=1000&");
    place.seal_keys = Some(hex(1));
    let plain = holds(&place);
    place.run(&["reseal", "--wipe"]).ended(0);
    assert_eq!((plain, holds(&place)), (true, false));
    assert_eq!(place.run(&["reseal", "--wipe", "--dry-run"]).code, 2);
}

#[tokio::test]
async fn without_a_key_or_with_a_wrong_one_nothing_is_resealed() {
    let mut place = sealed(1).await;
    let before = on_disk::read(&place.path("calls.db"));
    for keys in [None, Some(hex(2))] {
        place.seal_keys = keys;
        assert_eq!(place.json_error(3, &["reseal"])["code"], "store");
        assert!(on_disk::read(&place.path("calls.db")) == before, "untouched");
    }
    let mut plain = TestDirectory::fresh();
    plain.lost("order-1", std::time::Duration::ZERO).await;
    let result = plain.run(&["reseal"]);
    let problem = "no key was given to seal with; give the service's keys in STEADFAST_SEAL_KEYS, or name their variable \
                   in the vendors file";
    assert_eq!((result.code, result.err), (3, format!("steadfast: {problem}\n")));
    // A row that was changed by a process without a key is reported, and does not block the others.
    let spoil = "UPDATE operation SET request = CAST(substr(request, 1, 40) || x'00' AS BLOB)";
    let file = rusqlite::Connection::open(place.path("calls.db")).expect("opens");
    file.execute_batch(spoil).expect("runs");
    place.seal_keys = Some(format!("{},{}", hex(2), hex(1)));
    let left = place.json(1, &["reseal"]);
    assert_eq!((&left["remaining"], &left["unreadable"]), (&json!(1), &json!(1)));
    assert_eq!(left["why_unreadable"][0]["key"], "order-1");
    plain.seal_keys = Some(hex(1));
    let text = place.run(&["reseal"]);
    assert_eq!(text.code, 1);
    assert!(
        text.out.contains("1 cannot be read, and stay unchanged:\nunreadable: default/stripe"),
        "{}",
        text.out
    );
}

/// A process that is killed between batches, again and again, beside a service that goes on writing.
#[allow(clippy::disallowed_methods, reason = "a real process is killed, and runs in real time")]
#[tokio::test]
async fn a_reseal_that_is_killed_is_completed_by_the_next() {
    use std::process::Stdio;
    use std::time::Duration;

    let mut place = TestDirectory::fresh();
    let keys = |current: u8, older: u8| SealKeys::new([current; 32]).with_older([older; 32]);
    let store = Arc::new(Sqlite::builder(place.path("calls.db")).seal(keys(1, 2)).open().expect("opens"));
    let network = ScriptedTransport::new().always(steadfast::transport::Answer::new(
        http::StatusCode::OK,
        http::HeaderMap::new(),
        "{\"id\":\"po_1\"}",
    ));
    let setup = Rig::of(Stripe::new("sk_test_secret")).policy(plain().without_rate());
    let client = setup.store(Arc::clone(&store)).network(network).client();
    let pay = async |key: String| client.post("/v1/quotes").key(key).form(&[("amount", "1000")]).send().await;
    for nth in 0..400 {
        pay(format!("order-{nth}")).await.expect("paid");
    }
    place.seal_keys = Some(format!("{},{}", hex(2), hex(1)));
    let mut killed = 0;
    for nth in 0..12_u64 {
        let mut process = place.command(&["--store", "calls.db", "reseal"]);
        let mut process = process.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("runs");
        // Real time: the other process runs in it. The records must hold at any time of the kill.
        tokio::time::sleep(Duration::from_millis(2 + 3 * nth)).await;
        pay(format!("more-{nth}")).await.expect("paid beside it");
        killed += u32::from(process.try_wait().expect("a process").is_none());
        process.kill().expect("killed, or gone already");
        process.wait().expect("gone");
    }
    assert!(killed > 0, "none was killed in time");
    drop(client);
    Arc::into_inner(store).expect("no client is left").close().await;
    assert_eq!(place.json(0, &["reseal"])["remaining"], 0);
    place.seal_keys = Some(hex(2));
    assert_eq!(place.json(0, &["stats"])["totals"]["succeeded"], 412);
    for key in ["order-0", "order-399", "more-11"] {
        let shown = place.json(0, &["show", key, "--bodies", "--why", "ticket 7"]);
        assert_eq!(shown["request"]["body"]["text"], "amount=1000", "{key}");
    }
}
