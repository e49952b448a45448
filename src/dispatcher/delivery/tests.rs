use steadfast_core::Effect;
use steadfast_core::store::Memory;
use steadfast_core::store::delivery::Waiting;
use tokio::sync::watch;

use super::super::places::Places;
use super::*;
use crate::client::Client;
use crate::testkit::TestClock;
use crate::vendor::Stripe;

const HOUR: Duration = Duration::from_secs(3_600);

/// Two clients that share their vendor's eight places and one of another vendor's, each with as many operations due.
async fn delivery(clock: &TestClock) -> Delivery {
    let (store, ours, others) =
        (Arc::new(Memory::new()), Places::new(8, &Arc::default()), Places::new(8, &Arc::default()));
    let mut members = Vec::new();
    for (account, places) in [("a", &ours), ("b", &ours), ("c", &others)] {
        let client = Client::builder(Stripe::new("sk_test_123").account(account)).store(Arc::clone(&store));
        let client = client.clock(clock.clone()).build().unwrap();
        for nth in 0..8 {
            let call = client.post("/v1/charges").key(format!("order-{nth}")).form(&[("amount", "1")]);
            call.enqueue().await.unwrap();
        }
        members.push(Member::new(&client, Arc::clone(places)));
        members.last_mut().unwrap().has.due = true;
    }
    let (_stop, stopped) = watch::channel(false);
    let pulse = Pulse::new(&members[0].client, HOUR);
    let mut delivery = Delivery::new(members, HOUR, Shutdown::when(stopped), Arc::default(), pulse).unwrap();
    delivery.look_at = clock.now().plus(HOUR);
    delivery
}

/// Were it all, the others would wait until one of the first one's operations ends, and it may hang.
#[tokio::test]
async fn each_that_comes_for_places_has_an_equal_part_of_its_vendors() {
    let clock = TestClock::new();
    let mut delivery = delivery(&clock).await;
    delivery.tell_others().await;
    let told = clock.now();
    delivery.take_in_turn().await;
    assert_eq!([0, 1, 2].map(|member| delivery.under_way.of(member)), [4, 4, 8]);
    clock.advance(GAP);
    delivery.take_in_turn().await;
    assert!(delivery.members.iter().all(|turn| turn.waits_for_place), "the end of one is what they wait for");
    assert_eq!(delivery.wake_at(None), told.plus(Duration::from_secs(1)), "others are told that it is there");
}

/// But not where the last that was found came to nothing: it would be found again and again.
#[tokio::test]
async fn after_a_find_it_looks_soon() {
    for is_nothing in [false, true] {
        let clock = TestClock::new();
        let mut delivery = delivery(&clock).await;
        let idle = delivery.look_at;
        let client = delivery.members[0].member.client.clone();
        let left = client.post("/v1/charges").key("left").form(&[("amount", "1")]).after(HOUR);
        let id = left.enqueue().await.unwrap().id().clone();
        let mut record = client.engine.store.get(&id).await.unwrap().unwrap();
        record.effect = Effect::Unknown;
        for _ in 0..=usize::from(is_nothing) {
            delivery.under_way.carry_on(0, &client, (record.clone(), clock.now()), None, false);
        }
        let waiting = vec![Waiting { due: None, lapsed: true }];
        delivery.saw(delivery.wall(), Some(Sight { waiting, ..Sight::default() }));
        delivery.take_in_turn().await;
        assert_eq!(delivery.look_at, if is_nothing { idle } else { clock.now().plus(HOUR / 16) });
    }
}

/// The account that was left out, because its circuit is open.
#[tokio::test]
async fn the_next_probe_is_at_its_time() {
    let clock = TestClock::new();
    let mut delivery = delivery(&clock).await;
    let at = clock.now().plus(GAP);
    for turn in &mut delivery.members {
        turn.member.has = Has::default();
    }
    delivery.members[1].member.again_at = Some(at);
    assert_eq!(delivery.wake_at(None), at);
    clock.advance(GAP);
    delivery.hear();
    assert_eq!(
        delivery.members.iter().map(|turn| turn.member.has.due).collect::<Vec<_>>(),
        [false, true, false]
    );
}

/// Of a store that cannot say what there is.
#[tokio::test]
async fn what_is_not_known_is_taken_for_something_that_waits_or_has_expired() {
    let mut delivery = delivery(&TestClock::new()).await;
    delivery.saw(delivery.wall(), None);
    assert!(delivery.members.iter().all(|turn| turn.member.has == Has::BOTH));
    tokio::select! {
        biased;
        () = delivery.expired.notified() => {}
        () = std::future::ready(()) => panic!("it would never be purged"),
    }
}
