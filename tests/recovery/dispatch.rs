//! One dispatcher of many clients: in turn, within bounds, on time, and away without leaving anything held.

mod desk;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use steadfast::clock::Clock as _;
use steadfast::dead_letter::{Change, DeadLetters};
use steadfast::dispatcher::{Dispatcher, PERIOD};
use steadfast::operation::record::{Filter, Phase, State};
use steadfast::policy::{Backoff, Mode, RateConfig, RecoveryConfig, Timeouts};
use steadfast::store::{Memory, Store, StoreError};
use steadfast::{Disposition, Effect, Policy};

use crate::delivery::time::on_virtual_time;
use desk::{Desk, Seen};
use support::rig::{ms, secs};

const HOUR: Duration = Duration::from_secs(3_600);

/// In memory, for more records than it holds by itself.
fn seen() -> Arc<Seen> {
    Seen::new(Arc::new(Memory::with_capacity(50_000)))
}

/// A client's million, here a few thousand, has all places while it is alone; another's one then has the next place.
#[test]
fn one_accounts_backlog_does_not_starve_anothers_one() {
    for (first_is_late, places) in [(true, 8), (false, 8), (true, 1), (false, 1)] {
        on_virtual_time(|clock, _| async move {
            let (store, desk) = (seen(), Desk::new(&clock));
            let policy = || Policy::background().recovery(RecoveryConfig::new(500, 500));
            let [a, b] = ["a", "b"].map(|account| desk.client("acme", account, &store, policy()));
            let (many, one) = if first_is_late { (&b, &a) } else { (&a, &b) };
            for number in 0..5_000 {
                many.post("/many").key(format!("order-{number}")).enqueue().await.expect("recorded");
            }
            let dispatcher = Dispatcher::over([&a, &b]).at_once(places).start();
            clock.latency(secs(20)).await;
            let began = clock.now();
            let alone = desk.sent("/many");
            assert!((places * 112..places * 140).contains(&alone), "150 ms each, for 20 s: {alone}");
            let late = one.post("/one").key("one").enqueue().await.expect("recorded");
            late.wait(secs(60)).await.expect("it is delivered");
            let took = clock.now().since(began);
            assert!(took <= ms(320), "{took:?}: the end of one operation, and its own");
            assert!(desk.sent("/many") < 4_000, "there was a backlog all the while");
            drop(dispatcher);
        });
    }
}

/// Ten accounts with a backlog each get the same part of their vendor's places.
#[test]
fn accounts_with_a_backlog_share_the_places_evenly() {
    on_virtual_time(|clock, _| async move {
        let (store, desk) = (seen(), Desk::new(&clock));
        let policy = || Policy::background().recovery(RecoveryConfig::new(500, 500));
        let clients: Vec<_> =
            (0..10).map(|nth| desk.client("acme", &format!("a{nth}"), &store, policy())).collect();
        for client in &clients {
            for number in 0..500 {
                client.post("/x").key(format!("order-{number}")).enqueue().await.expect("recorded");
            }
        }
        let _dispatcher = Dispatcher::over(&clients).at_once(16).start();
        clock.latency(secs(20)).await;
        let sent = desk.by_account();
        let (least, most) = (*sent.values().min().expect("some"), *sent.values().max().expect("some"));
        assert_eq!(sent.len(), 10);
        assert!(least > 100 && most - least <= most / 10, "{sent:?}");
    });
}

/// The rate is an account's. Neither another account of the same dispatcher has a part in it, nor another process that
/// delivers nothing because a gate is closed for it.
#[test]
fn an_account_has_its_rate_beside_another_one_and_beside_a_process_that_only_waits() {
    on_virtual_time(|clock, _| async move {
        let desk = Desk::new(&clock);
        let (here, there) = seen().two_processes();
        let policy = || Policy::background().recovery(RecoveryConfig::new(10, 10));
        let clients = ["a", "b"].map(|account| desk.client("acme", account, &here, policy()));
        for client in &clients {
            for number in 0..400 {
                client.post("/x").key(format!("order-{number}")).enqueue().await.expect("recorded");
            }
        }
        let stopped = desk.client("acme", "a", &there, policy());
        stopped.engage_kill_switch();
        let _waits = stopped.keep_recovering(PERIOD);
        let _delivers = Dispatcher::over(&clients).start();
        clock.latency(secs(30)).await;
        let sent = desk.by_account();
        assert_eq!(sent.len(), 2);
        assert!(sent.values().all(|sent| (270..=330).contains(sent)), "ten a second: {sent:?}");
    });
}

#[test]
fn no_more_of_a_vendor_are_under_way_than_it_was_given_places() {
    on_virtual_time(|clock, _| async move {
        let (store, desk) = (seen(), Desk::new(&clock));
        let elsewhere = seen();
        let policy = || Policy::background().recovery(RecoveryConfig::new(500, 500));
        let clients = [
            desk.client("acme", "a", &store, policy()),
            desk.client("acme", "b", &store, policy()),
            desk.client("acme", "c", &elsewhere, policy()),
            desk.client("other", "a", &store, policy()),
        ];
        for client in &clients {
            for number in 0..200 {
                client.post("/x").key(format!("order-{number}")).enqueue().await.expect("recorded");
            }
        }
        let dispatcher = Dispatcher::over(clients).at_once(5).start();
        clock.latency(secs(120)).await;
        assert_eq!(desk.sent("/x"), 800, "all of them");
        assert_eq!(desk.most("acme"), 5, "over three accounts and two stores");
        assert_eq!(desk.most("other"), 5, "and another vendor's are its own");
        assert_eq!(dispatcher.stop(secs(1)).await, 0);
    });
}

/// One client enqueues, another one of the same store and account delivers; the next look would be in an hour.
#[test]
fn what_is_enqueued_in_the_process_begins_at_once_whoever_enqueued_it() {
    on_virtual_time(|clock, _| async move {
        let (store, desk) = (seen(), Desk::new(&clock));
        let client = || desk.client("acme", "a", &store, Policy::background());
        let (delivers, enqueues) = (client(), client());
        let _dispatcher = delivers.keep_recovering(HOUR);
        clock.latency(secs(100)).await;
        for key in ["one", "two"] {
            let began = clock.now();
            enqueues.post("/x").key(key).enqueue().await.expect("recorded");
            clock.latency(ms(149)).await;
            assert_eq!(desk.last_began(), Some(began), "{key}");
            clock.latency(secs(7)).await;
        }
        // A call that another process enqueues begins when this one is told to look.
        let (elsewhere, _) = store.two_processes();
        let enqueues = desk.client("acme", "a", &elsewhere, Policy::background());
        enqueues.post("/x").key("three").enqueue().await.expect("recorded");
        clock.latency(secs(7)).await;
        let began = clock.now();
        delivers.wake();
        clock.latency(ms(1)).await;
        assert_eq!(desk.last_began(), Some(began));
    });
}

/// A call for later begins at its time, neither before nor a look's period after it, also if it was enqueued before
/// the dispatcher started or behind many others.
#[test]
fn what_is_for_later_begins_at_its_time() {
    on_virtual_time(|clock, _| async move {
        let (store, desk) = (seen(), Desk::new(&clock));
        let client = || desk.client("acme", "a", &store, Policy::background());
        let (delivers, enqueues) = (client(), client());
        let _dispatcher = delivers.keep_recovering(HOUR);
        clock.latency(secs(1)).await;
        let wall = clock.wall();
        for (key, after) in [("late", 2_345), ("early", 1_234), ("first", 1)] {
            let at = wall.plus(ms(after));
            enqueues.post("/x").key(key).at(at).enqueue().await.expect("recorded");
        }
        for after in [1, 1_234, 2_345] {
            let at = wall.plus(ms(after));
            clock.latency(at.since(clock.wall())).await;
            clock.latency(ms(1)).await;
            assert_eq!(desk.last_began_at(), Some(at), "{after} ms");
        }
    });
    on_virtual_time(|clock, _| async move {
        let (store, desk) = (seen(), Desk::new(&clock));
        let client = desk.client("acme", "a", &store, Policy::background());
        let at = clock.wall().plus(ms(2_345));
        client.post("/x").key("k").at(at).enqueue().await.expect("recorded");
        let _dispatcher = client.keep_recovering(PERIOD);
        clock.latency(secs(4)).await;
        let began = desk.last_began_at().expect("it was sent");
        assert!(began >= at && began <= at.plus(ms(20)), "a look sees what is due before the next one");
    });
}

/// A call that ran out of time is the dispatcher's at the time that its caller was told.
#[test]
fn a_call_that_is_handed_over_goes_on_at_its_time() {
    on_virtual_time(|clock, _| async move {
        let (store, desk) = (seen(), Desk::new(&clock));
        let client = desk.client("acme", "a", &store, Policy::background());
        let _dispatcher = client.keep_recovering(HOUR);
        clock.latency(secs(1)).await;
        desk.asks_for_seconds(7);
        let told =
            client.post("/x").key("k").deadline(secs(2)).send().await.expect_err("it has no time left");
        let Disposition::Continues { at: Some(at) } = told.disposition() else { panic!("{told:?}") };
        assert_eq!(desk.sent("/x"), 1);
        clock.latency(secs(20)).await;
        assert_eq!(desk.sent("/x"), 2);
        assert_eq!(desk.last_began_at(), Some(at));
        let record = only(&*store).await;
        assert!(matches!(record, State::Succeeded { .. }), "{record:?}");
    });
}

/// An operator's page in the service makes a letter due: it is sent at once.
#[test]
fn what_is_redriven_in_the_process_begins_at_once() {
    on_virtual_time(|clock, _| async move {
        let (store, desk) = (seen(), Desk::new(&clock));
        let policy = Policy::background().backoff(Backoff::none());
        let client = desk.client("acme", "a", &store, policy);
        let _dispatcher = client.keep_recovering(HOUR);
        clock.latency(secs(1)).await;
        desk.asks_for_seconds(1);
        let told = client.post("/x").key("k").send().await.expect_err("there is no second try");
        assert!(told.is_dead_letter(), "{told:?}");
        clock.latency(secs(10)).await;
        let letters = DeadLetters::new(Arc::clone(&store) as Arc<dyn Store>)
            .with_clock(Arc::new(clock.clone()))
            .with_client(&client);
        let redriven = letters.redrive_all(&Filter::default(), &Change::by("ada")).await;
        assert_eq!(redriven.expect("a store").done, 1);
        let began = clock.now();
        clock.latency(ms(100)).await;
        assert_eq!((desk.sent("/x"), desk.last_began()), (2, Some(began)));
    });
}

/// The end of one is the turn of the next in its sequence, also where a handle brings it about.
#[test]
fn what_is_behind_a_cancelled_one_begins_at_once() {
    on_virtual_time(|clock, _| async move {
        let (store, desk) = (seen(), Desk::new(&clock));
        let client = desk.client("acme", "a", &store, Policy::background());
        let _dispatcher = client.keep_recovering(HOUR);
        let call = |path: &str| client.post(path).key(path).sequence("customer-7");
        let first = call("/first").after(HOUR).enqueue().await.expect("recorded");
        call("/next").enqueue().await.expect("recorded");
        clock.latency(secs(10)).await;
        assert_eq!(desk.sent("/next"), 0);
        first.cancel("not wanted").await.expect("it waits");
        clock.latency(secs(1)).await;
        assert_eq!((desk.sent("/first"), desk.sent("/next")), (0, 1));
    });
}

/// A dispatcher that runs already finds it by looking, once the lease has run out.
#[test]
fn what_a_process_had_in_hand_when_it_died_is_taken_over() {
    on_virtual_time(|clock, _| async move {
        let desk = Desk::new(&clock);
        let (here, there) = seen().two_processes();
        let dies = desk.client("acme", "a", &there, one_in_four_seconds());
        let dispatcher = dies.keep_recovering(PERIOD);
        taken_and_waiting(&desk, &dies).await;
        drop(dispatcher);
        assert_eq!(attempts_of(&*here, "taken").await, (Phase::InProgress, 0));
        let _heir = desk.client("acme", "a", &here, Policy::background()).keep_recovering(PERIOD);
        clock.latency(HOUR).await;
        let came_to = attempts_of(&*here, "taken").await;
        assert_eq!(
            came_to,
            (Phase::Dead, 0),
            "the heir cannot tell that it was not sent, and this vendor replays nothing"
        );
    });
}

#[test]
fn a_store_that_fails_is_asked_again_after_the_period() {
    on_virtual_time(|clock, _| async move {
        let desk = Desk::new(&clock);
        let (store, there) = seen().two_processes();
        let client = desk.client("acme", "a", &store, Policy::background());
        let _dispatcher = client.keep_recovering(PERIOD);
        client.post("/x").key("k").after(secs(5)).enqueue().await.expect("recorded");
        clock.latency(ms(3_500)).await;
        // It has just found something, and looks again soon.
        let elsewhere = desk.client("acme", "a", &there, Policy::background());
        elsewhere.post("/y").key("found").enqueue().await.expect("recorded");
        while desk.sent("/y") == 0 {
            clock.latency(ms(1)).await;
        }
        let before = store.counts();
        store.fails.store(true, Ordering::Relaxed);
        clock.latency(secs(20)).await;
        let [looks, takes, ..] = store.counts_since(before);
        assert!((15..=20).contains(&looks) && (15..=20).contains(&takes), "{looks} looks, {takes} takes");
        store.fails.store(false, Ordering::Relaxed);
        clock.latency(secs(2)).await;
        assert_eq!(desk.sent("/x"), 1);
    });
}

/// A call that another process enqueues is found within the period, and after a find within a sixteenth of it.
#[test]
fn what_another_process_enqueues_is_found_within_the_period() {
    on_virtual_time(|clock, _| async move {
        let desk = Desk::new(&clock);
        let (here, there) = seen().two_processes();
        let delivers = desk.client("acme", "a", &here, Policy::background());
        let enqueues = desk.client("acme", "a", &there, Policy::background());
        let _dispatcher = delivers.keep_recovering(PERIOD);
        clock.latency(ms(60_300)).await;
        let mut waits = Vec::new();
        for key in ["one", "two", "three"] {
            let began = clock.now();
            enqueues.post("/x").key(key).enqueue().await.expect("recorded");
            clock.latency(ms(1_001)).await;
            waits.push(desk.last_began().expect("within the period").since(began));
        }
        assert!(waits[0] <= PERIOD && waits[0] > ms(100), "{waits:?}");
        assert!(waits.iter().all(|wait| *wait <= PERIOD), "{waits:?}");
        clock.latency(secs(10)).await;
        enqueues.post("/x").key("four").enqueue().await.expect("recorded");
        let found = desk.sent("/x");
        while desk.sent("/x") == found {
            clock.latency(ms(1)).await;
        }
        let began = clock.now();
        enqueues.post("/x").key("five").enqueue().await.expect("recorded");
        clock.latency(ms(200)).await;
        assert_eq!(desk.sent("/x"), found + 2, "soon after a find");
        assert!(desk.last_began().expect("soon").since(began) <= PERIOD / 8);
    });
}

/// However many clients, an idle store is asked once in a period, and nothing else.
#[test]
fn an_idle_store_is_asked_once_a_second_for_all_of_its_clients() {
    on_virtual_time(|clock, _| async move {
        let (store, desk) = (seen(), Desk::new(&clock));
        let clients: Vec<_> = (0..10)
            .map(|nth| desk.client("acme", &format!("a{nth}"), &store, Policy::background()))
            .collect();
        // There is something on record, and nothing to do.
        clients[3].post("/x").key("k").after(10 * HOUR).enqueue().await.expect("recorded");
        let _dispatcher = Dispatcher::over(&clients).start();
        clock.latency(secs(100)).await;
        let before = store.counts();
        clock.latency(secs(100)).await;
        let [looks, takes, purges, others] = store.counts_since(before);
        assert!((99..=101).contains(&looks), "{looks} looks in 100 s");
        assert_eq!((takes, purges, others), (0, 0, 0));
    });
}

/// A circuit that is open, and a pause, cost an operation nothing of its ladder, however long they last.
#[test]
fn a_closed_gate_postpones_and_spends_no_rung() {
    on_virtual_time(|clock, _| async move {
        let (store, desk) = (seen(), Desk::new(&clock));
        let client = desk.client("acme", "a", &store, Policy::background());
        let dispatcher = client.keep_recovering(PERIOD);
        client.set_breaker_mode(Mode::ForcedOpen);
        for number in 0..20 {
            client.post("/x").key(format!("order-{number}")).enqueue().await.expect("recorded");
        }
        clock.latency(HOUR).await;
        assert_eq!(desk.sent("/x"), 0);
        client.set_breaker_mode(Mode::Normal);
        client.pause_for(secs(60));
        clock.latency(secs(59)).await;
        assert_eq!((desk.sent("/x"), attempts(&*store).await), (0, vec![0; 20]));
        clock.latency(secs(30)).await;
        assert_eq!(attempts(&*store).await, vec![1; 20], "one attempt each, and it was good");
        assert_eq!(dispatcher.stop(secs(1)).await, 0);
    });
}

/// A gate that closes after an operation was taken.
#[test]
fn what_was_taken_and_meets_a_pause_is_postponed_without_an_attempt() {
    on_virtual_time(|clock, _| async move {
        let (store, desk) = (seen(), Desk::new(&clock));
        let client = desk.client("acme", "a", &store, one_in_four_seconds());
        let _dispatcher = client.keep_recovering(PERIOD);
        taken_and_waiting(&desk, &client).await;
        client.pause_for(secs(60));
        clock.latency(secs(10)).await;
        assert_eq!(attempts_of(&*store, "taken").await, (Phase::Scheduled, 0));
        clock.latency(secs(60)).await;
        assert_eq!(attempts_of(&*store, "taken").await, (Phase::Succeeded, 1));
    });
}

/// An operation that was taken and not sent is let go of at once: another process sends it without waiting for a
/// lease.
#[test]
fn a_dispatcher_that_stops_lets_go_of_what_it_has_not_sent() {
    on_virtual_time(|clock, _| async move {
        let (store, desk) = (seen(), Desk::new(&clock));
        let client = desk.client("acme", "a", &store, one_in_four_seconds());
        let dispatcher = client.keep_recovering(HOUR);
        taken_and_waiting(&desk, &client).await;
        let began = clock.now();
        assert_eq!(dispatcher.stop(secs(30)).await, 0, "nothing is cut off");
        assert_eq!(clock.now(), began, "and nothing is waited for");
        assert_eq!(attempts_of(&*store, "taken").await, (Phase::Scheduled, 0));
        let other = desk.client("acme", "a", &store, Policy::background());
        let _other = other.keep_recovering(PERIOD);
        clock.latency(ms(200)).await;
        assert_eq!(attempts_of(&*store, "taken").await, (Phase::Succeeded, 1), "by another process, at once");
    });
}

/// An operation that waits for its next attempt keeps the time of that attempt, and its attempts.
#[test]
fn a_dispatcher_that_stops_leaves_a_retry_to_its_time() {
    on_virtual_time(|clock, _| async move {
        let (store, desk) = (seen(), Desk::new(&clock));
        let client = desk.client("acme", "a", &store, Policy::background());
        let dispatcher = client.keep_recovering(HOUR);
        desk.asks_for_seconds(4);
        client.post("/x").key("k").enqueue().await.expect("recorded");
        clock.latency(secs(1)).await;
        assert!(matches!(only(&*store).await, State::InProgress { .. }), "it waits in memory");
        assert_eq!(dispatcher.stop(secs(30)).await, 0);
        let State::Scheduled { at } = only(&*store).await else { panic!("it was let go of") };
        let left = at.since(clock.wall());
        assert!(left > secs(3) && left < secs(5), "{left:?}: when the vendor asked for it");
        assert_eq!(attempts(&*store).await, [1]);
    });
}

/// An operation that waits for a pause that the vendor asked for, though of another call: whoever takes it next knows
/// nothing of it.
#[test]
fn a_dispatcher_that_stops_keeps_the_wait_that_the_vendor_asked_for() {
    on_virtual_time(|clock, _| async move {
        let (store, desk) = (seen(), Desk::new(&clock));
        let client = desk.client("acme", "a", &store, one_in_four_seconds());
        let dispatcher = client.keep_recovering(HOUR);
        taken_and_waiting(&desk, &client).await;
        client.pause_for(secs(20));
        let sent = desk.sent("/x");
        assert_eq!(dispatcher.stop(secs(30)).await, 0, "nothing is cut off");
        let other = desk.client("acme", "a", &store, Policy::background());
        let _other = other.keep_recovering(PERIOD);
        clock.latency(secs(19)).await;
        assert_eq!(desk.sent("/x"), sent, "not before");
        clock.latency(secs(2)).await;
        assert_eq!(attempts_of(&*store, "taken").await, (Phase::Succeeded, 1));
    });
}

/// The vendor's word is known nowhere else until the store takes it.
#[test]
fn a_dispatcher_that_stops_waits_for_an_outcome_that_is_still_being_written() {
    for (mended_after, cut_off, phase) in [(2, 0, Phase::Succeeded), (20, 1, Phase::InProgress)] {
        on_virtual_time(|clock, _| async move {
            let (store, desk) = (seen(), Desk::new(&clock));
            let policy = Policy::background().timeout(Timeouts::new(secs(1), secs(1), secs(2)));
            let client = desk.client("acme", "a", &store, policy);
            store.takes_no_success.store(true, Ordering::Relaxed);
            client.post("/x").key("k").enqueue().await.expect("recorded");
            let dispatcher = client.keep_recovering(PERIOD);
            clock.latency(secs(4)).await;
            let (mended, time) = (store.clone(), clock.clone());
            tokio::spawn(async move {
                time.latency(secs(mended_after)).await;
                mended.takes_no_success.store(false, Ordering::Relaxed);
            });
            assert_eq!(dispatcher.stop(secs(10)).await, cut_off);
            assert_eq!(attempts_of(&*store, "k").await.0, phase);
        });
    }
}

#[test]
fn a_dispatcher_says_whether_it_is_at_work() {
    on_virtual_time(|clock, _| async move {
        let (store, desk) = (seen(), Desk::new(&clock));
        let (good, bad) = (seen(), store);
        let clients = [
            desk.client("acme", "a", &good, Policy::background()),
            desk.client("acme", "b", &bad, Policy::background()),
        ];
        let dispatcher = Dispatcher::over(clients).start();
        clock.latency(secs(100)).await;
        let health = dispatcher.health();
        health.check(secs(1)).await.expect("it is");
        bad.fails.store(true, Ordering::Relaxed);
        let unwell = health.check(secs(1)).await.expect_err("its store fails");
        assert_eq!(unwell.to_string(), "the store of acme fails");
        let source = std::error::Error::source(&unwell).expect("the store's own");
        assert!(source.is::<StoreError>(), "{source}");
        bad.fails.store(false, Ordering::Relaxed);
        bad.hangs.store(true, Ordering::Relaxed);
        clock.latency(secs(10)).await;
        let (unwell, ()) = tokio::join!(health.check(secs(1)), clock.latency(secs(2)));
        let unwell = unwell.expect_err("it hangs");
        assert_eq!(unwell.to_string(), "the store of acme does not answer within 1s");
        // The other store is delivered from all the while.
        desk.client("acme", "a", &good, Policy::background())
            .post("/x")
            .key("k")
            .enqueue()
            .await
            .expect("recorded");
        clock.latency(secs(1)).await;
        assert_eq!(desk.sent("/x"), 1);
        // It answers again, but a loop that had asked it still waits.
        bad.hangs.store(false, Ordering::Relaxed);
        clock.latency(secs(10)).await;
        let unwell = health.check(secs(1)).await.expect_err("one loop does not turn");
        assert!(unwell.to_string().starts_with("the delivery from the store of acme has not moved for "));
        // No longer than for half a minute.
        clock.latency(secs(10)).await;
        health.check(secs(1)).await.expect("it has given the answer up");
        let late = desk.client("acme", "b", &bad, Policy::background());
        late.post("/late").key("k").enqueue().await.expect("recorded");
        clock.latency(secs(1)).await;
        assert_eq!(desk.sent("/late"), 1);
        // The error that it failed with before it hung is told beside.
        bad.fails.store(true, Ordering::Relaxed);
        clock.latency(secs(2)).await;
        bad.fails.store(false, Ordering::Relaxed);
        bad.hangs.store(true, Ordering::Relaxed);
        let (unwell, ()) = tokio::join!(health.check(secs(1)), clock.latency(secs(2)));
        let unwell = unwell.expect_err("it hangs");
        assert_eq!(unwell.to_string(), "the store of acme does not answer within 1s");
        assert!(std::error::Error::source(&unwell).is_some(), "what it said the last time");
        assert!(format!("{health:?}").len() < 400, "{health:?}");
        bad.hangs.store(false, Ordering::Relaxed);
        drop(dispatcher);
        clock.latency(secs(1)).await;
        let ended = health.check(secs(1)).await.expect_err("it was dropped");
        assert_eq!(ended.to_string(), "the delivery from the store of acme has ended");
    });
}

/// The store's clock is a few milliseconds behind what the process believes of it. An operation that is due is told a
/// little early, and there is nothing to take yet.
#[test]
fn what_is_told_a_little_early_does_not_wait_for_the_next_look() {
    on_virtual_time(|clock, _| async move {
        let (store, desk) = (seen(), Desk::new(&clock));
        store.is_behind_by_ms.store(5, Ordering::Relaxed);
        let client = desk.client("acme", "a", &store, Policy::background());
        let _dispatcher = Dispatcher::over([&client]).period(HOUR).start();
        clock.latency(secs(10)).await;
        let began = clock.now();
        client.post("/x").key("k").after(secs(5)).enqueue().await.expect("recorded");
        clock.latency(secs(60)).await;
        let sent = desk.last_began().expect("it was sent").since(began);
        assert!(sent >= secs(5) && sent <= secs(5) + ms(500), "{sent:?}");
        // And when it was taken, nothing more is asked for it.
        let before = store.counts();
        clock.latency(secs(600)).await;
        let [looks, takes, ..] = store.counts_since(before);
        assert!(looks + takes <= 20, "{looks} looks, {takes} takes");
    });
}

fn one_in_four_seconds() -> Policy {
    Policy::background().rate(RateConfig::new(1, secs(4)))
}

/// A live call has the rate's only start, so that what is due is taken and waits for its turn.
async fn taken_and_waiting(desk: &Desk, client: &steadfast::Client) {
    desk.clock.latency(secs(10)).await;
    client.post("/live").key("live").send().await.expect("it has the start");
    client.post("/x").key("taken").enqueue().await.expect("recorded");
    desk.clock.latency(ms(500)).await;
    assert_eq!(attempts_of(client.store(), "taken").await, (Phase::InProgress, 0));
}

async fn attempts_of(store: &dyn Store, key: &str) -> (Phase, u32) {
    let rows = store.list(&Filter::default(), None, 100).await.expect("a store").rows;
    let row = rows.iter().find(|row| row.id.key.as_str() == key).expect("it is on record");
    (row.phase, row.attempts)
}

async fn attempts(store: &dyn Store) -> Vec<u32> {
    let rows = store.list(&Filter::default(), None, 100).await.expect("a store").rows;
    assert!(rows.iter().all(|row| row.effect != Effect::Unknown), "{rows:?}");
    rows.iter().map(|row| row.attempts).collect()
}

/// The state of the only operation.
async fn only(store: &dyn Store) -> State {
    let rows = store.list(&Filter::default(), None, 2).await.expect("a store").rows;
    assert_eq!(rows.len(), 1);
    store.get(&rows[0].id).await.expect("a store").expect("it is there").state
}
