//! Operators' actions on dead letters, and their errors.

use std::sync::Arc;
use std::time::Duration;

use steadfast::clock::Clock;
use steadfast::dead_letter::{Change, DeadLetters};
use steadfast::http::Method;
use steadfast::operation::record::{Filter, Forbidden, Phase};
use steadfast::operation::{Key, OperationId, Scope};
use steadfast::policy::Backoff;
use steadfast::store::Store;
use steadfast::testkit::{ScriptedTransport, TestClock};
use steadfast::transport::SendErrorKind;
use steadfast::vendor::{Postmark, Stripe, Vendor};
use steadfast::{Call, Client, Disposition, Effect};
use tempfile::TempDir;

use support::rig::{Rig, plain};
use support::stores::stores;

/// A store, and what clients of it have in common.
struct Bench {
    store: Arc<dyn Store>,
    clock: TestClock,
    network: ScriptedTransport,
    place: TempDir,
}

impl Bench {
    fn each() -> [Bench; 2] {
        let (clock, network) = (TestClock::auto, ScriptedTransport::new);
        stores().map(|(store, place)| Bench { store, clock: clock(), network: network(), place })
    }

    fn client(&self, namespace: &str, vendor: impl Vendor) -> Client {
        let setup = Rig::of(vendor).policy(plain().backoff(Backoff::none())).namespace(namespace);
        setup.store(Arc::clone(&self.store)).clock(&self.clock).network(self.network.clone()).client()
    }

    fn letters(&self, client: &Client) -> DeadLetters {
        DeadLetters::new(Arc::clone(&self.store)).with_client(client).with_clock(self.clock.clone())
    }

    fn next_fails(&self, how: SendErrorKind) {
        let _ = self.network.clone().fail(how);
    }

    fn next_finds_nothing(&self) {
        let _ = self.network.clone().json(200, serde_json::json!({"TotalCount": 0, "Messages": []}));
    }

    fn next_pays(&self, id: &str) {
        let _ = self.network.clone().json(200, serde_json::json!({ "id": id }));
    }

    fn sent(&self) -> usize {
        self.network.requests().len()
    }
}

fn pay(client: &Client, key: &str) -> Call {
    client.post("/v1/quotes").key(key).form(&[("amount", "1000")])
}

fn named(account_path: &str, key: &str) -> OperationId {
    OperationId::new(
        Scope::from_stored(format!("{account_path}/POST /v1/quotes")),
        Key::new(key).expect("a key"),
    )
}

fn signed() -> Change {
    Change::by("ada").because("ticket 7")
}

/// Finding E1.
#[tokio::test]
async fn a_letter_that_was_started_over_cannot_be_redriven_too() {
    for bench in Bench::each() {
        let stripe = bench.client("prod", Stripe::new("sk_test_1"));
        let letters = bench.letters(&stripe);
        bench.next_fails(SendErrorKind::Connect);
        let error = pay(&stripe, "order-42").send().await.expect_err("never sent");
        assert!(error.is_dead_letter() && error.effect() == Effect::None, "{error}");
        // The action of the recipes.
        bench.next_pays("po_1");
        pay(&stripe, "order-42/2").supersedes("order-42").send().await.expect("sent");
        assert_eq!(bench.sent(), 2);
        // The action of the operators' page for every letter without effect.
        let none = Filter { effect: Some(Effect::None), ..Filter::default() };
        let redriven = letters.redrive_all(&none, &Change::by("ada")).await.expect("works");
        assert_eq!((redriven.matched, redriven.done), (0, 0));
        let old = named("prod/stripe/test", "order-42");
        let by_name = letters.redrive(std::slice::from_ref(&old), &Change::by("ada")).await.expect("works");
        assert_eq!(by_name.why_held_back[0].1, Forbidden::Resolved);
        stripe.recover(10).await.expect("works");
        assert_eq!(bench.sent(), 2, "one payment was sent");
        let shown = letters.show(&old).await.expect("is there");
        let answer = shown.summary.resolved.expect("closed").resolution;
        assert_eq!(answer.to_string(), "started over as key order-42/2");
        let new = letters.show(&named("prod/stripe/test", "order-42/2")).await.expect("is there");
        assert_eq!(new.predecessor, Some(old.key.clone()));
        // The old key itself is not sent again either.
        assert!(pay(&stripe, "order-42").send().await.expect_err("closed").is_dead_letter());
        assert_eq!(bench.sent(), 2);
    }
}

/// Finding E1.
#[tokio::test]
async fn an_operation_of_unknown_effect_cannot_be_started_over() {
    for bench in Bench::each() {
        let stripe = bench.client("prod", Stripe::new("sk_test_1"));
        bench.next_fails(SendErrorKind::Reset);
        let unsure = pay(&stripe, "order-42").send().await.expect_err("lost");
        assert_eq!(unsure.effect(), Effect::Unknown);
        let again = || pay(&stripe, "order-42/2").supersedes("order-42").send();
        let error = again().await.expect_err("in the way");
        assert!(error.is_predecessor_in_the_way());
        assert_eq!(error.code(), "CONFLICT.idempotency.predecessor");
        assert_eq!((error.effect(), error.disposition()), (Effect::Unknown, Disposition::AwaitsOperator));
        // Scheduled again, it is still an obstacle, and the error has its due time.
        let letters = bench.letters(&stripe);
        let old = named("prod/stripe/test", "order-42");
        letters.redrive(std::slice::from_ref(&old), &Change::by("ada")).await.expect("works");
        let error = again().await.expect_err("in the way");
        assert!(matches!(error.disposition(), Disposition::Continues { at: Some(_) }), "{error}");
        assert!(error.retry_at().is_some());
        // Once it succeeded, the caller's error reports that.
        bench.next_pays("po_1");
        assert_eq!(stripe.recover(10).await.expect("works").succeeded, 1);
        let error = again().await.expect_err("in the way");
        assert_eq!((error.effect(), error.disposition()), (Effect::Applied, Disposition::Ended));
        assert_eq!(bench.sent(), 2, "nothing under the new key");
        assert_eq!(bench.store.get(&named("prod/stripe/test", "order-42/2")).await.expect("works"), None);
    }
}

/// Finding E1.
#[tokio::test]
async fn a_call_names_both_keys() {
    let [bench, _] = Bench::each();
    let stripe = bench.client("prod", Stripe::new("sk_test_1"));
    for call in [
        stripe.post("/v1/quotes").supersedes("a"),
        stripe.post("/v1/quotes").key("a").supersedes("a"),
        stripe.post("/v1/quotes").key("b").supersedes(""),
        stripe.get("/v1/quotes").supersedes("a"),
    ] {
        assert_eq!(call.send().await.expect_err("refused").code(), "VALIDATION.key");
    }
    assert_eq!(bench.sent(), 0);
}

/// Finding D16.
#[tokio::test]
async fn an_old_accounts_operation_is_adopted_with_its_wire_key() {
    for bench in Bench::each() {
        let before = bench.client("prod", Stripe::new("sk_test_1"));
        bench.next_fails(SendErrorKind::Reset);
        let lost = pay(&before, "order-1").send().await.expect_err("lost");
        bench.letters(&before).redrive_all(&Filter::default(), &Change::by("ada")).await.expect("due");
        bench.next_pays("po_2");
        pay(&before, "order-2").send().await.expect("sent");
        let wire_key = lost.wire_key().expect("sent").to_owned();

        let after = bench.client("prod", Stripe::new("sk_test_1").account("acct_1"));
        let letters = bench.letters(&after);
        assert_eq!(after.recover(10).await.expect("works").taken, 0, "it is another name's");
        let unreached = letters.unreached().await.expect("works");
        assert_eq!(unreached.len(), 1);
        let group = &unreached[0];
        assert_eq!((&group.account[..], group.phase, group.count), ("prod/stripe/test", Phase::Scheduled, 1));

        let (old, new, how) = ("prod/stripe/test", "prod/stripe/test:acct_1", signed());
        let counted = letters.adopt(old, new, &how.clone().dry_run()).await.expect("works");
        assert_eq!((counted.matched, counted.done, counted.held_back), (2, 2, 0));
        assert_eq!(letters.unreached().await.expect("works").len(), 1, "nothing was changed");
        let adopted = letters.adopt(old, new, &how).await.expect("works");
        assert_eq!((adopted.matched, adopted.done), (2, 2));
        assert_eq!(letters.unreached().await.expect("works"), []);
        assert_eq!(letters.adopt(old, new, &how).await.expect("works").matched, 0, "it is done");

        // A process with the old name neither delivers it nor sends the key anew.
        let sent = bench.sent();
        assert_eq!(before.recover(10).await.expect("works").taken, 0);
        let result = pay(&before, "order-1").send().await.expect_err("it is another name's by now");
        assert_eq!(
            (result.effect(), result.disposition()),
            (Effect::Unknown, Disposition::Continues { at: None })
        );
        assert_eq!(bench.sent(), sent);
        // The new name's client delivers it, under the same wire key.
        bench.next_pays("po_1");
        assert_eq!(after.recover(10).await.expect("works").succeeded, 1);
        let last = bench.network.requests().pop().expect("sent");
        assert_eq!(last.headers["idempotency-key"], wire_key.as_str());
        // The service's own calls under the new name are answered from the record.
        for key in ["order-1", "order-2"] {
            pay(&after, key).send().await.expect("replayed");
        }
        assert_eq!(bench.sent(), sent + 1);
        let other = after.post("/v1/quotes").key("order-1").form(&[("amount", "2")]).send().await;
        assert!(other.expect_err("another request").is_key_reused());
    }
}

/// Finding D16.
#[tokio::test]
async fn an_adoption_holds_back_operations_that_could_be_sent_twice() {
    for bench in Bench::each() {
        let before = bench.client("old", Stripe::new("sk_test_1"));
        let after = bench.client("new", Stripe::new("sk_test_1"));
        for client in [&before, &after] {
            bench.next_fails(SendErrorKind::Reset);
            pay(client, "order-1").send().await.expect_err("lost");
        }
        let letters = bench.letters(&after);
        let (old, new, signed) = ("old/stripe/test", "new/stripe/test", signed());
        for how in [signed.clone().dry_run(), signed.clone()] {
            let adopted = letters.adopt(old, new, &how).await.expect("works");
            assert_eq!((adopted.matched, adopted.done, adopted.held_back), (1, 0, 1));
            assert_eq!(adopted.why_held_back[0].1, Forbidden::NameTaken);
        }
        // Another vendor's client would add its secret to the request.
        bench.next_fails(SendErrorKind::Reset);
        pay(&before, "order-2").send().await.expect_err("lost");
        let elsewhere = Stripe::new("sk_test_1").base_url("https://other.test");
        let letters = bench.letters(&bench.client("new", elsewhere));
        let adopted = letters.adopt(old, new, &signed).await.expect("works");
        assert_eq!(adopted.why_held_back[0].1, Forbidden::Elsewhere);
        for (from, to) in [
            ("old/stripe/test", "old/stripe/test"),
            ("old/stripe", "new/stripe/test"),
            ("old/stripe/test", "new/stripe/live"),
        ] {
            let error = letters.adopt(from, to, &signed).await.expect_err("no such name");
            assert!(error.to_string().contains("invalid"), "{error}");
        }
    }
}

/// Finding E6.
#[tokio::test]
async fn a_lookup_is_logged_and_a_redrive_keeps_the_log() {
    for bench in Bench::each() {
        let postmark = bench.client("prod", Postmark::new("token"));
        let letters = bench.letters(&postmark);
        let mail =
            serde_json::json!({"From": "shop@example.com", "To": "ann@example.com", "TextBody": "Paid."});
        // A lookup that fails is tried again, so only an answer that proves nothing makes a dead letter.
        bench.next_fails(SendErrorKind::Reset);
        bench.next_fails(SendErrorKind::Connect);
        (0..10).for_each(|_| bench.next_finds_nothing());
        let error = postmark.post("/email").key("order-1").json(&mail).send().await.expect_err("lost");
        assert_eq!(error.attempts().len(), 1, "a lookup is no attempt");
        let scope = Scope::from_stored(error.operation().expect("keyed"));
        let id = OperationId::new(scope, Key::new("order-1").expect("a key"));
        let before = letters.show(&id).await.expect("is there").attempts;
        assert!(before.len() > 1 && before.iter().skip(1).all(|report| report.is_lookup()), "{before:?}");
        assert_eq!(before[1].effect, Effect::Unknown);
        assert!(before[1].failure.is_some(), "why it could not tell");

        let dry =
            letters.redrive(std::slice::from_ref(&id), &Change::by("ada").dry_run()).await.expect("works");
        assert_eq!((dry.done, dry.looked_up), (1, 1), "it is looked up before anything is sent");
        letters.redrive(std::slice::from_ref(&id), &Change::by("ada")).await.expect("works");
        // Clocks differ by up to five minutes, so that the settle time begins anew.
        for seconds in [1, 300] {
            bench.clock.advance(Duration::from_secs(seconds));
            postmark.recover(10).await.expect("works");
        }
        let shown = letters.show(&id).await.expect("is there");
        assert_eq!(shown.attempts[..before.len()], before[..], "the old evidence stays");
        let redriven_at = shown.audit[0].at;
        let new = &shown.attempts[before.len()..];
        assert!(new.iter().all(|report| report.started_at >= redriven_at));
        assert!(!new.is_empty() && new.iter().all(|report| report.is_lookup()), "{new:?}");
        assert!(bench.clock.wall() > redriven_at);
    }
}

/// Finding D15.
#[tokio::test]
async fn a_redrive_does_not_overwrite_a_later_write_without_overwrite() {
    for bench in Bench::each() {
        let stripe = bench.client("prod", Stripe::new("sk_test_1"));
        let letters = bench.letters(&stripe);
        for (key, failure) in [("price-1", SendErrorKind::Connect), ("price-2", SendErrorKind::Reset)] {
            bench.next_fails(failure);
            let put = stripe.request(Method::PUT, "/v1/prices/1").key(key).form(&[("price", "10")]);
            put.send().await.expect_err("dies");
        }
        bench.next_fails(SendErrorKind::Connect);
        let put = stripe.request(Method::PUT, "/v1/prices/1").key("price-3").form(&[("price", "10")]);
        put.header("If-Match", "\"7\"").send().await.expect_err("dies");
        let all = Filter::default();
        let redriven = letters.redrive_all(&all, &Change::by("ada")).await.expect("works");
        assert_eq!((redriven.matched, redriven.done), (3, 1), "the vendor refuses a condition that is over");
        assert!(redriven.why_held_back.iter().all(|(_, why)| *why == Forbidden::Overwrites), "{redriven:?}");
        let how = Change::by("ada").overwrite();
        let redriven = letters.redrive_all(&all, &how).await.expect("works");
        assert_eq!(redriven.done, 0, "without a reason");
        let redriven = letters.redrive_all(&all, &how.because("no later price")).await.expect("works");
        assert_eq!((redriven.done, redriven.forced), (2, 0));
    }
}

/// Finding D16.
#[cfg(unix)]
#[tokio::test]
async fn a_deleted_or_replaced_store_file_is_noticed_and_nothing_is_sent() {
    for replace in [false, true] {
        let [_, bench] = Bench::each();
        let stripe = bench.client("prod", Stripe::new("sk_test_1"));
        bench.next_pays("po_1");
        pay(&stripe, "order-1").send().await.expect("sent");
        assert_eq!(stripe.recover(10).await.expect("the file is there").taken, 0);
        let path = bench.place.path().join("calls.db");
        let file = rusqlite::Connection::open(&path).expect("opens");
        let row = pay(&stripe, "order-3").sequence("customer-7");
        row.blocking_enqueue_in(&file).expect("it is written");
        drop(file);
        if replace {
            std::fs::copy(&path, path.with_extension("copy")).expect("copies");
            std::fs::rename(path.with_extension("copy"), &path).expect("replaces");
        } else {
            std::fs::remove_file(&path).expect("deletes");
        }
        let error = stripe.recover(10).await.expect_err("it is another file");
        assert!(error.is_store() && format!("{error:#}").contains("was deleted or replaced"), "{error:#}");
        let error = pay(&stripe, "order-2").send().await.expect_err("it would be on no record");
        assert!(error.is_store(), "{error:#}");
        let behind_a_row = pay(&stripe, "order-4").sequence("customer-7").enqueue().await;
        assert!(behind_a_row.expect_err("no process would find it").is_store());
        assert_eq!(bench.sent(), 1, "nothing is sent");
    }
}
