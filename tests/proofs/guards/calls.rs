//! The engine: whole calls on a scripted transport and virtual time, at a vendor whose rules the test sets.

use std::sync::Arc;
use std::time::Duration;

use http::{HeaderMap, StatusCode};
use serde_json::json;
use support::acme::Acme;
use support::meanwhile::{ASKED, Wrote, asked_meanwhile, charges_over_a_sleep, repeat_put_off, told_late};
use support::rig::Rig;

use steadfast::clock::{Clock, Instant};
use steadfast::dead_letter::{Change, DeadLetters};
use steadfast::operation::record::{Filter, Phase, Takeover};
use steadfast::operation::{Key, OperationId, Scope};
use steadfast::policy::{BreakerConfig, BreakerState, BudgetConfig, RateConfig, Timeouts};
use steadfast::store::{Memory, Store};
use steadfast::testkit::{FixedRandom, ScriptedTransport, TestClock};
use steadfast::transport::{Answer, SendErrorKind};
use steadfast::vendor::{BigCommerce, Keyed, KeyedConfig, Stripe, Vendor};
use steadfast::{Call, Client, Effect, Error, Obtained, OnUnknown, Policy, Reply};

use crate::guards::life::{BURIED, says};
use crate::guards::wait;
pub use support::rig::{plain, secs};
use support::trouble::{Trouble, Troubled};
use support::watched::Watched;

pub struct Bench {
    pub client: Client,
    pub transport: ScriptedTransport,
    pub clock: TestClock,
}

impl Bench {
    pub fn new(vendor: impl Vendor, policy: Policy, transport: ScriptedTransport) -> Bench {
        Bench::on(TestClock::auto(), Arc::new(Memory::new()), vendor, policy, transport)
    }

    pub fn on(
        clock: TestClock,
        store: Arc<dyn Store>,
        vendor: impl Vendor,
        policy: Policy,
        transport: ScriptedTransport,
    ) -> Bench {
        let setup = Rig::of(vendor).policy(policy).random(FixedRandom::at(0.0)).namespace("test");
        let client = setup.network(transport.clone()).clock(&clock).store(store).client();
        Bench { client, transport, clock }
    }

    pub fn charge(&self) -> Call {
        self.client.post("/charges").key("k").json(&json!({ "amount": 1 }))
    }

    pub fn send(&self) -> Result<Reply, Error> {
        wait(self.charge().send())
    }

    /// How often it was sent to this path.
    fn sent_to(&self, path: &str) -> usize {
        self.transport.requests().iter().filter(|request| request.url.path() == path).count()
    }

    pub fn charges(&self) -> usize {
        self.sent_to("/charges")
    }

    /// The same, and its lease is over.
    fn leave_it_behind(&self) {
        self.leave_behind(self.charge());
        self.clock.advance(secs(3_600));
    }

    /// A call that is dropped while its request is under way, as by a crash.
    pub fn leave_behind(&self, call: Call) {
        wait(async {
            let call = tokio::spawn(call.send());
            while self.transport.requests().is_empty() {
                tokio::task::yield_now().await;
            }
            call.abort();
            assert!(call.await.is_err_and(|error| error.is_cancelled()));
        });
    }
}

fn id() -> OperationId {
    let scope = Scope::new("test", "acme", "main", &http::Method::POST, "/charges");
    OperationId::new(scope, Key::new("k").expect("a key"))
}

pub fn script() -> ScriptedTransport {
    ScriptedTransport::new()
}

pub fn lost() -> ScriptedTransport {
    script().fail(SendErrorKind::Reset)
}

pub const FOUND: &str = r#"[{"id":"ch_1"}]"#;

pub fn json_answer(status: u16, body: impl Into<String>) -> Answer {
    Answer::new(StatusCode::from_u16(status).expect("a status"), HeaderMap::new(), body.into())
}

pub fn a_caller_who_accepts_one_repeat_gets_one() -> bool {
    let bench = Bench::new(Acme::new(), plain(), script().always_fail(SendErrorKind::Reset));
    let _ = wait(bench.charge().on_unknown(OnUnknown::Resend).send());
    bench.charges() == 2
}

/// The window is open when the ladder's step is over, and not when the rate limit has room.
fn a_window_that_ended_at_the_gates_sends_nothing() -> bool {
    let policy = plain().rate(RateConfig::new(1, secs(10)));
    let bench = Bench::new(Acme::replaying(secs(5)), policy, lost().status(200));
    let _ = bench.send();
    bench.charges() == 1
}

pub fn nobody_looks_before_the_settle_time() -> bool {
    let bench = Bench::new(Acme::searchable(), plain(), lost().reply(json_answer(200, FOUND)));
    bench.send().expect("it is found");
    bench.clock.now() >= Instant::ORIGIN.plus(secs(7))
}

/// No call of 20 s has time for a settle time of 30 s.
pub fn a_settle_time_that_is_longer_than_a_call_ends() -> bool {
    let mut vendor = Acme::searchable();
    vendor.settle = secs(30);
    let bench = Bench::new(vendor, plain(), lost().reply(json_answer(200, FOUND)));
    let call = || wait(bench.charge().deadline(secs(20)).send());
    call().expect_err("no time to look it up");
    bench.clock.advance(secs(30));
    call().is_ok()
}

pub fn lookups_that_fail_use_up_none() -> bool {
    let transport = lost().status(500).status(500).status(500).reply(json_answer(200, FOUND));
    Bench::new(Acme::searchable(), plain(), transport).send().is_ok()
}

pub fn three_lookups_that_cannot_tell_are_all_whoever_makes_them() -> bool {
    let bench = Bench::new(Acme::searchable(), plain(), lost().always(json_answer(200, "{}")));
    for _ in 0..8 {
        // Time for one lookup.
        let _ = wait(bench.charge().deadline(secs(8)).send());
        bench.clock.advance(secs(600));
    }
    bench.sent_to("/search") == 3
}

pub fn an_answer_that_was_cut_uses_up_no_lookup() -> bool {
    let policy = plain().reply_bytes_max(64);
    let long = || json_answer(200, format!("[{}]", "1,".repeat(64)));
    let transport = lost().reply(long()).reply(long()).reply(long()).reply(json_answer(200, FOUND));
    Bench::new(Acme::searchable(), policy, transport).send().is_ok()
}

/// Six pages of nine seconds, behind a settle time of 80 s: longer than the lease that was taken for the wait.
pub fn a_lookup_of_many_pages_is_not_cut_by_its_lease() -> bool {
    let clock = TestClock::auto();
    let pages = move |request: &steadfast::transport::Request| {
        let after: u32 = request
            .url
            .query_pairs()
            .find(|(name, _)| name == "starting_after")
            .map_or(0, |(_, id)| id.parse().expect("a number"));
        let page = json!({
            "object": "list",
            "data": [{ "id": (after + 1).to_string(), "created": 0 }],
            "has_more": after < 5,
        });
        Ok(json_answer(200, page.to_string()))
    };
    let transport = script()
        .json(500, json!({ "error": { "type": "api_error" } }))
        .header("idempotent-replayed", "true")
        .always_with(pages)
        .after(secs(9), &clock);
    let policy = plain().timeout(Timeouts::new(secs(5), secs(10), secs(600)));
    let bench = Bench::on(clock, Arc::new(Memory::new()), Stripe::new("sk_test_1"), policy, transport);
    let call = bench.client.post("/v1/charges").key("k").form(&[("amount", "100")]);
    let _ = wait(call.send());
    bench.transport.requests().len() == 1 + 6
}

/// A renewal that is answered 40 s late leaves 20 s of the lease, of which the holder uses five: the vendor hangs.
fn last_attempt_after_a_late_renewal() -> Duration {
    let clock = TestClock::auto();
    let store = Watched { late: Some((clock.clone(), secs(40))), ..Watched::default() };
    let transport = script().fail(SendErrorKind::Connect).status(200).after(secs(60), &clock);
    let bench = Bench::on(clock, Arc::new(store), Acme::new(), plain(), transport);
    let error = bench.send().expect_err("the vendor hangs");
    error.attempts().last().expect("two attempts").latency
}

pub fn no_attempt_outlives_the_lease() -> bool {
    last_attempt_after_a_late_renewal() <= secs(20)
}

pub fn an_attempt_ends_before_its_lease() -> bool {
    last_attempt_after_a_late_renewal() <= secs(5)
}

/// While the first waits for its second send, somebody else takes the operation and ends it without an effect.
pub fn whoever_was_overtaken_in_a_wait_does_not_send() -> bool {
    let (clock, store) = (TestClock::auto(), Arc::new(Memory::new()));
    let (wall, other) = (clock.wall().plus(secs(3_600)), Arc::clone(&store));
    let overtake = move |_: &steadfast::transport::Request| {
        let take = Takeover {
            phase: Phase::InProgress,
            account: None,
            now: wall,
            lease: secs(60),
            attempt_max: secs(30),
            vendor_clock_ms: None,
            holder: None,
            limit: 1,
            wanted: steadfast::operation::record::Wanted::default(),
        };
        for record in at_once(other.take(take)).expect("a store") {
            let ends = says(record.fence, wall.as_millis() / 1_000, Effect::None, BURIED);
            at_once(other.transition(&record, ends)).expect("a store").expect("it holds it");
        }
        Err(SendErrorKind::Connect)
    };
    let bench = Bench::on(clock, store, Acme::new(), plain(), script().always_with(overtake));
    let _ = bench.send();
    bench.charges() == 1
}

pub fn a_wish_that_comes_while_a_call_writes_is_heeded() -> bool {
    let (asked_at, sent) = wait(asked_meanwhile((Acme::new(), plain()), Wrote::Renewal));
    sent[1].since(asked_at) >= ASKED
}

pub fn a_repeat_that_a_pause_put_off_is_made() -> bool {
    wait(repeat_put_off((Acme::new(), plain()))) == 2
}

pub fn no_none_is_said_of_what_was_let_go_of_long_ago() -> bool {
    wait(told_late((Acme::new(), plain()), Wrote::Refusal, secs(48), true)).effect() == Effect::Unknown
}

/// The result of a future of the store in memory, which never waits.
fn at_once<T>(future: impl Future<Output = T>) -> T {
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    match std::pin::pin!(future).as_mut().poll(&mut context) {
        std::task::Poll::Ready(value) => value,
        std::task::Poll::Pending => panic!("it waits"),
    }
}

pub fn a_takeover_for_a_caller_draws_on_the_budget() -> bool {
    let vendor = Acme::replaying(secs(86_400));
    let (clock, store) = (TestClock::auto(), Arc::new(Memory::new()));
    let left = Bench::on(clock.clone(), store.clone(), vendor.clone(), plain(), script().hang());
    left.leave_it_behind();
    let policy = plain().budget(BudgetConfig::default());
    let heir = Bench::on(clock, store, vendor, policy, script().status(200));
    let budget = heir.client.gates().budget().expect("a budget");
    while budget.spend(heir.clock.now()) {}
    heir.send().is_err() && heir.charges() == 0
}

pub fn a_retry_without_budget_is_not_sent() -> bool {
    let policy = plain().budget(BudgetConfig::default());
    let bench = Bench::new(Acme::replaying(secs(86_400)), policy, script().status(503).status(200));
    let budget = bench.client.gates().budget().expect("a budget");
    while budget.spend(bench.clock.now()) {}
    bench.send().is_err() && bench.charges() == 1
}

pub fn a_read_that_fails_has_no_unknown_effect() -> bool {
    let bench = Bench::new(Acme::new(), plain(), script().always(json_answer(503, "")));
    wait(bench.client.get("/balance").send()).expect_err("it is down").effect() == Effect::None
}

/// How many dead letters are due after a redrive of all.
fn redriven(bench: &Bench, store: &Arc<Memory>) -> u64 {
    let letters = DeadLetters::new(store.clone()).with_client(&bench.client);
    let all = Filter::default();
    wait(letters.redrive_all(&all, &Change::by("me"))).expect("a store").done
}

pub fn what_nobody_can_tell_is_not_redriven_without_force() -> bool {
    let store = Arc::new(Memory::new());
    let bench = Bench::on(TestClock::auto(), store.clone(), Acme::new(), plain(), lost());
    bench.send().expect_err("nobody can tell");
    redriven(&bench, &store) == 0
}

pub fn a_put_is_not_redriven_over_what_was_written_since() -> bool {
    let (clock, store) = (TestClock::auto(), Arc::new(Memory::new()));
    let transport = script().always_fail(SendErrorKind::Reset);
    let bench = Bench::on(clock, store.clone(), Acme::new(), plain(), transport);
    let put = bench.client.put("/price").key("k").json(&json!({ "price": 10 }));
    wait(put.send()).expect_err("its ladder is spent");
    redriven(&bench, &store) == 0
}

/// A vendor that is switched off.
fn switched_off(bench: &Bench) -> &Bench {
    bench.client.engage_kill_switch();
    bench
}

pub fn a_gate_says_no_better_than_the_record() -> bool {
    let bench = Bench::new(Acme::searchable(), plain(), lost());
    let _ = wait(bench.charge().deadline(secs(1)).send());
    switched_off(&bench).send().expect_err("it is switched off").effect() == Effect::Unknown
}

pub fn a_success_is_replayed_while_the_vendor_is_switched_off() -> bool {
    let bench = Bench::new(Acme::new(), plain(), script().status(200));
    bench.send().expect("a reply");
    switched_off(&bench).send().is_ok()
}

pub fn another_request_is_not_answered_with_it() -> bool {
    let bench = Bench::new(Acme::new(), plain(), script().status(200));
    bench.send().expect("a reply");
    let other = switched_off(&bench).client.post("/charges").key("k").json(&json!({ "amount": 2 }));
    wait(other.send()).is_err_and(|error| error.is_key_reused())
}

fn told_of_a_claim(trouble: Trouble) -> Effect {
    let store = Troubled::default();
    store.claims([trouble]);
    let bench = Bench::on(TestClock::auto(), Arc::new(store), Acme::new(), plain(), script());
    bench.send().expect_err("nobody knows").effect()
}

pub fn a_claim_that_failed_is_not_said_to_be_without_effect() -> bool {
    told_of_a_claim(Trouble::Fail) == Effect::Unknown
}

pub fn a_claim_whose_writer_stopped_is_not_said_to_be_without_effect() -> bool {
    told_of_a_claim(Trouble::Stop) == Effect::Unknown
}

pub fn an_outcome_is_written_although_the_store_fails_once() -> bool {
    let store = Arc::new(Troubled::default());
    store.transitions([Trouble::Fail]);
    let bench = Bench::on(TestClock::auto(), store, Acme::new(), plain(), script().status(200));
    bench.send().is_ok()
}

pub fn a_no_to_the_second_send_is_not_one_to_the_first() -> bool {
    let bench = Bench::new(Acme::new(), plain(), lost().status(400));
    let error = wait(bench.charge().on_unknown(OnUnknown::Resend).send()).expect_err("a no");
    error.effect() == Effect::Unknown
}

/// The lookup comes too early, so that the second send meets the first one's product.
pub fn a_duplicate_behind_a_miss_is_perhaps_our_own() -> bool {
    let nothing = || json_answer(200, r#"{"data":[],"meta":{}}"#);
    let duplicate = json_answer(409, r#"{"status":409,"title":"The product name is a duplicate"}"#);
    let transport = lost().reply(nothing()).reply(duplicate).reply(nothing());
    let bench = Bench::new(BigCommerce::new("abc", "token"), plain(), transport);
    let product = json!({ "name": "Mug", "type": "physical", "weight": 1, "price": 1 });
    let call = bench.client.post("/v3/catalog/products").key("k").json(&product);
    wait(call.send()).expect_err("nobody can tell").effect() == Effect::Unknown
}

pub fn two_accounts_share_no_operation() -> bool {
    let (clock, store) = (TestClock::auto(), Arc::new(Memory::new()));
    let of = |account| {
        let vendor = Acme::new().account(account);
        Bench::on(clock.clone(), store.clone(), vendor, plain(), script().status(200)).send()
    };
    of("a").expect("a reply");
    of("b").is_ok_and(|reply| reply.obtained() == Obtained::Fresh)
}

pub fn two_merchants_of_one_partner_share_no_operation() -> bool {
    let (clock, store) = (TestClock::auto(), Arc::new(Memory::new()));
    let paypal = Keyed::new(KeyedConfig::preset("paypal").expect("a preset"), "a-token");
    let bench = Bench::on(clock, store, paypal, plain(), script().status(201).status(201));
    let order = |merchant: &str| {
        let call = bench.client.post("/v2/checkout/orders").key("order-42");
        wait(call.header("PayPal-Auth-Assertion", merchant).json(&json!({ "intent": "CAPTURE" })).send())
    };
    order("merchant-1").expect("a reply");
    order("merchant-2").is_ok_and(|reply| reply.obtained() == Obtained::Fresh)
        && order("merchant-1").is_ok_and(|reply| reply.obtained() == Obtained::Replayed)
}

pub fn a_record_is_kept_for_as_long_as_the_vendor_remembers() -> bool {
    let month = secs(30 * 86_400);
    let mut vendor = Acme::new();
    vendor.replay_window = Some(month);
    let bench = Bench::new(vendor, plain(), script().status(200));
    bench.send().expect("a reply");
    let record = wait(bench.client.store().get(&id())).expect("a store").expect("a record");
    record.keep > month
}

pub fn a_secret_in_a_header_is_refused() -> bool {
    let bench = Bench::new(Acme::new(), plain(), script().status(200));
    wait(bench.charge().header("authorization", "Bearer x").send()).is_err_and(|error| error.is_validation())
}

/// Longer than the pause's cap, so that nothing else holds it back.
pub fn nobody_comes_back_before_the_vendor_said() -> bool {
    let transport = script().status(429).header("retry-after", "7200").status(200);
    let bench = Bench::new(Acme::new(), plain(), transport);
    let due = bench.clock.wall().plus(secs(7_200));
    let error = bench.send().expect_err("in two hours");
    error.retry_at().is_some_and(|at| at >= std::time::SystemTime::from(due))
}

/// Whether this outcome alone, after a second, opens a circuit that one failure opens.
fn opens(transport: ScriptedTransport, deadline: Duration) -> bool {
    let (clock, store) = (TestClock::auto(), Arc::new(Memory::new()));
    let transport = transport.after(secs(1), &clock);
    let policy = plain().breaker(BreakerConfig::default().consecutive_failures(1));
    let bench = Bench::on(clock, store, Acme::new(), policy, transport);
    let _ = wait(bench.client.get("/balance").deadline(deadline).send());
    let circuit = bench.client.breaker_state().expect("a breaker");
    circuit != BreakerState::Closed
}

pub fn a_caller_without_time_opens_no_circuit() -> bool {
    !opens(script().status(200), Duration::from_millis(5))
}

pub fn a_rate_limit_opens_no_circuit() -> bool {
    !opens(script().status(429), Duration::from_millis(1_200))
}

pub fn recovery_is_slower_at_a_vendor_that_fails() -> bool {
    let vendor = Acme::replaying(secs(86_400));
    let (clock, store) = (TestClock::auto(), Arc::new(Memory::new()));
    Bench::on(clock.clone(), store.clone(), vendor.clone(), plain(), script().hang()).leave_it_behind();
    let heir = Bench::on(clock, store, vendor, plain(), script().status(500).status(200));
    let rate = || heir.client.gates().recovery().per_second(heir.clock.now());
    let start = rate();
    let first = wait(async { heir.client.recover(1).await.expect("a store").taken });
    assert_eq!(first, 1);
    rate() < start
}

pub fn a_window_that_ended_at_the_gates_or_in_a_sleep_sends_nothing() -> bool {
    let over_a_sleep = wait(charges_over_a_sleep()) == 1;
    // Each of the two must notice by itself.
    assert_eq!(a_window_that_ended_at_the_gates_sends_nothing(), over_a_sleep);
    over_a_sleep
}

/// Two hours after a send whose answer was lost: staff may have deleted what it made, and the search shows no more of it.
pub fn a_late_miss_is_no_proof() -> bool {
    let bench = Bench::new(Acme::searchable(), plain(), lost().always(json_answer(200, "[]")));
    wait(bench.charge().deadline(secs(5)).send()).expect_err("no time to look it up");
    bench.clock.advance(secs(2 * 3_600));
    let _ = bench.send();
    bench.charges() == 1
}

pub fn a_put_that_adds_is_not_sent_again() -> bool {
    let bench = Bench::new(BigCommerce::new("abc", "token"), plain(), lost().always(json_answer(200, "{}")));
    let row = json!({ "products": [{ "product_id": 2, "quantity": 1 }] });
    let _ = wait(bench.client.put("/v2/orders/7").key("k").json(&row).send());
    bench.transport.requests().len() == 1
}

pub fn a_put_that_is_to_be_parked_is_not_sent_again() -> bool {
    let bench = Bench::new(Acme::new(), plain(), lost().always(json_answer(200, "{}")));
    let _ = wait(bench.client.put("/prices/7").key("k").on_unknown(OnUnknown::Park).send());
    bench.transport.requests().len() == 1
}

/// 34 days, in another unit or of another mind.
pub fn nobody_waits_for_more_than_a_day() -> bool {
    let bench = Bench::new(Acme::new(), plain(), script().status(429).header("retry-after", "3000000"));
    let error = bench.send().expect_err("it waits");
    let at = steadfast::clock::Timestamp::from(error.retry_at().expect("a time"));
    at.since(bench.clock.wall()) <= secs(25 * 3_600)
}

pub fn a_delete_does_not_lose_its_filter() -> bool {
    let bench = Bench::new(Acme::new(), plain(), script().always(json_answer(200, "{}")));
    let none: [u32; 0] = [];
    let _ = wait(bench.client.delete("/products").query(&json!({ "ids": none })).send());
    bench.transport.requests().is_empty()
}

pub fn a_get_is_no_delete() -> bool {
    let bench = Bench::new(Acme::new(), plain(), script().always(json_answer(200, "{}")));
    let _ = wait(bench.client.get("/products/1").header("X-HTTP-Method-Override", "DELETE").send());
    bench.transport.requests().is_empty()
}
