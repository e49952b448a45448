//! A panic that recovery survives is logged.

use std::sync::Arc;
use std::time::Duration;

use steadfast::dispatcher::PERIOD;
use steadfast::testkit::TestClock;
use steadfast::vendor::Stripe;

use crate::telemetry::capture::{captured, listen};
use crate::telemetry::policy;
use support::rig::Rig;
use support::trouble::{Trouble, Troubled};

#[tokio::test]
async fn a_panic_in_recovery_logs_its_operation_and_message() {
    listen();
    let (clock, store) = (TestClock::new(), Arc::new(Troubled::default()));
    let setup = Rig::of(Stripe::new("sk_test_123")).policy(policy());
    let client = setup.clock(&clock).store(Arc::clone(&store)).client();
    store.takes([Trouble::Panic]);
    store.purges([Trouble::Panic]);
    let dispatcher = client.keep_recovering(PERIOD);
    clock.until_sleeping(2).await;
    let captured = captured();
    let mut doing = Vec::new();
    for event in captured.all("recovery panicked, and goes on") {
        assert_eq!((event["level"].as_str(), event["steadfast.vendor"].as_str()), ("ERROR", "stripe"));
        assert_eq!(event["steadfast.cause"], "a bug of the store");
        doing.push(event["steadfast.doing"].as_str());
    }
    doing.sort_unstable();
    assert_eq!(doing, ["purge", "take over pending operations"]);
    assert_eq!(dispatcher.stop(Duration::from_secs(1)).await, 0);
}
