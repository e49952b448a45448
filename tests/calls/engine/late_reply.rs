//! A store whose answer comes late: the write was in time, and the holder gets to know of it when its lease is over.

use std::sync::Arc;
use std::time::Duration;

use steadfast::Obtained;
use steadfast::store::Memory;
use steadfast::testkit::{ScriptedTransport, TestClock};
use steadfast::transport::SendErrorKind;

use support::acme::Acme;
use support::rig::{Rig, ms, plain, secs, until};
use support::watched::Watched;

#[tokio::test]
async fn whoever_learns_of_a_renewal_when_it_is_over_does_not_send() {
    let mut vendor = Acme::searchable();
    vendor.settle = Duration::ZERO;
    let (clock, store) = (TestClock::new(), Arc::new(Memory::new()));
    let transport = ScriptedTransport::new().fail(SendErrorKind::Connect).status(200);
    let late =
        Watched { store: Arc::clone(&store), late: Some((clock.clone(), secs(3_600))), ..Watched::default() };
    // No write is waited for beyond the call's time: here there is time for all of it.
    let mut patient = plain();
    patient.timeout.total = secs(7_200);
    let client = Rig::of(vendor.clone()).policy(patient).network(transport.clone()).clock(&clock);
    let client = client.store(late).client();
    let first = Rig { client, network: transport, clock: clock.clone(), store };
    let charge = first.charge();
    let waiting = tokio::spawn(async move { charge.send().await });
    clock.until_sleeping(1).await;
    // The backoff is over; the renewal before the second send is made, and its reply is on its way.
    clock.advance(ms(500));
    until(|| clock.sleeping() > 0).await;
    clock.advance(secs(1_800));
    let absent = serde_json::json!([]);
    let other = first.another_process(vendor, ScriptedTransport::new().json(200, absent).status(200));
    // The longest exchange of whoever let the lease run out is not over.
    let recovered = other.client.recover(1).await.expect("a store");
    assert_eq!((recovered.taken, recovered.postponed, other.charges_sent()), (1, 1, 0));
    clock.advance(secs(30));
    let recovered = other.client.recover(1).await.expect("a store");
    assert_eq!((recovered.taken, recovered.succeeded, other.charges_sent()), (1, 1, 1));
    clock.advance(secs(1_770));
    let reply = waiting.await.expect("no panic").expect("the other's success");
    assert_eq!((reply.obtained(), first.charges_sent()), (Obtained::Replayed, 1));
}
