//! The orders that a driver is given, as JSON in its environment and, later, as lines on its standard input.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::clock::Time;
use crate::plan::VENDORS;
use crate::point::Failpoint;

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Orders {
    /// The vendors', in the order of [`VENDORS`].
    pub urls: [String; VENDORS.len()],
    pub time: Time,
    /// Where the process writes down what it tells its callers.
    pub words: PathBuf,
    /// The differences from what is shipped.
    pub manner: Manner,
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
    /// In each of these files, all at once.
    Alone { vendor: usize, sites: Vec<Site>, task: Task },
}

/// A file with one operation, whose key is the file's name.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Site {
    pub file: String,
    pub asks: Ask,
}

impl Site {
    pub fn key(&self) -> String {
        let stem = Path::new(&self.file).file_stem().expect("a name");
        stem.to_str().expect("a text").to_owned()
    }
}

/// The work that is done in a file with one operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Task {
    /// One call.
    Call,
    /// Recovers until nothing is under way.
    Recover,
    /// Makes the file's dead letters due, and recovers until nothing is under way.
    Redrive,
    /// Recovers until nothing is under way, and then sends the key once more, as a caller would who was never
    /// told what became of it.
    Rest,
}

/// The answer that a call is to meet at the vendor's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Ask {
    Yes,
    /// A declined card, an order without its products, an address that bounces.
    No,
}

/// How a driver differs from a service on the shipped preset.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct Manner {
    /// Each wait is at its longest, so that the steps that follow from it are known.
    pub without_jitter: bool,
    /// A service whose policy has no lookups: what may have taken effect and cannot be resent is a dead letter at once.
    pub without_lookups: bool,
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
