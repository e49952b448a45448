//! The loop, on a scripted transport and a clock that jumps: every wait is exact and nothing really sleeps.

mod answers;
mod applied;
mod cancellation;
mod deadlines;
mod enqueue;
mod gates;
mod late_reply;
mod operations;
mod overtaken;
mod recovery;
mod stores;
mod told;
mod unknown;
mod waits;

use steadfast::Policy;
use steadfast::operation::{Key, OperationId, Scope};
use steadfast::policy::{Backoff, Jitter};

use support::rig::{ms, plain};

/// Of [`Rig::charge`].
pub fn id() -> OperationId {
    let scope = Scope::new("default", "acme", "main", &http::Method::POST, "/charges");
    OperationId::new(scope, Key::new("order-42/charge").expect("a key"))
}

pub fn one_retry() -> Policy {
    plain().backoff(Backoff::ladder([ms(500)]).jitter(Jitter::None))
}
