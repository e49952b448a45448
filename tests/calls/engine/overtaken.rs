//! A holder whose operation somebody else took, although its own clock says that its lease lasts: the wall clock
//! was set, or the machine slept.

use std::time::Duration;

use steadfast::policy::Timeouts;
use steadfast::testkit::{ScriptedTransport, TestClock};
use steadfast::transport::SendErrorKind;
use steadfast::{Obtained, Policy};

use support::acme::Acme;
use support::rig::{Rig, ms, plain, secs};

/// A clock that stands still until it is told, so that a test can act while a call waits.
fn rig(vendor: Acme, transport: ScriptedTransport) -> Rig {
    Rig::of(vendor).network(transport).policy(policy()).clock(&TestClock::new()).build()
}

fn policy() -> Policy {
    plain().timeout(Timeouts::new(ATTEMPT, ATTEMPT, secs(120)))
}

/// Whoever takes over waits for so long before it looks: the last holder's request may still be on its way.
async fn outlast_the_last_exchange(rig: &Rig) {
    rig.clock.until_sleeping(2).await;
    rig.clock.advance(ATTEMPT);
}

/// Shorter than the ladder's first step, so that the first call is still waiting then.
const ATTEMPT: Duration = Duration::from_millis(100);

fn searchable() -> Acme {
    let mut vendor = Acme::searchable();
    vendor.settle = Duration::ZERO;
    vendor
}

#[tokio::test]
async fn whoever_was_overtaken_while_waiting_does_not_send_and_reports_what_the_other_did() {
    let first = rig(searchable(), ScriptedTransport::new().fail(SendErrorKind::Connect).status(200));
    let charge = first.charge();
    let waiting = tokio::spawn(async move { charge.send().await });
    first.clock.until_sleeping(1).await;
    first.clock.jump_wall(secs(1_800));
    let absent = serde_json::json!([]);
    let other = first
        .beside(searchable())
        .network(ScriptedTransport::new().json(200, absent).status(200))
        .policy(policy())
        .build();
    let client = other.client.clone();
    let recovery = tokio::spawn(async move { client.recover(1).await });
    outlast_the_last_exchange(&first).await;
    let recovered = recovery.await.expect("no panic").expect("a store");
    assert_eq!((recovered.taken, recovered.succeeded, other.charges_sent()), (1, 1, 1));
    first.clock.advance(ms(500));
    let reply = waiting.await.expect("no panic").expect("the other's success");
    assert_eq!((reply.obtained(), first.charges_sent()), (Obtained::Replayed, 1));
}
