//! The loop, on a scripted transport and a clock that jumps: every wait is exact and nothing really sleeps.

mod cancellation;
mod deadlines;
mod enqueue;
mod gates;
mod late_reply;
mod operations;
mod overtaken;
mod recovery;
#[path = "../hosts/rig.rs"]
#[allow(dead_code, reason = "shared with tests that use the rest of it")]
mod rig;
mod unknown;
mod vendor;
mod waits;
mod watched;

use steadfast::Policy;
use steadfast::operation::{Key, OperationId, Scope};
use steadfast::policy::{Backoff, Jitter};

use rig::{Rig, ms, plain};

impl Rig {
    /// How often the charge itself was sent, lookups aside.
    pub fn charges_sent(&self) -> usize {
        self.network.requests().iter().filter(|request| request.url.path() == "/charges").count()
    }

    pub fn look_ups_sent(&self) -> usize {
        self.network.requests().iter().filter(|request| request.url.path() == "/search").count()
    }
}

/// Of [`Rig::charge`].
pub fn id() -> OperationId {
    let scope = Scope::new("default", "acme", "main", &http::Method::POST, "/charges");
    OperationId::new(scope, Key::new("order-42/charge").expect("a key"))
}

pub fn one_retry() -> Policy {
    plain().backoff(Backoff::ladder([ms(500)]).jitter(Jitter::None))
}
