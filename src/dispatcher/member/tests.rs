use std::time::Duration;

use http::{HeaderName, HeaderValue, StatusCode};
use tokio::sync::watch;

use steadfast_core::internal::policy::Sign;
use steadfast_core::policy::{Backoff, RecoveryConfig};
use steadfast_core::transport::Answer;
use steadfast_core::{Effect, Policy};

use super::*;
use crate::engine::Shutdown;
use crate::testkit::{ScriptedTransport, TestClock};
use crate::vendor::Stripe;

/// A client at a vendor that is well but for one route that is overloaded, and a dispatcher's part of it.
fn member(clock: &TestClock) -> Member {
    let network = ScriptedTransport::new().always_with(|request| {
        let (status, wait) = match request.url.path() {
            "/v1/refunds" => (StatusCode::TOO_MANY_REQUESTS, Some(("retry-after", "60"))),
            _ => (StatusCode::OK, None),
        };
        let wait = wait.map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)));
        Ok(Answer::new(status, wait.into_iter().collect(), r#"{"id":"ch_1","object":"charge"}"#))
    });
    let client = Client::builder(Stripe::new("sk_test_123")).transport(network).clock(clock.clone());
    let client = client.policy(Policy::background().backoff(Backoff::ladder([LATER]))).build().unwrap();
    Member::new(&client, Places::new(16, &Arc::default()))
}

fn under_way() -> UnderWay {
    let (_stop, stopped) = watch::channel(false);
    UnderWay::new(["stripe".to_owned()].into_iter(), Shutdown::when(stopped))
}

/// A time longer than an operation waits in its place.
const LATER: Duration = Duration::from_secs(60);

#[test]
fn the_rate_restarts_after_a_pause() {
    let mut member = member(&TestClock::new());
    let engine = Arc::clone(&member.client.engine);
    let (now, recovery) = (member.now(), engine.gates.recovery());
    while recovery.per_second(now) < 40.0 {
        recovery.heed(Sign::Good, now);
    }
    member.client.pause_for(Duration::from_secs(30));
    assert!(matches!(member.room(0), Err(Next::Closed(_))));
    assert_eq!(recovery.per_second(now), 10.0);
}

/// An operation that was postponed waits for longer, and is no part of the rate of delivery.
#[tokio::test]
async fn a_postponed_operation_does_not_count_as_delivered() {
    let mut member = member(&TestClock::new());
    for route in ["/v1/charges", "/v1/refunds"] {
        let call = member.client.post(route).key("order-42").form(&[("charge", "ch_1")]);
        call.enqueue().await.unwrap();
    }
    let mut under_way = under_way();
    member.has = Has::BOTH;
    assert_eq!(member.take(8, &mut under_way, 0).await.unwrap(), 2);
    while !under_way.is_empty() {
        under_way.some_end().await;
    }
    assert_eq!((under_way.recovered.succeeded, under_way.recovered.postponed), (1, 1));
    assert_eq!(under_way.gone_of(0), 1);
}

/// Hosts whose clocks are far apart do so, on a store that has none: one takes over an operation that another holds, or
/// it itself.
#[tokio::test]
async fn taking_an_operation_under_way_here_is_not_progress() {
    let clock = TestClock::new();
    let member = member(&clock);
    let client = member.client.clone();
    for (route, is_sent) in [("/v1/charges", false), ("/v1/refunds", true)] {
        let call = client.post(route).key("order-42").form(&[("charge", "ch_1")]);
        let id = call.enqueue().await.unwrap().id().clone();
        let mut record = client.engine.store.get(&id).await.unwrap().unwrap();
        if is_sent {
            record.effect = Effect::Unknown;
        }
        let mut under_way = under_way();
        for is_here in [false, true] {
            under_way.carry_on(0, &client, (record.clone(), member.now()), None, false);
            assert_eq!(under_way.came_to_nothing(), is_sent && is_here);
        }
    }
}

#[tokio::test]
async fn one_that_panics_gives_its_place_back() {
    let network = ScriptedTransport::new().always_with(|_| panic!("a transport of the service's own"));
    let client = Client::builder(Stripe::new("sk_test_123")).transport(network).clock(TestClock::new());
    let client = client.build().unwrap();
    let mut member = Member::new(&client, Places::new(8, &Arc::default()));
    client.post("/v1/charges").key("order-42").form(&[("amount", "1")]).enqueue().await.unwrap();
    let mut under_way = under_way();
    member.has = Has::BOTH;
    assert_eq!(member.take(8, &mut under_way, 0).await.unwrap(), 1);
    assert_eq!((under_way.of(0), member.places.free()), (1, 7));
    under_way.some_end().await;
    assert_eq!((under_way.of(0), member.places.free()), (0, 8));
}

#[test]
fn no_client_has_more_places_than_its_own_policy_says() {
    let policy = Policy::background().recovery(RecoveryConfig::new(10, 500).at_once(2));
    let client = Client::builder(Stripe::new("sk_test_123")).policy(policy).clock(TestClock::new());
    let mut member = Member::new(&client.build().unwrap(), Places::new(8, &Arc::default()));
    assert_eq!((member.room(1), member.room(2)), (Ok(1), Err(Next::Place)));
    assert_eq!((member.has_half(1), member.has_half(2)), (true, false));
}

/// With one place, neither waits until there is none left of the other.
#[tokio::test]
async fn due_and_lapsed_operations_are_taken_in_turn() {
    let clock = TestClock::new();
    let mut member = member(&clock);
    let mut ids = Vec::new();
    for (nth, is_left) in (0..10).map(|nth| (nth, nth < 4)) {
        let call = member.client.post("/v1/charges").key(format!("order-{nth}")).form(&[("amount", "1")]);
        ids.push(call.enqueue().await.unwrap().id().clone());
        if is_left {
            // Its process dies at once.
            member.has = Has { due: true, lapsed: false };
            assert_eq!(member.take(1, &mut under_way(), 0).await.unwrap(), 1);
        }
    }
    clock.advance(Duration::from_secs(60 * 60));
    let mut under_way = under_way();
    member.has = Has::BOTH;
    for limit in [1, 1, 2] {
        assert_eq!(member.take(limit, &mut under_way, 0).await.unwrap(), limit);
        assert_eq!(member.has, Has::BOTH, "there may be more of each");
    }
    let mut fences = Vec::new();
    for id in &ids {
        let record = member.client.engine.store.get(id).await.unwrap().unwrap();
        fences.push(record.fence - record.first_fence);
    }
    assert_eq!((fences[..4].iter().sum::<u64>(), fences[4..].iter().sum::<u64>()), (6, 2), "{fences:?}");
    assert_eq!(member.take(6, &mut under_way, 0).await.unwrap(), 6, "the rest is the other kind's");
    assert_eq!(member.take(8, &mut under_way, 0).await.unwrap(), 0);
    assert_eq!(member.has, Has::default(), "there is none left");
}
