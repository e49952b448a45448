//! Sending again and looking up: windows, clocks, and lookups that fail.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use http::{HeaderMap, HeaderValue, Method, StatusCode};
use serde_json::json;
use support::rig::{Rig, plain, secs};

use steadfast::clock::{Clock, Instant};
use steadfast::testkit::{ScriptedTransport, TestClock};
use steadfast::transport::{Answer, SendErrorKind};
use steadfast::vendor::{Postmark, Stripe};
use steadfast::{Call, Disposition, Effect, Error, Obtained, Policy, Reason, Reply};
use steadfast_core::internal::operation::slack;

/// The rest of a window after the slack.
const USABLE: Duration = Duration::from_secs(60);

trait Mail {
    fn email(&self) -> Call;
    /// Calls and sends the same key again when it is due, so often in all.
    async fn until_at_rest(&self, deadline: Duration, calls: u32) -> Result<Reply, Error>;
}

impl Mail for Rig {
    fn email(&self) -> Call {
        let body = json!({"From": "a@x.test", "To": "b@x.test", "TextBody": "hello"});
        self.client.post("/email").key("mail-1").json(&body)
    }

    async fn until_at_rest(&self, deadline: Duration, calls: u32) -> Result<Reply, Error> {
        for _ in 1..calls {
            match self.email().deadline(deadline).send().await {
                Err(error) if !error.is_dead_letter() => {
                    let Disposition::Continues { at: Some(at) } = error.disposition() else {
                        panic!("somebody goes on: {error}")
                    };
                    self.clock.advance(at.since(self.clock.wall()));
                }
                ended => return ended,
            }
        }
        self.email().deadline(deadline).send().await
    }
}

/// No gates, and these steps without jitter.
fn ladder(steps: &[Duration]) -> Policy {
    let mut policy = plain();
    policy.backoff.steps = steps.to_vec();
    policy
}

/// Stripe without lookups, whose window has [`USABLE`] beside the slack.
fn stripe() -> Stripe {
    let window = slack(Policy::background().timeout.attempt) + USABLE;
    Stripe::new("sk_test_1").replay_window(window).lookup_by_metadata(Vec::<String>::new())
}

/// Loses the first answer after `before` was done to the clock, and answers the next send.
async fn sends_after(
    wait: Duration,
    before: impl Fn(&TestClock) + Send + Sync + 'static,
) -> (u32, Option<Reason>) {
    let clock = TestClock::auto();
    clock.set_wall(clock.wall().plus(secs(30 * 86_400)));
    let sent = Arc::new(AtomicU32::new(0));
    let (counted, own) = (Arc::clone(&sent), clock.clone());
    let transport = ScriptedTransport::new().always_with(move |_| {
        if counted.fetch_add(1, Ordering::Relaxed) > 0 {
            return Ok(Answer::new(StatusCode::OK, HeaderMap::new(), "{}"));
        }
        before(&own);
        Err(SendErrorKind::Reset)
    });
    let rig = Rig::of(stripe()).policy(ladder(&[wait])).network(transport).clock(&clock).build();
    let call = rig.client.post("/v1/payment_intents").key("order-42").form(&[("amount", "1")]);
    let outcome = call.send().await;
    (sent.load(Ordering::Relaxed), outcome.err().and_then(|error| error.reason()))
}

/// D4: it ends a slack before the vendor's, and a claim by a clock that was ahead, and was corrected, has none. A19: the wall
/// clock is not the only one that is asked.
#[tokio::test]
async fn the_window_is_over_by_whichever_clock_says_so() {
    let back = |by: Duration| (Some(by), None);
    let on = |by: Duration| (None, Some(by));
    for (wait, (back, on), is_open) in [
        (USABLE - Duration::from_millis(1), (None, None), true),
        (USABLE, (None, None), false),
        (secs(1), back(secs(25 * 3600)), false),
        (secs(1), back(secs(301 + 1)), false),
        // Clocks differ by so much.
        (secs(1), back(secs(60)), true),
        // It says, a minute after the claim, that no time has passed.
        (USABLE, back(USABLE), false),
        // Our own clock stood still while the machine slept.
        (secs(1), on(USABLE), false),
    ] {
        let set = move |clock: &TestClock| {
            let wall = clock.wall().minus(back.unwrap_or_default());
            clock.set_wall(wall.plus(on.unwrap_or_default()));
        };
        let expected = if is_open { (2, None) } else { (1, Some(Reason::Expired)) };
        assert_eq!(sends_after(wait, set).await, expected, "{wait:?}, {back:?} back, {on:?} on");
    }
}

/// The answers of Postmark's search, one after the other, and when it was asked. The last goes on.
fn searches(
    clock: &TestClock,
    answers: Vec<Answer>,
) -> (ScriptedTransport, Arc<parking_lot::Mutex<Vec<Instant>>>) {
    let asked = Arc::new(parking_lot::Mutex::new(Vec::new()));
    let (times, clock) = (Arc::clone(&asked), clock.clone());
    let transport = ScriptedTransport::new().always_with(move |request| {
        if request.method != Method::GET {
            return Err(SendErrorKind::Reset);
        }
        let mut times = times.lock();
        times.push(clock.now());
        Ok(answers[(times.len() - 1).min(answers.len() - 1)].clone())
    });
    (transport, asked)
}

fn answer(status: u16, headers: &[(&'static str, &'static str)], body: &serde_json::Value) -> Answer {
    let headers = headers
        .iter()
        .map(|(name, value)| (http::HeaderName::from_static(name), HeaderValue::from_static(value)));
    let status = StatusCode::from_u16(status).expect("a status");
    Answer::new(status, headers.collect::<HeaderMap>(), body.to_string())
}

/// Postmark's search, answered, with nothing in it: that proves nothing there.
fn nothing_found() -> Answer {
    answer(200, &[("content-type", "application/json")], &json!({"TotalCount": 0, "Messages": []}))
}

/// A5: three lookups in 30 s, a dead letter, and 570 s of the total left.
#[tokio::test]
async fn a_lookup_that_failed_is_tried_again_and_not_counted() {
    let clock = TestClock::auto();
    let down = answer(503, &[], &json!({}));
    let mut answers = vec![down; 6];
    answers.push(nothing_found());
    let (transport, asked) = searches(&clock, answers);
    let policy = plain().timeout(steadfast::policy::Timeouts::new(secs(5), secs(30), secs(600)));
    let rig = Rig::of(Postmark::new("token")).policy(policy).network(transport).clock(&clock).build();
    let error = rig.email().send().await.expect_err("Postmark cannot tell");
    assert_eq!((error.reason(), error.effect()), (Some(Reason::Unknown), Effect::Unknown));
    assert_eq!(asked.lock().len(), 6 + 3, "three were answered");
    let gaps: Vec<_> = asked.lock().windows(2).map(|pair| pair[1].since(pair[0]).as_secs()).collect();
    assert_eq!(gaps[..6], [1, 2, 5, 30, 30, 30], "the ladder, and its last step from then on");
}

/// A5: a lookup's `Retry-After` is waited for, and holds back others.
#[tokio::test]
async fn a_lookups_retry_after_holds_back_the_next_and_everybody() {
    let clock = TestClock::auto();
    let busy = answer(429, &[("retry-after", "40")], &json!({}));
    let (transport, asked) = searches(&clock, vec![busy, nothing_found()]);
    let rig = Rig::of(Postmark::new("token")).network(transport).clock(&clock).build();
    let other = rig.client.clone();
    rig.email().send().await.expect_err("Postmark cannot tell");
    let asked = asked.lock().clone();
    assert!(asked[1].since(asked[0]) >= secs(40), "{asked:?}");
    let until = other.gates().paused_until(asked[0]);
    assert!(until.is_some_and(|until| until >= asked[0].plus(secs(40))), "{until:?}");
}

/// D1: every takeover counted the lookups anew, so that none was ever the last.
#[tokio::test]
async fn lookups_that_were_answered_count_over_all_calls() {
    let clock = TestClock::auto();
    let (transport, asked) = searches(&clock, vec![nothing_found()]);
    let rig = Rig::of(Postmark::new("token")).network(transport).clock(&clock).build();
    // Time for one lookup a call.
    let error = rig.until_at_rest(secs(11), 20).await.expect_err("Postmark cannot tell");
    assert_eq!((error.reason(), error.effect()), (Some(Reason::Unknown), Effect::Unknown));
    assert_eq!(asked.lock().len(), 3);
}

/// D3: nobody knew the vendor's clock at the claim.
#[tokio::test]
async fn the_vendors_clock_is_on_record_from_the_second_claim_on() {
    let clock = TestClock::auto();
    let noon = httpdate::parse_http_date("Thu, 01 Jan 2026 12:00:00 GMT").expect("a date");
    clock.set_wall(steadfast::clock::Timestamp::from(noon).plus(secs(3600)));
    let dated = answer(200, &[("date", "Thu, 01 Jan 2026 12:00:00 GMT")], &json!({}));
    let rig = Rig::of(Stripe::new("sk_test_1"))
        .network(ScriptedTransport::new().always(dated))
        .clock(&clock)
        .build();
    for (key, known) in [("a", None), ("b", Some(-3_600_000))] {
        let call = rig.client.post("/v1/payment_intents").key(key).form(&[("amount", "1")]);
        assert_eq!(call.send().await.expect("done").obtained(), Obtained::Fresh);
        assert_eq!(rig.record(key).await.vendor_clock_ms, known, "{key}");
    }
}

/// D1: with the ladder spent and the window open, every takeover sent again, and so began the settle time anew.
#[tokio::test]
async fn what_was_scheduled_to_be_looked_up_is_not_sent_again_instead() {
    let clock = TestClock::auto();
    let sent = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&sent);
    let transport = ScriptedTransport::new().always_with(move |request| {
        if request.method == Method::GET {
            return Ok(answer(200, &[], &json!({"object": "list", "data": [], "has_more": false})));
        }
        counted.fetch_add(1, Ordering::Relaxed);
        Err(SendErrorKind::Reset)
    });
    // Stripe's settle time is 80 s, and its window a day.
    let rig =
        Rig::of(Stripe::new("sk_test_1")).policy(ladder(&[secs(1)])).network(transport).clock(&clock).build();
    let charge = || rig.client.post("/v1/payment_intents").key("order-42").form(&[("amount", "1")]);
    let error = charge().deadline(secs(10)).send().await.expect_err("no time for a lookup");
    assert!(error.is_deadline() && !error.is_dead_letter(), "{error}");
    clock.advance(secs(81));
    let error = charge().deadline(secs(10)).send().await.expect_err("it never took effect");
    assert_eq!((error.reason(), error.effect()), (Some(Reason::Exhausted), Effect::None), "{error}");
    assert_eq!(sent.load(Ordering::Relaxed), 2);
}
