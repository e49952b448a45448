use std::sync::Arc;

use steadfast_core::store::Memory;

use super::*;
use crate::client::Client;
use crate::dispatcher::places::Places;
use crate::testkit::TestClock;
use crate::vendor::Stripe;

/// Processes on one store, each with a dispatcher for the same account.
#[derive(Default)]
struct Shared {
    store: Arc<Memory>,
    clock: TestClock,
}

impl Shared {
    fn member(&self) -> Member {
        let client = Client::builder(Stripe::new("sk_test_123")).store(Arc::clone(&self.store));
        let client = client.clock(self.clock.clone()).build().unwrap();
        Member::new(&client, Places::new(8, &Arc::default()))
    }
}

/// Exchanges heartbeats.
async fn tell(member: &mut Member) {
    let engine = Arc::clone(&member.client.engine);
    confer(&engine, [(member, true)]).await;
}

fn rate(member: &Member) -> f64 {
    member.client.engine.gates.recovery().per_second(member.now())
}

fn paused_until(member: &Member) -> Option<Instant> {
    member.client.engine.gates.pause().until(member.now())
}

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn a_peers_pause_counts_from_its_report() {
    let shared = Shared::default();
    shared.clock.advance(5 * SECOND);
    for too_much in [true, false] {
        let mut member = shared.member();
        let (now, recovery) = (member.now(), member.client.engine.gates.recovery());
        while recovery.per_second(now) < 40.0 {
            recovery.heed(Sign::Good, now);
        }
        let before = recovery.per_second(now);
        let word = PeerStatus {
            delivers: true,
            fell_ms: Some(500),
            too_much,
            pause_ms: Some(10_000),
            ..PeerStatus::default()
        };
        let says = serde_json::to_string(&word).unwrap();
        let (client, account) = (member.client.clone(), member.account.clone());
        let peer = Peer { account: account.clone(), dispatcher: "another".to_owned(), says, ago: 3 * SECOND };
        member.peers.hear(&client, &account, &[peer]);
        assert_eq!(paused_until(&member), Some(now.plus(7 * SECOND)));
        // Back to the first rate, or to a half; and of that, half is the other's.
        let expected = if too_much { 10.0 / 2.0 } else { before / 2.0 / 2.0 };
        assert_eq!(rate(&member), expected, "{too_much}");
    }
}

#[tokio::test]
async fn a_fall_is_reported_for_as_long_as_a_heartbeat_lasts() {
    for (ago, per_second) in [(4 * SECOND, 2.5), (LASTS, 5.0)] {
        let shared = Shared::default();
        let (mut one, mut two) = (shared.member(), shared.member());
        one.client.engine.gates.recovery().heed(Sign::Failed, one.now());
        shared.clock.advance(ago);
        tell(&mut one).await;
        tell(&mut two).await;
        assert_eq!(rate(&two), per_second, "its half, {ago:?} later");
    }
}

#[tokio::test]
async fn a_pause_is_reported_to_each_newcomer_while_it_lasts() {
    let shared = Shared::default();
    let mut one = shared.member();
    let until = one.now().plus(30 * SECOND);
    one.client.pause_for(30 * SECOND);
    for _ in 0..3 {
        tell(&mut one).await;
        let mut late = shared.member();
        tell(&mut late).await;
        assert_eq!(paused_until(&late), Some(until));
        shared.clock.advance(PERIOD);
    }
}

#[tokio::test]
async fn a_heartbeat_counts_for_as_long_as_it_lasts() {
    let shared = Shared::default();
    let mut member = shared.member();
    shared.clock.advance(10 * SECOND);
    assert_eq!(member.peers.room(member.now()), 1, "there may be others");
    assert_eq!(member.room(0), Ok(1), "and it takes no more");
    tell(&mut member).await;
    assert!(member.room(0).is_ok_and(|room| room > 1), "it is alone");
    let told = member.now();
    assert_eq!(member.peers.room(told.plus(LASTS - Duration::from_nanos(1))), usize::MAX);
    assert_eq!(member.peers.room(told.plus(LASTS)), 1, "others may have come");
}
