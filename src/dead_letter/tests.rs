use std::time::Duration;

use http::HeaderMap;
use serde_json::{Value, json};

use steadfast_core::internal::operation::slack;
use steadfast_core::operation::record::{Claim, Claimed, Forbidden};
use steadfast_core::operation::{Key, RedactedFields};
use steadfast_core::policy::Backoff;
use steadfast_core::store::{Memory, StoreError};
use steadfast_core::transport::{Answer, SendErrorKind};
use steadfast_core::vendor::Vendor;
use steadfast_core::{Effect, Policy, Reason};

use super::redact::View;
use super::*;
#[cfg(feature = "sqlite")]
use crate::store::Sqlite;
use crate::testkit::{FixedRandom, ScriptedTransport, TestClock};
use crate::vendor::{Postmark, Stripe};

mod moved;
mod rules;

/// A store with a Stripe client on it, all on one clock.
struct Bench {
    store: Arc<dyn Store>,
    clock: TestClock,
    network: ScriptedTransport,
    stripe: Client,
}

impl Bench {
    fn new(store: Arc<dyn Store>) -> Bench {
        let (clock, network) = (TestClock::auto(), ScriptedTransport::new());
        let stripe = client(Stripe::new("sk_test_1"), &store, &clock, &network);
        Bench { store, clock, network, stripe }
    }

    fn letters(&self) -> DeadLetters {
        self.letters_without_rules().with_client(&self.stripe)
    }

    fn letters_without_rules(&self) -> DeadLetters {
        DeadLetters::new(Arc::clone(&self.store)).with_clock(self.clock.clone())
    }

    fn pay(&self, stripe: &Client, key: &str) -> crate::Call {
        stripe.post("/v1/quotes").key(key).form(&[("amount", "1000"), ("card[number]", "4242")])
    }

    /// A dead letter whose one attempt ended as `network` says.
    async fn dies(&self, key: &str, network: ScriptedTransport) -> OperationId {
        let stripe = client(Stripe::new("sk_test_1"), &self.store, &self.clock, &network);
        let error = self.pay(&stripe, key).send().await.expect_err("nothing but failure is scripted");
        assert!(error.is_dead_letter(), "{error:?}");
        let scope = steadfast_core::operation::Scope::from_stored(error.operation().expect("keyed"));
        OperationId::new(scope, Key::new(key).expect("a key"))
    }

    async fn lost(&self, key: &str) -> OperationId {
        self.dies(key, ScriptedTransport::new().fail(SendErrorKind::Reset)).await
    }

    async fn never_sent(&self, key: &str) -> OperationId {
        self.dies(key, ScriptedTransport::new().fail(SendErrorKind::Connect)).await
    }

    async fn phase(&self, id: &OperationId) -> Phase {
        self.store.get(id).await.expect("works").expect("is there").phase()
    }
}

fn client(
    vendor: impl Vendor,
    store: &Arc<dyn Store>,
    clock: &TestClock,
    network: &ScriptedTransport,
) -> Client {
    Client::builder(vendor)
        .policy(Policy::background().backoff(Backoff::none()).without_breaker().without_budget())
        .store(Arc::clone(store))
        .clock(clock.clone())
        .random(FixedRandom::at(0.5))
        .transport(network.clone())
        .build()
        .expect("a client")
}

async fn on_each_store(test: impl AsyncFn(Bench)) {
    test(Bench::new(Arc::new(Memory::new()))).await;
    #[cfg(feature = "sqlite")]
    {
        let directory = support::in_memory::directory();
        let store = Sqlite::open(directory.path().join("calls.db")).expect("opens");
        test(Bench::new(Arc::new(store))).await;
    }
}

fn these(id: &OperationId) -> [OperationId; 1] {
    [id.clone()]
}

async fn redrive(letters: &DeadLetters, id: &OperationId, how: &Change) -> Outcome {
    letters.redrive(&these(id), how).await.expect("the store works")
}

fn held_back(redriven: &Outcome) -> Vec<Forbidden> {
    assert_eq!(redriven.matched, redriven.done + redriven.held_back);
    redriven.why_held_back.iter().map(|(_, why)| *why).collect()
}

fn refusal<T: std::fmt::Debug>(result: Result<T, DeadLetterError>) -> Forbidden {
    match result.expect_err("refused") {
        DeadLetterError::Refused { why, .. } => why,
        other => panic!("{other:?}"),
    }
}

fn day() -> Duration {
    Duration::from_secs(24 * 3600)
}

#[tokio::test]
async fn two_redrives_at_once_send_the_operation_once() {
    on_each_store(async |bench| {
        let id = bench.lost("order-1").await;
        let (letters, how) = (bench.letters(), Change::by("ada"));
        let (one, other) = tokio::join!(redrive(&letters, &id, &how), redrive(&letters, &id, &how));
        assert_eq!((one.done + other.done, one.held_back + other.held_back), (1, 1));
        let loser = if one.done == 0 { &one } else { &other };
        assert!(matches!(held_back(loser)[0], Forbidden::Moved | Forbidden::NotDead));
        assert_eq!(bench.phase(&id).await, Phase::Scheduled);

        let network = bench.network.clone().json(200, json!({"id": "po_1"}));
        let (first, second) = tokio::join!(bench.stripe.recover(10), bench.stripe.recover(10));
        assert!(first.is_ok() && second.is_ok(), "{first:?} {second:?}");
        assert_eq!(network.requests().len(), 1, "one redrive, one send");
        assert_eq!(bench.phase(&id).await, Phase::Succeeded);
        let audit = letters.audit(&id).await.expect("works");
        assert_eq!(audit.len(), 1, "what is refused leaves no trace");
        assert_eq!(
            (audit[0].by.as_str(), audit[0].before, audit[0].after),
            ("ada", Phase::Dead, Phase::Scheduled)
        );
    })
    .await;
}

#[tokio::test]
async fn a_redrive_past_the_window_needs_force_and_a_reason() {
    on_each_store(async |bench| {
        let id = bench.lost("order-1").await;
        let letters = bench.letters();
        let record = letters.record(&id).await.expect("is there");
        // As long as clocks can differ and a request can be under way, the vendor's own window goes on.
        let until = record.claimed_at.plus(day() - slack(Duration::from_secs(30)));
        assert_eq!(letters.safety(&record), Safety::WindowOpen { until });
        bench.clock.set_wall(until);
        assert_eq!(letters.safety(&record), Safety::Unsafe, "the window has ended exactly now");

        let plain = Change::by("ada").because("Stripe is back");
        assert_eq!(held_back(&redrive(&letters, &id, &plain).await), [Forbidden::Unsafe]);
        let unexplained = Forbidden::Unexplained;
        assert_eq!(held_back(&redrive(&letters, &id, &Change::by("ada").force()).await), [unexplained]);
        assert_eq!(
            held_back(&redrive(&letters, &id, &Change::by(" ").because("x").force()).await),
            [unexplained]
        );
        assert_eq!(bench.phase(&id).await, Phase::Dead);

        let forced = redrive(&letters, &id, &plain.clone().force()).await;
        assert_eq!((forced.done, forced.forced), (1, 1));
        assert_eq!(bench.phase(&id).await, Phase::Scheduled);
    })
    .await;
}

#[tokio::test]
async fn without_rules_only_letters_without_effect_are_redriven() {
    on_each_store(async |bench| {
        let (lost, never_sent) = (bench.lost("a").await, bench.never_sent("b").await);
        let letters = bench.letters_without_rules();
        assert_eq!(held_back(&redrive(&letters, &lost, &Change::by("ada")).await), [Forbidden::NoRules]);
        assert_eq!(redrive(&letters, &never_sent, &Change::by("ada")).await.done, 1);

        // One client of the vendor knows its rules, whatever the account. Of two, neither may be the one.
        let network = ScriptedTransport::new();
        let live = client(Stripe::new("sk_live_1"), &bench.store, &bench.clock, &network);
        let other = client(Stripe::new("sk_live_1").account("acct_2"), &bench.store, &bench.clock, &network);
        let letters = letters.with_client(&live);
        assert_eq!(redrive(&letters, &lost, &Change::by("ada").dry_run()).await.done, 1);
        let letters = letters.with_client(&other);
        assert_eq!(held_back(&redrive(&letters, &lost, &Change::by("ada")).await), [Forbidden::NoRules]);
        let elsewhere = Stripe::new("sk_test_1").base_url("https://stripe.test");
        let elsewhere = client(elsewhere.account("x"), &bench.store, &bench.clock, &network);
        let letters = bench.letters_without_rules().with_client(&elsewhere);
        assert_eq!(held_back(&redrive(&letters, &lost, &Change::by("ada")).await), [Forbidden::NoRules]);

        // The vendor has moved, and the client says from where.
        let moved = Client::builder(Stripe::new("sk_live_1").base_url("https://stripe.test").account("x"));
        let moved = moved.former_base_url("https://api.stripe.com").transport(network.clone());
        let moved = moved.store(bench.store.clone()).clock(bench.clock.clone()).build().expect("a client");
        let letters = bench.letters_without_rules().with_client(&moved);
        assert_eq!(redrive(&letters, &lost, &Change::by("ada").dry_run()).await.done, 1);
    })
    .await;
}

#[tokio::test]
async fn a_letter_with_a_lookup_may_be_redriven_without_force() {
    on_each_store(async |bench| {
        let nothing = json!({"TotalCount": 0, "Messages": []}).to_string();
        let nothing = Answer::new(http::StatusCode::OK, HeaderMap::new(), nothing);
        let network = ScriptedTransport::new().fail(SendErrorKind::Reset).always(nothing);
        let postmark = client(Postmark::new("token"), &bench.store, &bench.clock, &network);
        let mail = json!({"From": "a@x.test", "To": "b@x.test", "TextBody": "hello"});
        let error = postmark.post("/email").key("mail-1").json(&mail).send().await.expect_err("lost");
        assert_eq!((error.reason(), error.effect()), (Some(Reason::Exhausted), Effect::Unknown));
        let letters = bench.letters().with_client(&postmark);
        let id = letters.find("mail-1").await.expect("is there");
        let shown = letters.show(&id).await.expect("is there");
        assert_eq!(shown.safety, Some(Safety::Lookup));
        let redriven = redrive(&letters, &id, &Change::by("ada")).await;
        assert_eq!((redriven.done, redriven.forced), (1, 0));
    })
    .await;
}

#[tokio::test]
async fn a_filter_is_counted_first_and_frozen_when_it_starts() {
    on_each_store(async |bench| {
        let (a, b) = (bench.never_sent("a").await, bench.lost("b").await);
        let letters = bench.letters_without_rules();
        let all = Filter::default();
        // It leaves nothing on record, so that nobody has to sign it.
        let dry_run = Change::by("").dry_run();
        let counted = letters.redrive_all(&all, &dry_run).await.expect("works");
        assert_eq!((counted.matched, counted.done), (2, 1));
        assert_eq!(held_back(&counted), [Forbidden::NoRules]);
        assert_eq!((bench.phase(&a).await, bench.phase(&b).await), (Phase::Dead, Phase::Dead));

        bench.clock.advance(Duration::from_secs(1));
        let late = bench.never_sent("late").await;
        let frozen = Filter { updated_before: counted.frozen_at, ..all };
        let done = letters.redrive_all(&frozen, &Change::by("ada")).await.expect("works");
        assert_eq!(
            (done.matched, done.done, done.held_back),
            (counted.matched, counted.done, counted.held_back)
        );
        assert_eq!(bench.phase(&a).await, Phase::Scheduled);
        assert_eq!(bench.phase(&late).await, Phase::Dead, "it died after the filter was frozen");
    })
    .await;
}

#[tokio::test]
async fn a_filter_with_an_age_is_frozen_although_letters_grow_older() {
    on_each_store(async |bench| {
        bench.never_sent("a").await;
        let (letters, second) = (bench.letters(), Duration::from_secs(1));
        let old = Filter::default().older_than(second, letters.now());
        let counted = letters.redrive_all(&old, &Change::by("").dry_run()).await.expect("works");
        assert_eq!(counted.matched, 0);
        bench.clock.advance(second);
        let again = Filter::default().older_than(second, letters.now());
        assert_eq!(letters.list(&again, None, 10).await.expect("works").rows.len(), 1);
        let frozen = Filter { updated_before: counted.frozen_at, ..again };
        let redriven = letters.redrive_all(&frozen, &Change::by("ada")).await.expect("works");
        assert_eq!(redriven.matched, 0, "as counted");
    })
    .await;
}

#[tokio::test]
async fn a_filter_of_dead_letters_takes_their_phases_and_refuses_the_others() {
    on_each_store(async |bench| {
        bench.lost("open").await;
        let closed = bench.lost("closed").await;
        let letters = bench.letters();
        let signed = Change::by("ada").because("not in the dashboard");
        letters.resolve(&closed, Resolution::NotApplied, &signed).await.expect("works");
        let network = ScriptedTransport::new().json(200, json!({"id": "po_1"}));
        let stripe = client(Stripe::new("sk_test_1"), &bench.store, &bench.clock, &network);
        bench.pay(&stripe, "succeeded").send().await.expect("succeeds");
        let of = |phases: &[Phase]| Filter { phases: phases.to_vec(), ..Filter::default() };
        for (phases, expected) in [
            (&[][..], &["open"][..]),
            (&[Phase::Dead], &["open"]),
            (&[Phase::Resolved], &["closed"]),
            (&[Phase::Dead, Phase::Resolved], &["open", "closed"]),
        ] {
            let page = letters.list(&of(phases), None, 10).await.expect("works");
            let keys: Vec<_> = page.rows.iter().map(|letter| letter.id.key.as_str()).collect();
            assert_eq!(keys, expected, "{phases:?}");
        }
        for phase in [Phase::InProgress, Phase::Scheduled, Phase::Succeeded, Phase::Refused] {
            let filter = of(&[Phase::Dead, phase]);
            let listed = letters.list(&filter, None, 10).await.err();
            let grouped = letters.groups(&filter).await.err();
            let redriven = letters.redrive_all(&filter, &Change::by("").dry_run()).await.err();
            let exported = letters.export(&filter, &mut Vec::new()).await.err();
            let opened = letters.export_opened(&filter, &signed, &mut Vec::new()).await.err();
            for refused in [listed, grouped, redriven, exported, opened] {
                let text = refused.map(|error| error.to_string()).unwrap_or_default();
                let expected =
                    format!("invalid phases: no dead letter is {phase}; name dead, resolved, or both");
                assert_eq!(text, expected);
            }
        }
    })
    .await;
}

#[tokio::test]
async fn a_list_is_filtered_paged_and_grouped_by_failure() {
    on_each_store(async |bench| {
        bench.never_sent("a").await;
        bench.lost("b").await;
        bench.clock.advance(Duration::from_secs(60));
        bench.dies("c", ScriptedTransport::new().status(429)).await;
        let letters = bench.letters();
        let keys = async |filter: Filter| {
            let page = letters.list(&filter, None, 10).await.expect("works");
            page.rows.iter().map(|letter| letter.id.key.to_string()).collect::<Vec<_>>()
        };
        let any = Filter::default;
        assert_eq!(keys(any()).await, ["a", "b", "c"]);
        assert_eq!(keys(Filter { effect: Some(Effect::Unknown), ..any() }).await, ["b"]);
        assert_eq!(keys(Filter { status: Some(429), ..any() }).await, ["c"]);
        assert_eq!(keys(Filter { code: Some("DEPENDENCY.unavailable".into()), ..any() }).await, ["a"]);
        assert_eq!(keys(Filter { code: Some("RATE_LIMIT.exceeded".into()), ..any() }).await, ["c"]);
        let (minute, now) = (Duration::from_secs(60), letters.now());
        assert_eq!(keys(any().older_than(minute, now)).await, ["a", "b"]);
        assert_eq!(keys(any().younger_than(minute, now)).await, ["c"]);
        assert!(keys(any().older_than(minute, now).younger_than(minute, now)).await.is_empty());
        let bounded = Filter { updated_before: Some(now.minus(2 * minute)), ..any() };
        assert!(keys(bounded.older_than(minute, now)).await.is_empty(), "an earlier bound stays");
        let bounded = Filter { updated_from: Some(now), ..any() };
        assert_eq!(keys(bounded.younger_than(2 * minute, now)).await, ["c"], "a later bound stays");
        assert_eq!(keys(Filter { vendor: Some("stripe".into()), ..any() }).await, ["a", "b", "c"]);
        assert_eq!(keys(Filter { vendor: Some("default/stripe".into()), ..any() }).await, ["a", "b", "c"]);
        assert!(keys(Filter { vendor: Some("strip".into()), ..any() }).await.is_empty());
        assert!(keys(Filter { reason: Some(Reason::Expired), ..any() }).await.is_empty());
        let wire_key = letters.find("b").await.expect("is there").wire_key().to_string();
        assert_eq!(keys(Filter { wire_key: Some(wire_key), ..any() }).await, ["b"]);
        assert!(keys(Filter { wire_key: Some("b".into()), ..any() }).await.is_empty());

        let (mut seen, mut after) = (Vec::new(), None);
        loop {
            let page = letters.list(&any(), after.as_deref(), 1).await.expect("works");
            assert_eq!(page.rows.len(), 1);
            seen.push(page.rows[0].id.key.to_string());
            after = page.next;
            if after.is_none() {
                break;
            }
        }
        assert_eq!(seen, ["a", "b", "c"]);

        bench.lost("d").await;
        let groups = letters.groups(&any()).await.expect("works");
        let shown: Vec<_> = groups.iter().map(|group| (group.count, group.code)).collect();
        assert_eq!(shown.len(), 3);
        assert_eq!(shown[0], (2, "UNKNOWN.effect"));
        assert_eq!(groups.iter().map(|group| group.count).sum::<u64>(), 4);
    })
    .await;
}

#[tokio::test]
async fn an_unresolved_dead_letter_is_never_purged_and_a_resolved_one_after_its_retention() {
    on_each_store(async |bench| {
        let (open, closed) = (bench.lost("open").await, bench.lost("closed").await);
        let letters = bench.letters();
        let applied = Resolution::Applied { vendor_id: "po_1".into() };
        let unsigned = letters.resolve(&closed, applied.clone(), &Change::by("ada").because("")).await;
        assert_eq!(refusal(unsigned), Forbidden::Unexplained);
        let dry_run = Change::by("").dry_run();
        let would_be = letters.resolve(&closed, applied.clone(), &dry_run).await.expect("works");
        assert_eq!((would_be.phase, bench.phase(&closed).await), (Phase::Resolved, Phase::Dead));
        let signed = Change::by("ada").because("seen in the dashboard");
        let resolved = letters.resolve(&closed, applied.clone(), &signed).await.expect("works");
        assert_eq!(resolved.phase, Phase::Resolved);
        assert_eq!(refusal(letters.resolve(&closed, applied.clone(), &signed).await), Forbidden::Resolved);
        assert_eq!(letters.purge("ada").await.expect("works"), 0);
        bench.clock.jump_wall(365 * day());
        assert_eq!(letters.purge("ada").await.expect("works"), 0, "a year at once is doubted for an hour");
        bench.clock.jump_wall(Duration::from_secs(3600));
        assert_eq!(letters.purge("ada").await.expect("works"), 1);
        assert_eq!(bench.phase(&open).await, Phase::Dead);
        assert!(letters.get(&closed).await.expect("works").is_none());
        let trace = letters.audit(&closed).await.expect("works");
        let actions: Vec<_> = trace.iter().map(|entry| (&entry.action, entry.by.as_str())).collect();
        let expected = [(&Action::Resolve(applied.clone()), "ada"), (&Action::Purge, "ada")];
        assert_eq!(actions, expected, "the trace outlives the record");
        assert!(matches!(letters.purge(" ").await, Err(DeadLetterError::Invalid(_))), "nobody's purge");
        assert_eq!(letters.stats().await.expect("works").count(Phase::Dead), 1);
    })
    .await;
}

/// The old and the new operation.
async fn edit(
    letters: &DeadLetters,
    old: &OperationId,
    (key, body): (&str, &str),
) -> Result<[Summary; 2], DeadLetterError> {
    edit_by(letters, old, (key, body), &Change::by("ada").because("the amount was wrong")).await
}

async fn edit_by(
    letters: &DeadLetters,
    old: &OperationId,
    (key, body): (&str, &str),
    how: &Change,
) -> Result<[Summary; 2], DeadLetterError> {
    let new = letters.edit(old, Key::new(key).expect("a key"), body.to_owned(), how).await?;
    Ok([letters.record(old).await?.summary(), letters.record(&new).await?.summary()])
}

#[tokio::test]
async fn an_edit_is_a_new_operation_that_is_linked_and_due() {
    on_each_store(async |bench| {
        let old = bench.never_sent("order-1").await;
        let letters = bench.letters();
        let without = edit(&bench.letters_without_rules(), &old, ("order-1b", "amount=9")).await;
        assert_eq!(refusal(without), Forbidden::NoRulesToStamp);
        let counted = Change::by("").dry_run();
        let key = Key::new("order-1b").expect("a key");
        assert_eq!(
            letters.edit(&old, key, "amount=9", &counted).await.expect("works").key.as_str(),
            "order-1b"
        );
        assert_eq!(bench.phase(&old).await, Phase::Dead, "nothing was changed");
        let [was, new] = edit(&letters, &old, ("order-1b", "amount=9")).await.expect("works");
        assert_eq!((was.phase, new.phase), (Phase::Resolved, Phase::Scheduled));
        assert_ne!(was.wire_key, new.wire_key);
        let replaced = Resolution::Replaced { key: new.id.key.clone() };
        assert_eq!(was.resolved.expect("resolved").resolution, replaced);
        let audit = letters.audit(&new.id).await.expect("works");
        assert_eq!(audit[0].why, "edited from key order-1: the amount was wrong");

        let [_, again] = edit(&letters, &old, ("order-1b", "amount=9")).await.expect("completes");
        assert_eq!(again.fence, new.fence);
        assert_eq!(refusal(edit(&letters, &old, ("order-1b", "amount=8")).await), Forbidden::KeyTaken);
        let resolved = Forbidden::Resolved;
        assert_eq!(refusal(edit(&letters, &old, ("order-1c", "amount=9")).await), resolved);
        assert_eq!(held_back(&redrive(&letters, &old, &Change::by("ada")).await), [resolved]);

        // Rules without the secret give the same operation as the service's own client.
        let network = ScriptedTransport::new();
        let no_secret = client(Stripe::new("none"), &bench.store, &bench.clock, &network);
        let letters = bench.letters_without_rules().with_client(&no_secret);
        assert!(edit(&letters, &old, ("order-1b", "amount=9")).await.is_ok(), "the same fingerprint");

        let network = bench.network.clone().json(200, json!({"id": "po_1"}));
        let call = bench.stripe.post("/v1/quotes").key("order-1b").form(&[("amount", "9")]);
        call.send().await.expect("the service sends what is due");
        let sent = &network.requests()[0];
        let keys: Vec<_> = sent.headers.get_all("idempotency-key").iter().collect();
        assert_eq!(keys, [new.wire_key.as_str()]);
        assert_eq!(&sent.body[..], b"amount=9");
    })
    .await;
}

/// Both are named by the path that the old one was recorded with.
#[tokio::test]
async fn after_a_move_the_services_own_call_of_an_edited_key_is_the_edit() {
    on_each_store(async |bench| {
        let at = |base_url: &str, network: &ScriptedTransport| {
            Client::builder(Stripe::new("sk_test_1").base_url(base_url))
                .policy(Policy::background().backoff(Backoff::none()).without_breaker())
                .store(Arc::clone(&bench.store))
                .clock(bench.clock.clone())
                .transport(network.clone())
        };
        let former = "https://old.example/base";
        let nothing_gets_out = ScriptedTransport::new().fail(SendErrorKind::Connect);
        let before = at(former, &nothing_gets_out).build().expect("a client");
        bench.pay(&before, "order-1").send().await.expect_err("dead");
        let network = ScriptedTransport::new().json(200, json!({"id": "po_1"}));
        let moved = at("https://api.stripe.com", &network).former_base_url(former).build().expect("a client");
        let letters = bench.letters_without_rules().with_client(&moved);
        let old = letters.find("order-1").await.expect("a letter");
        edit(&letters, &old, ("order-1b", "amount=9")).await.expect("works");
        let call = moved.post("/v1/quotes").key("order-1b").form(&[("amount", "9")]);
        call.send().await.expect("the same operation");
        assert_eq!(network.requests().len(), 1);
    })
    .await;
}

#[tokio::test]
async fn an_edit_that_was_cut_short_is_completed_by_the_same_edit() {
    on_each_store(async |bench| {
        let old = bench.never_sent("order-1").await;
        let letters = bench.letters();
        let replaced = Resolution::Replaced { key: Key::new("order-1b").expect("a key") };
        let signed = Change::by("ada").because("the amount was wrong");
        let by_hand = letters.resolve(&old, replaced.clone(), &signed).await;
        assert!(matches!(by_hand, Err(DeadLetterError::Invalid(_))), "{by_hand:?}");
        // The first write of an edit whose process died before the second.
        letters.act(&old, Action::Resolve(replaced), &signed, None).await.expect("works");
        let [was, new] = edit(&letters, &old, ("order-1b", "amount=9")).await.expect("completes");
        assert_eq!((was.phase, new.phase), (Phase::Resolved, Phase::Scheduled));
    })
    .await;
}

/// The service uses the new key for something else, after the first write of an edit and before its second.
#[tokio::test]
async fn an_edit_whose_key_is_taken_in_between_leaves_the_letter_open() {
    on_each_store(async |bench| {
        let letters = bench.letters();
        let cut_short = bench.never_sent("order-1").await;
        let replaced = Action::Resolve(Resolution::Replaced { key: Key::new("taken").expect("a key") });
        let signed = Change::by("ada").because("the amount was wrong");
        letters.act(&cut_short, replaced, &signed, None).await.expect("works");
        bench.pay(&bench.stripe, "taken").enqueue().await.expect("recorded");
        let counted =
            edit_by(&letters, &cut_short, ("taken", "amount=9"), &Change::by("ada").dry_run()).await;
        assert_eq!(refusal(counted), Forbidden::KeyTaken);
        assert_eq!(bench.phase(&cut_short).await, Phase::Resolved, "a dry run changes nothing");
        assert_eq!(refusal(edit(&letters, &cut_short, ("taken", "amount=9")).await), Forbidden::KeyTaken);

        let at_once = bench.never_sent("order-2").await;
        // A call of the service takes the key just before the edit's claim.
        let call = bench.pay(&bench.stripe, "taken-2");
        let takes = async move { drop(call.enqueue().await.expect("recorded")) };
        let raced = moved::raced(&bench, moved::Before::Claim, takes);
        assert_eq!(refusal(edit(&raced, &at_once, ("taken-2", "amount=9")).await), Forbidden::KeyTaken);

        // Also by the very request of the edit: the service has sent it for its own reasons.
        let own = bench.never_sent("order-3").await;
        let replaced = Action::Resolve(Resolution::Replaced { key: Key::new("taken-3").expect("a key") });
        letters.act(&own, replaced, &signed, None).await.expect("works");
        bench
            .stripe
            .post("/v1/quotes")
            .key("taken-3")
            .form(&[("amount", "9")])
            .enqueue()
            .await
            .expect("recorded");
        for body in ["amount=9", "amount=8"] {
            assert_eq!(refusal(edit(&letters, &own, ("taken-3", body)).await), Forbidden::KeyTaken, "{body}");
        }

        for (old, key) in [(&cut_short, "order-1c"), (&at_once, "order-2c"), (&own, "order-3c")] {
            assert_eq!(bench.phase(old).await, Phase::Dead, "{key}");
            let [was, new] = edit(&letters, old, (key, "amount=9")).await.expect("another key is free");
            assert_eq!((was.phase, new.phase), (Phase::Resolved, Phase::Scheduled));
            // The replacement is on record: another body under its key opens nothing.
            assert_eq!(refusal(edit(&letters, old, (key, "amount=8")).await), Forbidden::KeyTaken);
            assert_eq!(bench.phase(old).await, Phase::Resolved, "{key}");
        }
    })
    .await;
}

#[tokio::test]
async fn a_vendor_of_several_namespaces_is_asked_for_by_its_whole_name() {
    on_each_store(async |bench| {
        bench.lost("order-1").await;
        let network = ScriptedTransport::new().fail(SendErrorKind::Connect);
        let other = Client::builder(Stripe::new("sk_test_1"))
            .policy(Policy::background().backoff(Backoff::none()))
            .store(Arc::clone(&bench.store))
            .clock(bench.clock.clone())
            .transport(network)
            .namespace("staging")
            .build()
            .expect("a client");
        bench.pay(&other, "order-2").send().await.expect_err("dead");
        let letters = bench.letters();
        let named = |vendor: &str| Filter { vendor: Some(vendor.to_owned()), ..Filter::default() };
        let ambiguous = letters.list(&named("stripe"), None, 10).await.expect_err("which of the two?");
        assert!(ambiguous.to_string().contains("default/stripe, staging/stripe"), "{ambiguous}");
        assert_eq!(letters.list(&named("staging/stripe"), None, 10).await.expect("works").rows.len(), 1);
    })
    .await;
}

#[tokio::test]
async fn a_letter_of_unknown_effect_is_edited_only_by_force_or_after_a_resolution() {
    on_each_store(async |bench| {
        let letters = bench.letters();
        let old = bench.lost("order-1").await;
        assert_eq!(refusal(edit(&letters, &old, ("new", "a=1")).await), Forbidden::MayHaveBeenApplied);
        assert_eq!(bench.phase(&old).await, Phase::Dead);
        let wire_key = letters.record(&old).await.expect("is there").wire_key;
        let stale = format!("a={wire_key}");
        assert_eq!(refusal(edit(&letters, &old, ("new", &stale)).await), Forbidden::OldWireKey);
        assert_eq!(refusal(edit(&letters, &old, ("order-1", "a=1")).await), Forbidden::KeyTaken);

        let signed = Change::by("ada").because("not in the dashboard");
        letters.resolve(&old, Resolution::NotApplied, &signed).await.expect("works");
        assert_eq!(edit(&letters, &old, ("new", "a=1")).await.expect("works")[1].phase, Phase::Scheduled);

        let other = bench.lost("order-2").await;
        let forced = Change::by("ada").because("the amount was wrong").force();
        let [was, _] = edit_by(&letters, &other, ("new-2", "a=1"), &forced).await.expect("works");
        assert_eq!(was.phase, Phase::Resolved);
    })
    .await;
}

#[tokio::test]
async fn bodies_are_withheld_and_looking_at_them_leaves_a_trace() {
    on_each_store(async |bench| {
        let failed = ScriptedTransport::new().json(429, json!({"error": {"email": "ada@x.test"}}));
        let id = bench.dies("order-1", failed).await;
        let letters = bench.letters();
        let closed = letters.show(&id).await.expect("works");
        let text = serde_json::to_string(&closed).expect("JSON");
        assert!(!text.contains("4242") && !text.contains("ada@x.test"), "{text}");
        assert!(!text.contains("sk_test"), "{text}");
        assert!(closed.audit.is_empty());

        for unsigned in [Change::by("ada").because(" "), Change::by(" ").because("ticket 7")] {
            assert_eq!(refusal(letters.open(&id, &unsigned).await), Forbidden::Unexplained);
            let refused = letters.export_opened(&Filter::default(), &unsigned, &mut Vec::new()).await;
            assert_eq!(refusal(refused), Forbidden::Unexplained);
        }
        // It would show all and leave no trace.
        let dry_run = letters.open(&id, &Change::by("").dry_run()).await;
        assert!(matches!(dry_run, Err(DeadLetterError::Invalid(_))), "{dry_run:?}");
        assert!(letters.audit(&id).await.expect("works").is_empty());

        let how = Change::by("ada").because("ticket 7");
        let opened = letters.open(&id, &how).await.expect("works");
        let text = serde_json::to_string(&opened).expect("JSON");
        assert!(text.contains("4242") && text.contains("ada@x.test"), "{text}");
        assert_eq!(opened.audit.iter().map(|entry| entry.why.as_str()).collect::<Vec<_>>(), ["ticket 7"]);

        let letters = letters.redact(["Number", "email"]);
        let text = serde_json::to_string(&letters.open(&id, &how).await.expect("works")).expect("JSON");
        assert!(
            !text.contains("4242") && !text.contains("ada@x.test") && text.contains("amount=1000"),
            "{text}"
        );

        let mut lines = Vec::new();
        let all = Filter::default();
        let written = letters.export_opened(&all, &how, &mut lines).await.expect("works");
        let text = String::from_utf8(lines).expect("text");
        assert_eq!((written, text.lines().count()), (1, 1));
        let line: Value = serde_json::from_str(&text).expect("JSON");
        assert_eq!(line["key"], "order-1");
        assert!(!text.contains("4242"), "{text}");
        assert_eq!(letters.audit(&id).await.expect("works").len(), 3, "an export is a look, too");
        let mut lines = Vec::new();
        assert_eq!(bench.letters().export(&all, &mut lines).await.expect("works"), 1);
        let text = String::from_utf8(lines).expect("text");
        assert!(!text.contains("4242") && !text.contains("ada@x.test"), "{text}");
        assert_eq!(letters.audit(&id).await.expect("works").len(), 3, "what is withheld leaves no trace");
    })
    .await;
}

#[test]
fn named_fields_are_redacted_at_any_depth_and_bodies_without_fields_are_withheld() {
    let (named, beside) = (["name".to_owned()], RedactedFields::NONE);
    let view = View::new(true, &named, &beside);
    let body = |text: &[u8]| view.body(&HeaderMap::new(), text);
    let deep = br#"{"a":[{"Name":{"first":"Ada"}}],"name":1,"other":"Ada"}"#;
    let shown = r#"{"a":[{"Name":"[redacted]"}],"name":"[redacted]","other":"Ada"}"#;
    assert_eq!(body(deep), Ok(shown.to_owned()));
    for unreadable in [&b"name: Ada"[..], br#"{"name": "Ada"#, b"\"Ada\"", b"\xff"] {
        assert!(body(unreadable).is_err(), "{unreadable:?}");
    }
    assert_eq!(body(b""), Ok(String::new()));
    let whole = View::new(true, &[], &beside);
    assert_eq!(whole.body(&HeaderMap::new(), b"name: Ada"), Ok("name: Ada".to_owned()));
    let url = url::Url::parse("https://v.test/x?name=Ada&page=2").expect("a url");
    assert_eq!(view.url(&url), "https://v.test/x?name=%5Bredacted%5D&page=2");
    assert_eq!(
        View::new(false, &[], &beside).url(&url),
        "https://v.test/x?name=%5Bredacted%5D&page=%5Bredacted%5D"
    );
}

/// No call can give one. A record that another program wrote may hold one, and an answer's `Set-Cookie` is one.
#[test]
fn a_secret_header_is_redacted_also_in_the_open_view() {
    let mut headers = HeaderMap::new();
    for name in &steadfast_core::internal::operation::SECRET_HEADERS {
        headers.insert(name, http::HeaderValue::from_static("hunter2"));
    }
    headers.insert("x-tenant", http::HeaderValue::from_static("17"));
    let shown = View::new(true, &[], &RedactedFields::NONE).headers(&headers, false);
    assert!(shown.iter().all(|(name, value)| (value == "17") == (name == "x-tenant")), "{shown:?}");
    assert!(!format!("{shown:?}").contains("hunter2"));
}

#[tokio::test]
async fn the_code_is_that_of_the_error_that_the_caller_was_given() {
    on_each_store(async |bench| {
        let (letters, form) = (bench.letters(), [("amount", "1000"), ("currency", "usd")]);
        let nothing_there = || json!({"object": "list", "data": [], "has_more": false});
        for (key, network) in [
            ("never-sent", ScriptedTransport::new().fail(SendErrorKind::Connect)),
            ("rate", ScriptedTransport::new().status(429)),
            // Timed out, and proven absent by the lookup.
            ("timeout", ScriptedTransport::new().fail(SendErrorKind::Timeout).json(200, nothing_there())),
            ("reset", ScriptedTransport::new().fail(SendErrorKind::Reset).json(200, nothing_there())),
        ] {
            let stripe = client(Stripe::new("sk_test_1"), &bench.store, &bench.clock, &network);
            let error = stripe.post("/v1/payment_intents").key(key).form(&form).send().await.expect_err(key);
            assert!(error.is_dead_letter(), "{error:?}");
            let id = letters.find(key).await.expect("is there");
            let shown = letters.show(&id).await.expect("works");
            assert_eq!(shown.summary.code, Some(error.code()), "{key}");
            let alike = Filter { code: Some(error.code().to_owned()), ..Filter::default() };
            let page = letters.list(&alike, None, 10).await.expect("works");
            let listed = page.rows.iter().find(|letter| letter.id == id).expect("listed by its code");
            assert_eq!(listed, &shown.summary, "{key}");
        }
        let timeouts = Filter { code: Some("DEPENDENCY.timeout".to_owned()), ..Filter::default() };
        assert_eq!(letters.list(&timeouts, None, 10).await.expect("works").rows.len(), 1);
    })
    .await;
}

#[tokio::test]
async fn an_operation_is_found_by_its_wire_key_in_whichever_phase() {
    on_each_store(async |bench| {
        let dead = bench.lost("order-1").await;
        let network = ScriptedTransport::new().json(200, json!({"id": "po_1"}));
        let stripe = client(Stripe::new("sk_test_1"), &bench.store, &bench.clock, &network);
        bench.pay(&stripe, "order-2").send().await.expect("succeeds");
        let letters = bench.letters();
        let settled = letters.find("order-2").await.expect("by key");
        let sent = network.requests()[0].headers["idempotency-key"].to_str().expect("text").to_owned();
        assert_eq!(letters.find(&sent).await.expect("as the vendor saw it"), settled);
        for id in [&dead, &settled] {
            let wire_key = id.wire_key().to_string();
            for text in [wire_key.clone(), wire_key.to_uppercase(), format!("<{wire_key}-3@mail.example>\n")]
            {
                assert_eq!(letters.find(&text).await.expect(&text), *id);
            }
            for whole in [wire_key.clone(), wire_key.to_uppercase(), format!(" {wire_key}\n")] {
                assert_eq!(letters.find_whole(&whole).await.expect(&whole), *id);
            }
            for part in [format!("{wire_key}-3"), format!("<{wire_key}>"), format!("replaces {wire_key}")] {
                let absent = letters.find_whole(&part).await;
                assert!(matches!(absent, Err(DeadLetterError::Absent(_))), "{part}: {absent:?}");
            }
        }
        let other = OperationId::new(dead.scope.clone(), Key::new("order-3").expect("a key"));
        let absent = letters.find(&other.wire_key().to_string()).await;
        assert!(matches!(absent, Err(DeadLetterError::Absent(_))), "{absent:?}");

        // A caller's key may be a UUID too: it goes first.
        let wire_key = dead.wire_key().to_string();
        bench.lost(&wire_key).await;
        assert_eq!(letters.find(&wire_key).await.expect("by key").key.as_str(), wire_key);
    })
    .await;
}

#[tokio::test]
async fn an_operation_is_found_by_its_key_or_its_whole_name() {
    on_each_store(async |bench| {
        let id = bench.lost("a key b").await;
        let letters = bench.letters();
        assert_eq!(letters.find("a key b").await.expect("by key"), id);
        assert_eq!(letters.find(&id.to_string()).await.expect("by name"), id);
        assert!(matches!(letters.find("nothing").await, Err(DeadLetterError::Absent(_))));
        assert!(matches!(letters.find("").await, Err(DeadLetterError::Absent(_))));
        let network = ScriptedTransport::new().fail(SendErrorKind::Connect);
        let other = client(Stripe::new("sk_2").account("acct_2"), &bench.store, &bench.clock, &network);
        bench.pay(&other, "a key b").send().await.expect_err("dead");
        match letters.find("a key b").await {
            Err(DeadLetterError::Ambiguous(ids)) => assert_eq!(ids.len(), 2),
            other => panic!("{other:?}"),
        }
        assert_eq!(letters.find(&id.to_string()).await.expect("by name"), id);
    })
    .await;
}
