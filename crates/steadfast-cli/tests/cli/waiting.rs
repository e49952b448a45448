//! Waiting operations and the reasons; commands on many at once; a vendor's answer that must not change the
//! output.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use support::commands;

use steadfast::clock::{Clock, SystemClock};
use steadfast::operation::record::{Filter, Phase, Takeover};
use steadfast::store::{Sqlite, Store};
use steadfast::testkit::ScriptedTransport;
use steadfast::transport::Answer;
use steadfast_core::store::delivery::{Beat, Heartbeat};

use super::{NOW, TestDirectory, pay};

/// Enqueues calls that are due since so long ago.
async fn enqueue(place: &TestDirectory, ago: Duration, keys: impl IntoIterator<Item = String>) {
    let stripe = place.stripe(ago, &ScriptedTransport::new());
    for key in keys {
        stripe.post("/v1/quotes").key(key).form(&[("amount", "1000")]).enqueue().await.expect("recorded");
    }
}

/// Writes the heartbeat of another process's dispatcher for an account.
async fn write_heartbeat(place: &TestDirectory, dispatcher: &str, status: Value) {
    let store = Sqlite::open(place.path("calls.db")).expect("opens");
    let (account, says) = ("default/stripe/test".to_owned(), Some(status.to_string()));
    let beats = vec![Beat { account, dispatcher: dispatcher.to_owned(), says }];
    let beat = Heartbeat { now: SystemClock::new().wall(), lasts: Duration::from_secs(60), beats };
    store.delivery().expect("it has").heartbeat(&beat).await.expect("works");
    store.close().await;
}

fn fits_a_screen(text: &str) {
    let widest = text.lines().map(|line| line.chars().count()).max().unwrap_or_default();
    assert!(widest <= 80 && text.lines().count() <= 24, "{text}");
}

#[tokio::test]
async fn status_shows_outages_backlogs_and_their_end_in_one_screen() {
    let place = TestDirectory::fresh();
    place.lost("dead", NOW).await;
    enqueue(&place, Duration::from_secs(500), (0..30).map(|nth| format!("order-{nth}"))).await;
    let text = place.run(&["status"]).ended(0);
    assert!(text.contains("30 wait, 30 overdue, the oldest for 8m 2"), "{text}");
    assert!(text.contains("no process says that it delivers"), "{text}");
    assert!(text.contains("1 dead letters"), "{text}");
    fits_a_screen(&text);

    let open = json!({
        "gone_per_second": 2.0, "shut": [{ "gate": "circuit", "since_ms": 1_200_000, "left_ms": 4_000 }],
    });
    write_heartbeat(&place, "one", open).await;
    write_heartbeat(&place, "two", json!({ "gone_per_second": 1.0 })).await;
    let text = place.run(&["status"]).ended(0);
    let joined = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(joined.contains("DOWN: its circuit is open since ") && joined.contains("(20m"), "{text}");
    assert!(joined.contains("in 1 of 2 processes") && joined.contains("at 3.0 a second"), "{text}");
    assert!(joined.contains("gone in 10s") && !text.contains("no process says"), "{text}");
    fits_a_screen(&text);
    let account = place.json(0, &["status"])["accounts"][0].take();
    assert_eq!(
        (&account["waiting"], &account["overdue"], &account["dead"]),
        (&30.into(), &30.into(), &1.into())
    );
    assert_eq!(
        (&account["closed"][0]["gate"], &account["closed"][0]["dispatchers"]),
        (&"circuit".into(), &1.into())
    );
    assert_eq!(account["gone_in_ms"], 10_000);

    let held = json!({ "shut": [{ "gate": "held", "since_ms": 600_000, "left_ms": 20_000 }] });
    write_heartbeat(&place, "three", held).await;
    let text = place.run(&["status"]).ended(0);
    let joined = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        joined.contains("HELD: its credentials were refused since ") && joined.contains("(10m"),
        "{text}"
    );
    assert!(joined.contains(", next probe in ") && joined.contains("; in 1 of 3 processes"), "{text}");

    let shown = place.run(&["show", "order-7"]).ended(0);
    assert!(
        shown.contains("(overdue for 8m") && shown.contains("waits:    DOWN: its circuit is open"),
        "{shown}"
    );
    let empty = TestDirectory::fresh();
    empty.succeeds("done", NOW).await;
    assert_eq!(empty.run(&["status"]).ended(0), "no operation waits, and there is no dead letter\n");
}

#[tokio::test]
async fn a_route_shows_the_last_answer_of_its_operations() {
    let place = TestDirectory::fresh();
    let network = ScriptedTransport::new().status(502);
    let stripe = place.stripe(Duration::from_secs(100), &network);
    let call = stripe.post("/v1/quotes").key("order-1").form(&[("amount", "1")]);
    call.enqueue().await.expect("recorded");
    stripe.recover(1).await.expect("a store");
    let status = place.json(0, &["status"]);
    let account = &status["accounts"][0];
    if account["waiting"] == 1 {
        assert_eq!(
            (&account["routes"][0]["tried"], &account["routes"][0]["last"]["status"]),
            (&1.into(), &502.into())
        );
        let text = place.run(&["status"]).ended(0);
        assert!(text.contains("1  POST /v1/quotes; last 502, 1m 4"), "{text}");
    } else {
        assert_eq!(account["dead"], 1, "its ladder has one step: {status}");
    }
}

#[tokio::test]
async fn waiting_operations_are_listed_by_filters_in_claim_order() {
    let place = TestDirectory::fresh();
    enqueue(&place, Duration::from_secs(60), ["order-1", "order-2", "refund-1"].map(str::to_owned)).await;
    let stripe = place.stripe(NOW, &ScriptedTransport::new());
    let later =
        stripe.post("/v1/quotes").key("order-9").form(&[("amount", "1")]).after(Duration::from_secs(7_200));
    later.enqueue().await.expect("recorded");
    place.never_sent("order-dead").await;
    let keys = |arguments: &[&str]| {
        let listed = place.json(0, &[&["list"], arguments].concat());
        let rows = listed["operations"].as_array().expect("a list").clone();
        rows.iter().map(|row| row["key"].as_str().expect("text").to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(keys(&[]), ["order-1", "order-2", "refund-1", "order-9"]);
    assert_eq!(keys(&["--key-prefix", "order-"]), ["order-1", "order-2", "order-9"]);
    assert_eq!(keys(&["--overdue"]), ["order-1", "order-2", "refund-1"]);
    assert_eq!(keys(&["--overdue", "--key-prefix", "ref", "--vendor", "stripe"]), ["refund-1"]);
    assert_eq!(keys(&["--due-within", "3h"]).len(), 4);
    assert_eq!(keys(&["--account", "default/stripe/test", "--phase", "scheduled"]).len(), 4);
    assert_eq!(keys(&["--account", "default/stripe/live"]), Vec::<String>::new());
    assert_eq!(keys(&["--phase", "in_progress"]), Vec::<String>::new());
    let page = place.json(0, &["list", "--limit", "3"]);
    assert_eq!(keys(&["--after", page["next"].as_str().expect("more")]), ["order-9"]);
    let text = place.run(&["list"]).ended(0);
    assert!(
        text.contains("overdue since ") && text.contains("no attempt counted") && text.contains("due "),
        "{text}"
    );
    assert_eq!(place.run(&["list", "--key-prefix", "x"]).ended(0), "no waiting operation matches\n");
}

#[tokio::test]
async fn many_are_resolved_or_cancelled_at_once_after_a_dry_run() {
    let place = TestDirectory::fresh();
    for nth in 0..5 {
        place.lost(&format!("order-{nth}"), NOW).await;
    }
    place.lost("refund-1", NOW).await;
    let resolve = ["dead-letters", "resolve", "--key-prefix", "order-", "--not-applied"];
    let dry = place.run(&resolve).ended(0);
    assert!(dry.contains("5 matched; 5 would be resolved, 0 held back\n"), "{dry}");
    let last: Vec<&str> = dry.trim_end().lines().collect();
    assert!(
        last[last.len() - 2..].join(" ").contains("to do it: --yes --before "),
        "the line to copy is last: {dry}"
    );
    assert_eq!(place.json(0, &["stats"])["totals"]["resolved"], 0);
    assert_eq!(place.run(&[&resolve[..], &["--yes"]].concat()).code, 2, "it needs a reason");
    let done = place.json(0, &[&resolve[..], &["--yes", "--why", "the shop was closed"]].concat());
    assert_eq!((&done["matched"], &done["resolved"], &done["held_back"]), (&5.into(), &5.into(), &0.into()));
    let totals = place.json(0, &["stats"])["totals"].take();
    assert_eq!((&totals["resolved"], &totals["dead"]), (&5.into(), &1.into()));
    let again = ["dead-letters", "resolve", "order-0", "refund-1", "--not-applied", "--why", "x"];
    let again = place.json(1, &again);
    assert_eq!((&again["resolved"], &again["reasons"][0]["why"]), (&1.into(), &"resolved".into()));
    let reopened = ["dead-letters", "resolve", "--all", "--reopen", "--yes", "--why", "a mistake"];
    assert_eq!(place.json(0, &reopened)["resolved"], 6);
    for wrong in [
        &["dead-letters", "resolve", "--not-applied"][..],
        &["cancel"],
        &["cancel", "x", "--all"],
        // As a script types it whose variable is not set.
        &["cancel", "--key-prefix", "", "--yes", "--why", "x"],
        &["dead-letters", "redrive", "--vendor", ""],
    ] {
        assert_eq!(place.run(wrong).code, 2, "{wrong:?}");
    }

    enqueue(&place, Duration::from_secs(60), (0..4).map(|nth| format!("mail-{nth}"))).await;
    let cancel = ["cancel", "--key-prefix", "mail-", "--overdue"];
    assert_eq!(place.json(0, &cancel)["cancelled"], 4);
    assert_eq!(place.json(0, &["stats"])["totals"]["scheduled"], 4, "that was a dry run");
    let done = place.json(0, &[&cancel[..], &["--yes", "--why", "not wanted"]].concat());
    assert_eq!((&done["cancelled"], &done["dry_run"]), (&4.into(), &false.into()));
    assert_eq!(place.json(0, &["stats"])["totals"]["scheduled"], 0);
}

/// An operation that has grown old since the dry run is not among those that it counted.
#[tokio::test]
async fn an_age_is_counted_from_the_dry_run() {
    let place = TestDirectory::fresh();
    place.lost("order-1", super::LONG_AGO).await;
    let moved =
        place.json(0, &["dead-letters", "show", "order-1"])["updated_at_ms"].as_u64().expect("a time");
    for (minutes, matched) in [(10, 0), (40, 1)] {
        let before = (moved + minutes * 60_000).to_string();
        let redrive = ["dead-letters", "redrive", "--older-than", "30m", "--before", &before];
        let ended = place.run(&[&redrive[..], &["--json"]].concat());
        let result: Value = serde_json::from_str(&ended.out).expect("JSON");
        assert_eq!(result["result"]["matched"], matched, "{result}");
    }
}

#[tokio::test]
async fn held_back_operations_are_summed_up_above_the_line_to_copy() {
    let place = TestDirectory::fresh();
    for nth in 0..12 {
        place.lost(&format!("order-{nth}"), super::LONG_AGO).await;
    }
    let result = place.run(&["dead-letters", "redrive", "--all"]).ended(1);
    assert!(result.lines().count() < 12, "{result}");
    assert!(result.contains("12 held back: ") && result.contains("and 9 more"), "{result}");
    assert!(
        result.contains("12 matched; 0 would be due (0 by force), 12 held back\nnothing was changed"),
        "{result}"
    );
    assert!(result.trim_end().lines().last().expect("a line").contains("--before"), "{result}");
}

/// Terminals obey C1 controls, and show text after a direction mark or a separator as another line's.
#[tokio::test]
async fn an_answer_cannot_imitate_our_lines() {
    let place = TestDirectory::fresh();
    let forged =
        "{}\r\n\nphase:    succeeded\nattempt 9 at noon\u{1b}[2J\u{9b}31m\u{202e}\u{2028}x\u{2029}y\u{ad}\t.";
    let answer = Answer::new(http::StatusCode::BAD_REQUEST, http::HeaderMap::new(), forged.to_owned());
    let network = ScriptedTransport::new().reply(answer);
    let _ = pay(&place.stripe(NOW, &network), "order-1").await;
    let open = ["show", "order-1", "--bodies", "--why", "a\u{202e}b\nphase:    forged"];
    let text = place.run(&open).ended(0);
    for line in ["phase:    succeeded", "phase:    forged", "attempt 9"] {
        assert!(text.lines().all(|own| !own.starts_with(line)), "{text}");
    }
    let invisible = |letter: &char| letter.is_control() || "\u{202e}\u{2028}\u{2029}\u{ad}".contains(*letter);
    let raw = |text: &str| text.chars().filter(|letter| *letter != '\n').filter(invisible).count();
    assert_eq!(raw(&text), 0, "{text:?}");
    assert!(text.contains(r"\u009b31m\u202e\u2028x\u2029y\u00ad\t."), "{text}");
    let result = place.run(&[&open[..], &["--json"]].concat()).ended(0);
    assert_eq!((raw(&result), result.lines().count()), (0, 1), "{result:?}");
    let shown: Value = serde_json::from_str(&result).expect("JSON");
    assert_eq!(shown["result"]["reply"]["body"]["text"], forged, "the value is the same");
    let missing = place.run(&["show", "a\u{9b}\u{202e}b"]);
    assert_eq!((missing.code, raw(&missing.err)), (6, 0), "{:?}", missing.err);
}

/// Data that support asks for is shown without a reason; data that may be of a person is not.
#[tokio::test]
async fn a_refusal_shows_its_code_and_the_vendors_request_id() {
    let place = TestDirectory::fresh();
    let error = json!({"error": {
        "type": "card_error", "code": "card_declined", "message": "Your card was declined.",
        "detail": "Ann Smith has no funds", "param": "ann@example.com",
    }});
    let network =
        ScriptedTransport::new().json(402, error).header("request-id", "req_9").header("x-customer", "Ann");
    let _ = pay(&place.stripe(NOW, &network), "order-1").await;
    let text = place.run(&["show", "order-1"]).ended(0);
    assert!(text.contains("request-id: req_9") && text.contains("x-customer: [redacted]"), "{text}");
    for word in ["card_error", "card_declined", "Your card was declined."] {
        assert!(text.contains(word), "{text}");
    }
    assert!(!text.contains("Ann") && !text.contains("ann@"), "{text}");
    let hidden = place.run(&["show", "order-1", "--redact", "code"]).ended(0);
    assert!(!hidden.contains("card_declined"), "{hidden}");
}

#[tokio::test]
async fn a_held_operation_shows_its_holder_and_the_end_of_the_lease() {
    let place = TestDirectory::fresh();
    enqueue(&place, NOW, ["order-1".to_owned()]).await;
    assert_eq!(place.json(0, &["show", "order-1"])["holder"], Value::Null, "it was not taken yet");
    let _ = pay(&place.stripe(NOW, &ScriptedTransport::new().json(200, json!({}))), "order-2").await;
    let holder = place.json(0, &["show", "order-2"])["holder"].to_string();
    assert!(holder.ends_with(&format!("/{}\"", std::process::id())), "{holder}");
    let store = Sqlite::open(place.path("calls.db")).expect("opens");
    let take = commands::takeover(Phase::Scheduled, SystemClock::new().wall());
    let (lease, holder) = (Duration::from_secs(300), Some("web-7f9c/4711".into()));
    let taken = store.take(Takeover { lease, holder, ..take }).await.expect("works");
    assert_eq!(taken.len(), 1);
    store.close().await;
    let text = place.run(&["show", "order-1"]).ended(0);
    assert!(text.contains("held:     by a process that works on it, until "), "{text}");
    assert!(text.contains("\nholder:   web-7f9c/4711\n"), "{text}");
    assert_eq!(place.json(0, &["show", "order-1"])["holder"], "web-7f9c/4711");
    place.sql("UPDATE operation SET until_ms = 1 WHERE phase = 1");
    let text = place.run(&["show", "order-1"]).ended(0);
    assert!(text.contains("\nholder:   web-7f9c/4711, the last one\n"), "{text}");
}

/// A measurement: how long an operator waits for the status while five thousand operations wait, beside many
/// that have ended.
#[tokio::test]
#[ignore = "a measurement"]
#[allow(clippy::disallowed_methods, clippy::print_stdout, reason = "it measures the run itself")]
async fn time_of_status_with_five_thousand_waiting() {
    let place = TestDirectory::fresh();
    enqueue(&place, Duration::from_secs(500), (0..5_000).map(|nth| format!("order-{nth}"))).await;
    let store = Sqlite::open(place.path("calls.db")).expect("opens");
    place.sql(
        "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 200000) \
         INSERT INTO operation SELECT i + 1000000, scope, key || '-' || i, vendor, fingerprint, wire_key, 3, \
         until_ms + 604800000, fence, attempts, 2, claimed_at_ms, updated_at_ms, retention_ms, on_unknown, 0, 200, \
         resolved, request, answer, redact, reports, first_fence, unknown_since_ms, lookups, resends_left, \
         attempt_max_ms, vendor_clock_ms, predecessor, first_scope, holder FROM n, (SELECT * FROM operation LIMIT 1)",
    );
    let letters = steadfast::dead_letter::DeadLetters::new(std::sync::Arc::new(store));
    let mut took = Vec::new();
    for _ in 0..20 {
        let began = Instant::now();
        assert_eq!(letters.status().await.expect("works").accounts[0].waiting, 5_000);
        took.push(began.elapsed());
    }
    took.sort_unstable();
    let began = Instant::now();
    let page = letters.waiting(&Filter::default(), None, 50).await.expect("works");
    println!(
        "status: median {:?}, worst {:?}; a page of {}: {:?}",
        took[10],
        took[19],
        page.rows.len(),
        began.elapsed()
    );
}

/// A measurement: the cost for a process when five thousand of its calls wait for a vendor that is down.
#[tokio::test]
#[ignore = "a measurement"]
#[allow(clippy::disallowed_methods, clippy::print_stdout, reason = "it measures the run itself")]
async fn processor_time_of_five_thousand_waiting_calls() {
    let place = TestDirectory::fresh();
    let store = Sqlite::open(place.path("calls.db")).expect("opens");
    let stripe = steadfast::vendor::Stripe::new("sk_test_secret").base_url("http://127.0.0.1:9");
    let stripe = steadfast::Client::builder(stripe).store(store).build().expect("a client");
    let mut waiting = tokio::task::JoinSet::new();
    for nth in 0..5_000 {
        let call = stripe.post("/v1/quotes").key(format!("order-{nth}")).after(Duration::from_secs(3_600));
        let call = call.form(&[("amount", "1000")]).enqueue().await.expect("recorded");
        waiting.spawn(async move { call.wait(Duration::from_secs(3_600)).await.map(drop) });
    }
    // In hundredths of a second (proc(5)).
    let used = || -> u64 {
        let stat = std::fs::read_to_string("/proc/self/stat").expect("Linux");
        let times = stat.rsplit(')').next().expect("a line").split(' ');
        times.skip(12).take(2).map(|time| time.parse::<u64>().expect("a number")).sum()
    };
    // The first looks are each call's own.
    tokio::time::sleep(Duration::from_secs(10)).await;
    for _ in 0..3 {
        let (before, began) = (used(), Instant::now());
        tokio::time::sleep(Duration::from_secs(20)).await;
        let share = (used() - before) as f64 / began.elapsed().as_secs_f64();
        println!("{share:.2} % of a core");
    }
}
