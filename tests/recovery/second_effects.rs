//! Second effects and untrue words: duplicates behind a miss, clocks that are set, letters that are started over.

use std::sync::Arc;
use std::time::Duration;

use http::{HeaderMap, Method, StatusCode};
use serde_json::json;
use steadfast::clock::{Clock as _, Timestamp};
use steadfast::operation::record::{Act, Action, Forbidden, Phase, Record, Resolution};
use steadfast::operation::{Key, OperationId, Scope};
use steadfast::policy::{Backoff, BreakerConfig};
use steadfast::store::Store;
use steadfast::testkit::{ScriptedTransport, TestClock};
use steadfast::transport::{Answer, SendErrorKind};
use steadfast::vendor::{BigCommerce, Postmark, Stripe, Vendor};
use steadfast::{Call, Client, Disposition, Effect, Error, Obtained, OnUnknown, Policy, Reply};
use tempfile::TempDir;

use support::rig::{Rig, plain, record, secs};
use support::stores::stores;

pub const DAY: Duration = Duration::from_secs(24 * 3600);

pub struct Bench {
    pub store: Arc<dyn Store>,
    pub network: ScriptedTransport,
    _place: TempDir,
}

impl Bench {
    pub fn each() -> [Bench; 2] {
        stores().map(|(store, place)| Bench { store, network: ScriptedTransport::new(), _place: place })
    }

    /// No gates, and a ladder of two waits without jitter.
    pub fn policy() -> Policy {
        let mut policy = plain();
        policy.backoff.steps = vec![secs(1); 2];
        policy
    }

    fn client(&self, vendor: impl Vendor, policy: Policy, clock: &TestClock) -> Client {
        self.in_namespace("prod", vendor, policy, clock)
    }

    pub fn in_namespace(&self, name: &str, vendor: impl Vendor, policy: Policy, clock: &TestClock) -> Client {
        let setup = Rig::of(vendor).policy(policy).namespace(name).clock(clock);
        setup.store(Arc::clone(&self.store)).network(self.network.clone()).client()
    }

    fn sent(&self, method: &Method) -> usize {
        self.network.requests().iter().filter(|request| request.method == *method).count()
    }

    async fn record(&self, key: &str) -> Record {
        record(&*self.store, key).await
    }

    pub async fn act(&self, id: &OperationId, action: Action, now: Timestamp) -> Result<Record, Forbidden> {
        let (by, why) = ("ada".to_owned(), "ticket 7".to_owned());
        self.store.act(id, Act { action, by, why, now, fence: None }).await.expect("works")
    }
}

fn product(client: &Client) -> Call {
    let body = json!({"name": "Mug", "type": "physical", "weight": 1, "price": 10});
    client.post("/v3/catalog/products").key("mug").json(&body)
}

fn pay(client: &Client, key: &str) -> Call {
    client.post("/v1/quotes").key(key).form(&[("amount", "1000")])
}

/// So long after the first 400 days.
pub fn at(after: Duration) -> TestClock {
    let clock = TestClock::auto();
    clock.set_wall(clock.wall().plus(400 * DAY).plus(after));
    clock
}

/// When the operation is due again, and that it is.
fn due(told: &Result<Reply, Error>) -> Timestamp {
    match told.as_ref().expect_err("postponed").disposition() {
        Disposition::Continues { at: Some(at) } => at,
        other => panic!("{other:?}"),
    }
}

/// The vendor had executed the first send, and showed it too late: to the lookup there was nothing. The second send
/// was put off, and whoever carried on knew nothing of the lookup. It took the duplicate for somebody else's and said
/// "refused, no effect" of a product that the call had made.
#[tokio::test]
async fn a_duplicate_after_a_miss_is_looked_up_again_by_whoever_carries_on() {
    for bench in Bench::each() {
        let clock = at(Duration::ZERO);
        let client = bench.client(BigCommerce::new("shop", "token"), Bench::policy(), &clock);
        let row = json!({"id": 7, "name": "Mug", "type": "physical", "weight": 1, "price": 10});
        let _ = bench
            .network
            .clone()
            .fail(SendErrorKind::Reset)
            .json(200, json!({"data": [], "meta": {}}))
            .json(429, json!({"status": 429, "title": "slow down"}))
            .header("x-rate-limit-time-window-ms", "30000")
            .header("retry-after", "3600")
            .json(409, json!({"status": 409, "title": "The product name is a duplicate"}))
            .json(200, json!({"data": [row], "meta": {}}));
        let told = product(&client).send().await;
        assert_eq!(told.as_ref().expect_err("postponed").effect(), Effect::None, "{told:?}");
        clock.advance(due(&told).since(clock.wall()));
        let reply = product(&client).send().await.expect("it was made by the first send");
        assert_eq!(reply.obtained(), Obtained::Reconciled);
        assert_eq!((bench.sent(&Method::POST), bench.sent(&Method::GET)), (3, 2));
    }
}

/// The same, of a letter that a person redrives: nothing shows what the first send did, so that nobody can tell.
#[tokio::test]
async fn a_duplicate_of_a_redriven_letter_is_not_said_to_be_without_effect() {
    for bench in Bench::each() {
        let clock = at(Duration::ZERO);
        let client = bench.client(BigCommerce::new("shop", "token"), Bench::policy(), &clock);
        let nothing = json!({"data": [], "meta": {}});
        let _ = bench.network.clone().fail(SendErrorKind::Reset).json(200, nothing.clone());
        let _ = (0..2).fold(bench.network.clone(), |network, _| network.fail(SendErrorKind::Connect));
        let letter = product(&client).send().await.expect_err("the ladder is spent");
        assert!(letter.is_dead_letter() && letter.effect() == Effect::None, "{letter}");
        let id = bench.record("mug").await.id;
        bench.act(&id, Action::Redrive { forced: false }, clock.wall()).await.expect("due");
        let duplicate = json!({"status": 409, "title": "The product name is a duplicate"});
        let _ = bench.network.clone().json(409, duplicate).always(Answer::new(
            StatusCode::OK,
            HeaderMap::new(),
            nothing.to_string(),
        ));
        let told = product(&client).send().await.expect_err("nobody can tell");
        assert_eq!((told.is_refused(), told.effect()), (false, Effect::Unknown), "{told}");
    }
}

/// A duplicate that meets the first send ever made is somebody else's, also where a gate had put that send off.
#[tokio::test]
async fn a_duplicate_of_what_was_never_in_doubt_is_refused() {
    for bench in Bench::each() {
        let clock = at(Duration::ZERO);
        let client = bench.client(BigCommerce::new("shop", "token"), Bench::policy(), &clock);
        let _ = bench
            .network
            .clone()
            .json(429, json!({"status": 429, "title": "slow down"}))
            .header("retry-after", "3600")
            .json(409, json!({"status": 409, "title": "The product name is a duplicate"}));
        let told = product(&client).send().await;
        clock.advance(due(&told).since(clock.wall()));
        let refused = product(&client).send().await.expect_err("taken");
        assert_eq!((refused.is_refused(), refused.effect()), (true, Effect::None), "{refused}");
        assert_eq!(bench.sent(&Method::GET), 0);
    }
}

/// The one send that a caller allows at the risk of a second effect was used up by a circuit that was open: the message
/// became a dead letter, although the caller had said that twice is better than never.
#[tokio::test]
async fn a_resend_that_a_gate_put_off_is_not_used_up() {
    for bench in Bench::each() {
        let clock = at(Duration::ZERO);
        let open = Duration::from_secs(300);
        let breaker = BreakerConfig::default().consecutive_failures(1).open(open, open);
        let client =
            bench.client(Postmark::new("token"), Bench::policy().lookups_max(0).breaker(breaker), &clock);
        let _ = bench
            .network
            .clone()
            .fail(SendErrorKind::Reset)
            .json(200, json!({"ErrorCode": 0, "Message": "OK", "MessageID": "m-1"}));
        let mail = json!({"From": "a@x.test", "To": "b@x.test", "TextBody": "hello"});
        let call = || {
            let call = client.post("/email").key("mail-1").json(&mail);
            call.on_unknown(OnUnknown::Resend).deadline(Duration::from_secs(20)).send()
        };
        let told = call().await;
        assert_eq!(bench.sent(&Method::POST), 1);
        clock.advance(due(&told).since(clock.wall()).max(2 * open));
        call().await.expect("sent again, once");
        assert_eq!(bench.sent(&Method::POST), 2);
        assert_eq!(bench.record("mail-1").await.resends_left, 0);
    }
}

/// A laptop that was ahead by more than the retention took what had succeeded under the new name for forgotten, and put
/// the open operation of the old name in its place: it was then sent.
#[tokio::test]
async fn an_operators_clock_alone_does_not_end_a_record_for_an_adoption() {
    for bench in Bench::each() {
        let clock = at(Duration::ZERO);
        let [before, after] = ["old", "new"]
            .map(|name| bench.in_namespace(name, Stripe::new("sk_test_1"), Bench::policy(), &clock));
        let _ = bench.network.clone().status(200).status(429).header("retry-after", "3600");
        pay(&after, "order-42").send().await.expect("paid");
        pay(&before, "order-42").send().await.expect_err("postponed");
        let old = OperationId::new(
            Scope::from_stored("old/stripe/test/POST /v1/quotes"),
            Key::new("order-42").expect("a key"),
        );
        let to = Scope::from_stored("new/stripe/test/POST /v1/quotes");
        let adopted = bench.act(&old, Action::Adopt { to }, clock.wall().plus(8 * DAY)).await;
        assert_eq!(adopted.map(|record| record.phase()), Err(Forbidden::NameTaken));
        let again = pay(&after, "order-42").send().await.expect("on record");
        assert_eq!(again.obtained(), Obtained::Replayed);
    }
}

/// A payment that started over and succeeded was "in the way, no effect" to a host whose clock was ahead by more than the
/// retention, on a store in a file.
#[tokio::test]
async fn a_clock_that_is_ahead_is_told_of_the_success_and_not_of_its_predecessor() {
    for bench in Bench::each() {
        let clock = at(Duration::ZERO);
        let stripe = bench.client(Stripe::new("sk_test_1"), Bench::policy().backoff(Backoff::none()), &clock);
        let _ = bench.network.clone().fail(SendErrorKind::Connect).status(200);
        pay(&stripe, "order-42").send().await.expect_err("never sent");
        let again = |client: &Client| pay(client, "order-42/2").supersedes("order-42").send();
        again(&stripe).await.expect("paid");
        let ahead = at(Duration::ZERO);
        ahead.set_wall(clock.wall().plus(8 * DAY));
        let ahead = bench.client(Stripe::new("sk_test_1"), Bench::policy(), &ahead);
        let told = again(&ahead).await.expect("it was paid");
        assert_eq!(told.obtained(), Obtained::Replayed);
        assert_eq!(bench.sent(&Method::POST), 2);
    }
}

/// Two callers start the same letter over under keys of their own. Who came second was told "no effect", while the first
/// one's payment had been made.
#[tokio::test]
async fn who_starts_over_second_is_not_told_that_nothing_happened() {
    for bench in Bench::each() {
        let clock = at(Duration::ZERO);
        let stripe = bench.client(Stripe::new("sk_test_1"), Bench::policy().backoff(Backoff::none()), &clock);
        let _ = bench.network.clone().fail(SendErrorKind::Connect).status(200);
        pay(&stripe, "order-42").send().await.expect_err("never sent");
        pay(&stripe, "order-42/a").supersedes("order-42").send().await.expect("paid");
        let second = pay(&stripe, "order-42/b").supersedes("order-42").send().await.expect_err("in the way");
        assert!(second.is_predecessor_in_the_way(), "{second}");
        assert_eq!(second.effect(), Effect::Unknown);
        assert_eq!(bench.sent(&Method::POST), 2);
    }
}

/// The clock was set back by more than the retention while a payment was under way. By its own record the payment had
/// then ended so long ago that the next caller paid again.
#[tokio::test]
async fn what_ends_by_a_clock_that_was_set_back_is_kept_all_the_same() {
    for bench in Bench::each() {
        let clock = at(Duration::ZERO);
        let (right, own) = (clock.wall(), clock.clone());
        let network = ScriptedTransport::new().always_with(move |_| {
            own.set_wall(right.minus(8 * DAY));
            Ok(Answer::new(StatusCode::OK, HeaderMap::new(), r#"{"id":"po_1","object":"payout"}"#))
        });
        let bench = Bench { network, ..bench };
        let stripe = bench.client(Stripe::new("sk_test_1"), Bench::policy(), &clock);
        pay(&stripe, "order-42").send().await.expect("paid");
        for after in [Duration::ZERO, DAY, 6 * DAY] {
            clock.set_wall(right.plus(after));
            let again = pay(&stripe, "order-42").send().await.expect("on record");
            assert_eq!(again.obtained(), Obtained::Replayed, "after {after:?}");
        }
        assert_eq!(bench.sent(&Method::POST), 1);
    }
}

/// The same of a person's word: the letter said "it was applied", and its key was free at once.
#[tokio::test]
async fn what_a_person_says_by_a_clock_that_is_behind_is_kept_all_the_same() {
    for bench in Bench::each() {
        let clock = at(Duration::ZERO);
        let stripe = bench.client(Stripe::new("sk_test_1"), Bench::policy().backoff(Backoff::none()), &clock);
        let _ = bench.network.clone().fail(SendErrorKind::Reset);
        pay(&stripe, "order-42").send().await.expect_err("lost");
        let id = bench.record("order-42").await.id;
        let applied = Action::Resolve(Resolution::Applied { vendor_id: "po_1".to_owned() });
        bench.act(&id, applied, clock.wall().minus(8 * DAY)).await.expect("allowed");
        let told = pay(&stripe, "order-42").send().await.expect_err("closed");
        assert!(told.is_dead_letter(), "{told}");
        assert_eq!(bench.record("order-42").await.phase(), Phase::Resolved);
        assert_eq!(bench.sent(&Method::POST), 1);
    }
}
