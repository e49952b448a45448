//! A 500 that Stripe stored under the key: under this key it never changes.

use std::sync::Arc;

use http::{HeaderMap, HeaderValue, Method, StatusCode};
use serde_json::json;
use steadfast::clock::Clock as _;
use steadfast::dispatcher::PERIOD;
use steadfast::operation::record::State;
use steadfast::testkit::{ScriptedTransport, TestClock};
use steadfast::transport::Answer;
use steadfast::vendor::Stripe;
use steadfast::{Effect, Policy, Reason};

use crate::delivery::time::on_virtual_time;
use support::rig::{self, Rig, secs};

/// A vendor whose first answer was a 500, which it stored. `made` is whether the charge was made all the same.
fn stored_500(clock: &TestClock, made: bool) -> ScriptedTransport {
    let clock = clock.clone();
    let sent = Arc::new(std::sync::Mutex::new(None::<String>));
    ScriptedTransport::new().always_with(move |request| {
        let mut headers = HeaderMap::new();
        headers.insert("request-id", HeaderValue::from_static("req_1"));
        headers.insert("content-type", HeaderValue::from_static("application/json"));
        let mut first = sent.lock().expect("no panic");
        if request.method == Method::GET {
            let key = first.clone().filter(|_| made);
            let created = clock.wall().as_millis() / 1_000;
            let charge = |key| json!({"id": "ch_1", "object": "charge", "created": created, "metadata": {"steadfast_key": key}});
            let data: Vec<_> = key.into_iter().map(charge).collect();
            let list = json!({"object": "list", "has_more": false, "data": data});
            return Ok(Answer::new(StatusCode::OK, headers, list.to_string()));
        }
        if first.is_some() {
            headers.insert("idempotent-replayed", HeaderValue::from_static("true"));
        }
        *first = request.headers["idempotency-key"].to_str().ok().map(str::to_owned);
        let error = json!({"error": {"type": "api_error", "message": "An unknown error occurred"}});
        Ok(Answer::new(StatusCode::INTERNAL_SERVER_ERROR, headers, error.to_string()))
    })
}

fn stripe(clock: &TestClock, network: &ScriptedTransport, policy: Policy) -> Rig {
    Rig::of(Stripe::new("sk_test_1")).policy(policy).network(network.clone()).clock(clock).build()
}

fn count(network: &ScriptedTransport, method: &Method) -> usize {
    network.requests().iter().filter(|request| request.method == *method).count()
}

/// It was sent again at each takeover, which began the settle time anew: four times, six minutes.
#[test]
fn recovery_looks_up_what_the_vendor_only_replays_as_a_500() {
    for made in [true, false] {
        on_virtual_time(|clock, _| async move {
            let network = stored_500(&clock, made);
            let Rig { client, store, .. } = stripe(&clock, &network, Policy::interactive());
            let _dispatcher = client.keep_recovering(PERIOD);
            let charge = client.post("/v1/charges").key("order-42").form(&[("amount", "1000")]);
            let told = charge.send().await.expect_err("a 500");
            assert!(told.is_deadline() && told.effect() == Effect::Unknown, "{told}");
            assert_eq!(count(&network, &Method::POST), 2, "the second told that it is stored");
            // Stripe's settle time is 80 s.
            clock.latency(secs(85)).await;
            assert_eq!((count(&network, &Method::POST), count(&network, &Method::GET)), (2, 1));
            let record = rig::record(&*store, "order-42").await;
            if made {
                assert!(
                    matches!(record.state, State::Succeeded { reconciled: true, .. }),
                    "{:?}",
                    record.state
                );
            } else {
                // Under another key it may be tried again, and under this one never.
                let State::Dead { reason, .. } = record.state else { panic!("{:?}", record.state) };
                assert_eq!((reason, record.effect), (Reason::Exhausted, Effect::None));
            }
            assert!(clock.now() > steadfast::clock::Instant::ORIGIN);
        });
    }
}

/// Without a lookup nobody can tell, and no further send helps.
#[test]
fn where_nothing_can_be_looked_up_it_is_a_persons_at_once() {
    on_virtual_time(|clock, _| async move {
        let network = stored_500(&clock, true);
        let Rig { client, store, .. } = stripe(&clock, &network, Policy::background());
        let told = client.post("/v1/quotes").key("order-42").form(&[("amount", "1000")]).send().await;
        let told = told.expect_err("a 500");
        assert_eq!((told.reason(), told.effect()), (Some(Reason::Unknown), Effect::Unknown), "{told}");
        assert_eq!(count(&network, &Method::POST), 2);
        assert!(matches!(rig::record(&*store, "order-42").await.state, State::Dead { .. }));
    });
}

/// A caller who sends the key again takes the operation over, too.
#[test]
fn a_caller_who_comes_back_does_not_send_it_again_either() {
    on_virtual_time(|clock, _| async move {
        let network = stored_500(&clock, true);
        let Rig { client, .. } = stripe(&clock, &network, Policy::interactive());
        let charge = || client.post("/v1/charges").key("order-42").form(&[("amount", "1000")]);
        charge().send().await.expect_err("a 500");
        clock.latency(secs(81)).await;
        charge().send().await.expect("found");
        assert_eq!((count(&network, &Method::POST), count(&network, &Method::GET)), (2, 1));
    });
}
