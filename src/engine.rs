//! The engine: carries calls through to their end, with everything injected.
//!
//! A call begins in [`entry`]. The [`driver`] carries out the steps that core's
//! [`next_step`](steadfast_core::internal::decision::next_step) names, until it has an end; it decides nothing itself.
//! [`Engine`] is the client's parts.

mod address;
mod admit;
mod aside;
mod attempt;
mod claim;
mod conclude;
mod credentials;
mod disagreement;
mod driver;
mod enqueue;
mod entry;
mod exchange;
mod found;
mod hold;
mod in_flight;
mod late_write;
mod leaving;
mod lookup;
mod measures;
mod on_record;
mod outbox;
mod parts;
pub(crate) mod prefixes;
mod record_log;
mod records;
mod recovery;
mod renew;
mod replay;
pub(crate) mod retention;
pub(crate) mod routes;
mod run;
mod settle;
mod settling;
mod sleep;
mod stream;
mod terms;
mod work;

pub(crate) use disagreement::Disagreement;
pub(crate) use enqueue::Accepted;
pub(crate) use late_write::LateWrites;
pub(crate) use leaving::Shutdown;
pub(crate) use measures::{Began, Latency, VendorClock};
pub(crate) use outbox::{NotAdmitted, Put};
pub(crate) use parts::Engine;
pub(crate) use settling::ReleasedLeases;
pub(crate) use steadfast_core::internal::decision::SLEEP_MAX;
pub(crate) use stream::StreamedBody;
pub(crate) use work::{Times, Work};
