//! Refused credentials where no caller waits: they hold the account, and end nothing that was accepted.

use std::sync::Arc;

use steadfast::clock::Clock as _;
use steadfast::dead_letter::{Change, DeadLetters};
use steadfast::dispatcher::{Dispatcher, PERIOD};
use steadfast::operation::record::{Filter, Phase};
use steadfast::policy::Backoff;
use steadfast::store::{Memory, Sqlite, Store};
use steadfast::testkit::TestClock;
use steadfast::transport::Request;
use steadfast::vendor::{Keyed, KeyedConfig};
use steadfast::{Client, Disposition, Effect, Gate, Policy, Reason};

use super::ruled::{Ruled, enqueue, letters};
use super::shop::phases;
use super::time::{Watched, on_virtual_time};
use super::{ms, secs};
use support::in_memory;

async fn until_open(store: &Arc<dyn Store>, clock: &TestClock, open: u64, limit: std::time::Duration) {
    let began = clock.now();
    loop {
        let phases = phases(store).await;
        let count = |phase| phases.get(&phase).copied().unwrap_or(0);
        if count(Phase::Scheduled) + count(Phase::InProgress) == open {
            return;
        }
        assert!(clock.now().since(began) < limit, "{phases:?}");
        clock.latency(ms(250)).await;
    }
}

/// The sign-in fails for a while, as when a secret is rotated during a deploy.
async fn sign_in_fails(clock: TestClock, store: Arc<dyn Store>, lasts: std::time::Duration) {
    let vendor = Ruled::new(&clock, |_, _| 401);
    let client = vendor.client(&store, Policy::background());
    holds_and_goes_on(clock, store, lasts, vendor, client).await;
}

async fn holds_and_goes_on(
    clock: TestClock,
    store: Arc<dyn Store>,
    lasts: std::time::Duration,
    vendor: Ruled,
    client: Client,
) {
    enqueue(&client, "/v1/charges", 40).await;
    enqueue(&client, "/v1/refunds", 10).await;
    let dispatcher = client.keep_recovering(PERIOD);
    clock.latency(lasts).await;
    let refused = vendor.sent().len();
    assert_eq!(letters(&store).await, [], "none has ended");
    assert_eq!(phases(&store).await.get(&Phase::Refused), None, "and none is refused");
    assert_eq!(vendor.executed(), 0);
    let rounds = 6 + lasts.as_secs() as usize / 24;
    assert!(refused <= 10 + rounds, "{refused} requests with credentials that are refused");
    dispatcher.health().check(secs(60)).await.expect("one account's secret restarts nothing");

    vendor.turn(|_, _| 200);
    until_open(&store, &clock, 0, secs(45)).await;
    assert_eq!(vendor.executed(), 50);
    assert_eq!(phases(&store).await.into_iter().collect::<Vec<_>>(), [(Phase::Succeeded, 50)]);
}

#[test]
fn a_minute_of_401_ends_nothing_that_waits() {
    on_virtual_time(|clock, _| sign_in_fails(clock, Arc::new(Memory::new()), secs(60)));
}

#[test]
fn nor_does_what_a_keyed_vendor_is_said_to_refuse_a_secret_with() {
    on_virtual_time(|clock, _| async move {
        let store: Arc<dyn Store> = Arc::new(Memory::new());
        let vendor = Ruled::new(&clock, |_, _| 400);
        let config = KeyedConfig::from_toml(
            r#"
            name = "keyed"
            base_url = "https://keyed.test"
            key = { header = "Idempotency-Key" }
            unauthorized = [{ status = 400, json = { pointer = "/error/type", value = "api_error" } }]
        "#,
        );
        let keyed = Keyed::new(config.expect("a vendor"), "s3cret");
        let client = vendor.client_of(keyed, &store, Policy::background());
        holds_and_goes_on(clock, store, secs(60), vendor, client).await;
    });
}

#[test]
fn nor_do_two_hours_of_it_in_a_file() {
    let place = in_memory::directory();
    on_virtual_time(|clock, at_work| {
        let store = Sqlite::open(place.path().join("calls.db")).expect("opens");
        sign_in_fails(clock, Arc::new(Watched::new(store, at_work)), secs(2 * 3_600))
    });
}

/// A sign-in server that is overloaded is slow, too.
#[test]
fn while_one_probes_the_account_no_other_goes_out_with_what_was_refused() {
    on_virtual_time(|clock, _| async move {
        let store: Arc<dyn Store> = Arc::new(Memory::new());
        let mut vendor = Ruled::new(&clock, |_, _| 401);
        vendor.latency = secs(10);
        let client = vendor.client(&store, Policy::background());
        enqueue(&client, "/v1/charges", 20).await;
        let _dispatcher = client.keep_recovering(PERIOD);
        clock.latency(secs(300)).await;
        let begun: Vec<_> = vendor.sent().into_iter().map(|sent| sent.at).collect();
        // The first of all were under way together.
        let probes: Vec<_> = begun.iter().filter(|at| at.since(begun[0]) >= vendor.latency).collect();
        assert!(probes.len() > 5, "{begun:?}");
        assert!(probes.windows(2).all(|two| two[1].since(*two[0]) > vendor.latency), "{probes:?}");
    });
}

/// A web handler, or a job that is tried again, sends a key that waits: what was accepted goes on.
#[test]
fn who_sends_a_key_that_waits_does_not_end_it() {
    on_virtual_time(|clock, _| async move {
        let store: Arc<dyn Store> = Arc::new(Memory::new());
        let vendor = Ruled::new(&clock, |_, _| 401);
        let client = vendor.client(&store, Policy::background());
        let charge = |key: &str| client.post("/v1/charges").key(key.to_owned()).form(&[("amount", "1")]);
        let handles = [
            charge("held").enqueue().await.expect("accepted"),
            charge("due").enqueue().await.expect("accepted"),
        ];
        let dispatcher = client.keep_recovering(PERIOD);
        clock.latency(secs(20)).await;
        // Whether it was tried before or not, and as often as somebody asks.
        for key in ["held", "due", "held", "due"] {
            let error = charge(key).send().await.expect_err("the sign-in fails");
            assert_eq!((error.gate(), error.effect()), (Some(Gate::Credentials), Effect::None), "{error}");
            assert!(matches!(error.disposition(), Disposition::Continues { .. }), "{error}");
        }
        // A call of its own was accepted by nobody: its caller hears of it, each time.
        for _ in 0..2 {
            let error = charge("live").send().await.expect_err("the sign-in fails");
            assert!(error.is_refused() && error.effect() == Effect::None, "{error}");
        }
        vendor.turn(|_, _| 200);
        until_open(&store, &clock, 0, secs(45)).await;
        for handle in handles {
            handle.wait(secs(1)).await.expect("it was accepted");
        }
        assert_eq!(vendor.executed(), 2);
        charge("live").send().await.expect("its key is free");
        drop(dispatcher);
    });
}

#[test]
fn a_route_that_is_forbidden_holds_no_account() {
    on_virtual_time(|clock, _| async move {
        let store: Arc<dyn Store> = Arc::new(Memory::new());
        let vendor =
            Ruled::new(&clock, |request, _| if request.url.path() == "/v1/payouts" { 403 } else { 200 });
        let client = vendor.client(&store, Policy::background());
        enqueue(&client, "/v1/payouts", 5).await;
        enqueue(&client, "/v1/charges", 20).await;
        let _dispatcher = client.keep_recovering(PERIOD);
        until_open(&store, &clock, 0, secs(20)).await;
        let phases: Vec<_> = phases(&store).await.into_iter().collect();
        assert_eq!(phases, [(Phase::Succeeded, 20), (Phase::Refused, 5)]);
    });
}

#[test]
fn a_route_whose_credentials_are_refused_alone_is_a_matter_of_its_own_operations() {
    on_virtual_time(|clock, _| async move {
        let store: Arc<dyn Store> = Arc::new(Memory::new());
        let vendor =
            Ruled::new(&clock, |request, _| if request.url.path() == "/v1/payouts" { 401 } else { 200 });
        let client = vendor.client(&store, Policy::background());
        enqueue(&client, "/v1/payouts", 5).await;
        enqueue(&client, "/v1/charges", 200).await;
        let _dispatcher = client.keep_recovering(PERIOD);
        let live = async {
            for nth in 0..300 {
                clock.latency(ms(200)).await;
                let charge = client.post("/v1/charges").key(format!("live-{nth}")).form(&[("amount", "1")]);
                charge.send().await.expect("the account is well");
            }
        };
        live.await;
        until_open(&store, &clock, 0, secs(1)).await;
        assert_eq!(vendor.executed(), 500);
        let letters = letters(&store).await;
        assert_eq!(letters.len(), 5);
        for letter in letters {
            assert_eq!((letter.reason, letter.effect), (Some(Reason::Credentials), Effect::None));
        }
        let payouts = vendor.sent().iter().filter(|sent| sent.path == "/v1/payouts").count();
        assert!(payouts <= 30, "{payouts} requests for five payouts");
    });
}

#[test]
fn a_merchant_who_left_holds_up_no_other_and_ends_as_dead_letters() {
    on_virtual_time(|clock, _| async move {
        let store: Arc<dyn Store> = Arc::new(Memory::new());
        let left = |request: &Request| {
            request.headers.get("stripe-account").is_some_and(|account| account == "acct_left")
        };
        let vendor = Ruled::new(&clock, move |request, _| if left(request) { 401 } else { 200 });
        // The shortest that the vendor's window allows.
        let policy = Policy::background().retention(secs(26 * 3_600));
        let client = vendor.client(&store, policy);
        let charge = |account: &'static str, nth: usize| {
            let call = client.post("/v1/charges").header("stripe-account", account);
            call.key(format!("{account}-{nth}")).form(&[("amount", "1000")])
        };
        for nth in 0..30 {
            charge("acct_left", nth).enqueue().await.expect("recorded");
        }
        let dispatcher = client.keep_recovering(PERIOD);
        clock.latency(secs(30)).await;
        for nth in 0..30 {
            charge("acct_here", nth).enqueue().await.expect("recorded");
        }
        let began = clock.now();
        until_open(&store, &clock, 30, secs(10)).await;
        assert!(clock.now().since(began) < secs(10), "another account's wait for nothing");
        assert_eq!(vendor.executed(), 30);
        // For a minute this host's clock is nine days ahead.
        let right = clock.wall();
        clock.jump_wall(secs(9 * 24 * 3_600));
        clock.latency(secs(60)).await;
        clock.set_wall(right.plus(secs(60)));
        clock.latency(secs(25 * 3_600)).await;
        assert_eq!(letters(&store).await, [], "they are kept for as long as records are");
        dispatcher.health().check(secs(1)).await.expect("one merchant restarts nothing");
        clock.latency(secs(2 * 3_600)).await;
        let letters = letters(&store).await;
        assert_eq!(letters.len(), 30);
        assert!(letters.iter().all(|letter| letter.reason == Some(Reason::Credentials)));
        assert!(letters.iter().all(|letter| letter.effect == Effect::None), "and can be redriven");
    });
}

/// A platform's own secret, for a hundred merchants.
#[test]
fn a_platforms_secret_is_probed_once_a_second_whomever_it_is_for() {
    on_virtual_time(|clock, _| async move {
        let store: Arc<dyn Store> = Arc::new(Memory::new());
        let vendor = Ruled::new(&clock, |_, _| 401);
        let client = vendor.client(&store, Policy::background());
        for nth in 0..100 {
            let call = client.post("/v1/charges").header("stripe-account", format!("acct_{nth}"));
            call.key(format!("order-{nth}")).form(&[("amount", "1000")]).enqueue().await.expect("recorded");
        }
        let _dispatcher = client.keep_recovering(PERIOD);
        clock.latency(secs(120)).await;
        let first = vendor.sent().len();
        clock.latency(secs(60)).await;
        let probes = vendor.sent().len() - first;
        assert!(probes <= 61, "{probes} refused sign-ins a minute");
        assert_eq!(letters(&store).await, []);

        vendor.turn(|_, _| 200);
        until_open(&store, &clock, 0, secs(15)).await;
        assert_eq!(vendor.executed(), 100);
    });
}

/// The sign-in fails for three seconds of ten, for ten minutes.
#[test]
fn a_sign_in_that_comes_and_goes_ends_nothing() {
    on_virtual_time(|clock, _| async move {
        let store: Arc<dyn Store> = Arc::new(Memory::new());
        let vendor = Ruled::new(&clock, |_, at| {
            let second = at.since(steadfast::clock::Instant::ORIGIN).as_secs();
            if second < 600 && second % 10 < 3 { 401 } else { 200 }
        });
        let client = vendor.client(&store, Policy::background());
        let _dispatcher = client.keep_recovering(PERIOD);
        for nth in 0..60 {
            for path in ["/v1/charges", "/v1/refunds"] {
                let call = client.post(path).key(format!("{path}-{nth}")).form(&[("amount", "1000")]);
                call.enqueue().await.expect("recorded");
            }
            clock.latency(secs(9)).await;
        }
        until_open(&store, &clock, 0, secs(60)).await;
        assert_eq!(letters(&store).await, []);
        assert_eq!(vendor.executed(), 120);
    });
}

/// A letter that was written weeks ago and is redriven today has not waited for today's secret.
#[test]
fn an_hour_of_401_does_not_end_what_is_redriven_after_weeks() {
    on_virtual_time(|clock, _| async move {
        let store: Arc<dyn Store> = Arc::new(Memory::new());
        let vendor = Ruled::new(&clock, |_, _| 429);
        let client = vendor.client(&store, Policy::background());
        enqueue(&client, "/v1/charges", 5).await;
        let dispatcher = client.keep_recovering(PERIOD);
        until_open(&store, &clock, 0, secs(7_200)).await;
        assert_eq!(letters(&store).await.len(), 5);
        drop(dispatcher);
        clock.latency(secs(20 * 24 * 3_600)).await;
        let _dispatcher = client.keep_recovering(PERIOD);

        vendor.turn(|_, _| 401);
        let operator = DeadLetters::new(Arc::clone(&store)).with_client(&client).with_clock(clock.clone());
        operator.redrive_all(&Filter::default(), &Change::by("ann")).await.expect("redriven");
        assert_eq!(letters(&store).await, []);
        clock.latency(secs(3_600)).await;
        assert_eq!(letters(&store).await, [], "they wait");
        vendor.turn(|_, _| 200);
        until_open(&store, &clock, 0, secs(120)).await;
        assert_eq!(vendor.executed(), 5);
    });
}

#[test]
fn a_wrong_secret_in_one_of_two_processes_costs_nothing() {
    on_virtual_time(|clock, _| async move {
        let store: Arc<dyn Store> = Arc::new(Memory::new());
        let (wrong, right) = (Ruled::new(&clock, |_, _| 401), Ruled::new(&clock, |_, _| 200));
        let (one, other) =
            (wrong.client(&store, Policy::background()), right.client(&store, Policy::background()));
        enqueue(&one, "/v1/charges", 100).await;
        let dispatchers = [Dispatcher::over([&one]).start(), Dispatcher::over([&other]).start()];
        until_open(&store, &clock, 0, secs(60)).await;
        assert_eq!(right.executed(), 100);
        assert_eq!(phases(&store).await.into_iter().collect::<Vec<_>>(), [(Phase::Succeeded, 100)]);
        drop(dispatchers);
    });
}

#[test]
fn whoever_waits_is_told_as_ever() {
    on_virtual_time(|clock, _| async move {
        let store: Arc<dyn Store> = Arc::new(Memory::new());
        let vendor = Ruled::new(&clock, |_, _| 401);
        let client = vendor.client(&store, Policy::background());
        enqueue(&client, "/v1/charges", 3).await;
        let _dispatcher = client.keep_recovering(PERIOD);
        clock.latency(secs(10)).await;
        let charge = || client.post("/v1/charges").key("live").form(&[("amount", "1")]);
        let error = charge().send().await.expect_err("the secret is wrong");
        assert!(error.is_refused() && error.effect() == Effect::None, "{error}");
        // A live call's good answer is one, too.
        vendor.turn(|_, _| 200);
        charge().send().await.expect("it is mended");
        let began = clock.now();
        until_open(&store, &clock, 0, secs(5)).await;
        assert!(clock.now().since(began) <= secs(2));
    });
}

/// An operation that ended on the merits, and is redriven, meets its first refusal of the credentials as any other does.
#[test]
fn a_refusal_on_the_merits_is_none_of_the_credentials_after_a_redrive() {
    for is_forbidden_alone in [false, true] {
        on_virtual_time(move |clock, _| async move {
            let store: Arc<dyn Store> = Arc::new(Memory::new());
            let mut sent = 0;
            let vendor = Ruled::new(&clock, move |_, _| {
                sent += 1;
                if sent == 1 { 500 } else { 400 }
            });
            let config = KeyedConfig::from_toml(
                r#"
                name = "keyed"
                base_url = "https://keyed.test"
                key = { header = "Idempotency-Key" }
                window = "7d"
            "#,
            );
            let keyed = Keyed::new(config.expect("a vendor"), "s3cret");
            let policy = Policy::background().backoff(Backoff::ladder([secs(1)]));
            let client = vendor.client_of(keyed, &store, policy);
            enqueue(&client, "/v1/payouts", 1).await;
            let _dispatcher = client.keep_recovering(PERIOD);
            let operator =
                DeadLetters::new(Arc::clone(&store)).with_client(&client).with_clock(clock.clone());
            let redrive = async || {
                until_open(&store, &clock, 0, secs(60)).await;
                assert_eq!(letters(&store).await.len(), 1, "as often as was tried it was refused with 400");
                operator.redrive_all(&Filter::default(), &Change::by("ann")).await.expect("redriven");
            };
            redrive().await;
            until_open(&store, &clock, 0, secs(60)).await;
            // The sign-in fails for a moment, and the account is answered well since.
            vendor.turn(|_, _| 401);
            enqueue(&client, "/v1/charges", 1).await;
            clock.latency(secs(2)).await;
            let well = |request: &Request| if request.url.path() == "/v1/payouts" { 401 } else { 200 };
            vendor.turn(move |request, _| well(request));
            until_open(&store, &clock, 0, secs(60)).await;

            redrive().await;
            clock.latency(secs(1)).await;
            assert_eq!(letters(&store).await, [], "the first refusal of its credentials ends nothing");
            if is_forbidden_alone {
                let live = async {
                    for nth in 0..240 {
                        clock.latency(ms(250)).await;
                        let charge = client.post("/v1/charges").key(format!("live-{nth}"));
                        charge.form(&[("amount", "1")]).send().await.expect("the account is well");
                    }
                };
                live.await;
                assert_eq!(letters(&store).await[0].reason, Some(Reason::Credentials));
                let refused = vendor.sent().into_iter();
                let refused = refused.filter(|sent| sent.path == "/v1/payouts" && sent.status == 401);
                assert_eq!(refused.count(), 3, "the first, its ladder's one step, and the last");
            } else {
                vendor.turn(|_, _| 200);
                until_open(&store, &clock, 0, secs(60)).await;
                assert_eq!(letters(&store).await, []);
            }
        });
    }
}
