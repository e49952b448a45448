//! What a driver is told, as JSON in its environment and, later, as lines on its standard input.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::point::Failpoint;

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Orders {
    /// The vendors', in the order of [`STEPS`](crate::plan::STEPS).
    pub urls: [String; 3],
    pub pace: Pace,
    pub failpoint: Option<Failpoint>,
    /// Whether each point that is passed is said.
    pub is_told: bool,
    /// How far the wall clock is off at first, in milliseconds.
    pub wall_off_ms: i64,
    pub job: Job,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Job {
    /// Takes the orders from `from` up to `count`, each with its three calls, and sends each key until it has
    /// ended. From `fresh` on they come in little by little.
    Trade { file: String, from: usize, fresh: usize, count: usize, seed: u64, last: bool },
    /// One call in each file, all at once.
    Call { vendor: usize, files: Vec<String>, asks: Ask },
    /// One round of recovery in each file.
    Recover { vendor: usize, files: Vec<String> },
    /// Makes the dead letters of each file due, and recovers.
    Redrive { vendor: usize, files: Vec<String> },
    /// Recovers in each file until nothing is under way in it.
    Rest { vendor: usize, files: Vec<String> },
}

/// What a call is to meet at the vendor's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Ask {
    Yes,
    /// A declined card, an order without its products, an address that bounces.
    No,
}

/// Short in everything, so that a run is.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Pace {
    pub attempt: Duration,
    pub total: Duration,
    pub ladder: Vec<Duration>,
    /// How long after an unknown outcome a look-up is believed: the fakes' lag, and several times what a
    /// request that was cut off may take on its way through a fake on a busy machine.
    pub settle: Duration,
    pub lease_margin: Duration,
    pub look_ups_max: u32,
    /// Each wait at its longest, so that what follows from it is known.
    pub without_jitter: bool,
}

impl Orders {
    const NAME: &str = "CRASH_ORDERS";

    pub fn from_environment() -> Option<Orders> {
        let text = std::env::var(Orders::NAME).ok()?;
        Some(serde_json::from_str(&text).expect("orders"))
    }

    pub fn to_environment(&self) -> (&'static str, String) {
        (Orders::NAME, serde_json::to_string(self).expect("plain data"))
    }
}
