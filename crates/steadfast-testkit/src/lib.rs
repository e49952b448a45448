//! For tests of code that calls vendors: the test controls time, chance, answers and failures.
//!
//! What makes a vendor call hard cannot be had on demand. A vendor charges the card and then loses the connection. A
//! wait takes thirty seconds. Jitter is at its worst. Here each is a value. The parts are independent; take what the
//! test needs.
//!
//! | to test | use |
//! |---|---|
//! | what your code makes of an answer or a failure | [`ScriptedTransport`]: no server, no port |
//! | how long it waits, and when it gives up | [`TestClock`], in no time and to the nanosecond |
//! | jitter at its ends, or a run that a seed repeats | [`FixedRandom`], [`SeededRandom`] |
//! | connections that drop, reset, stall or stop half-way | [`Front`] before a fake of yours or a wiremock |
//! | which request meets which fault, and how often | [`FaultPlan`], by rule or by seed |
//! | whether an adapter of your own errs on the safe side | [`conformance`] |
//!
//! ```
//! use std::time::Duration;
//! use http::Method;
//! use steadfast::{Effect, Random};
//! use steadfast::clock::Clock;
//! use steadfast::testkit::{FixedRandom, ScriptedTransport, TestClock};
//! use steadfast::transport::{Limits, Request, SendErrorKind, Transport};
//!
//! # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
//! let clock = TestClock::auto();
//! let random = FixedRandom::at(0.5);
//! let vendor = ScriptedTransport::new()
//!     .fail(SendErrorKind::Reset).after(Duration::from_secs(3), &clock)
//!     .json(200, serde_json::json!({ "id": "ch_1" }));
//!
//! // The code under test: one retry, after half a second with full jitter.
//! let request = Request::new(Method::POST, "https://api.example/charges".parse().unwrap());
//! let limits = Limits::new(1024);
//! let first = vendor.send(request.clone(), limits.clone()).await.unwrap_err();
//! let wait = Duration::from_millis(500).mul_f64(random.unit());
//! clock.sleep_until(clock.now().plus(wait)).await;
//! let answer = vendor.send(request.clone(), limits).await.unwrap();
//!
//! // A reset after the request left says nothing about the charge.
//! assert_eq!(first.effect(), Effect::Unknown);
//! assert_eq!(answer.json().unwrap()["id"], "ch_1");
//! // The same bytes both times, exactly one wait, and three seconds of the vendor's own.
//! assert_eq!(vendor.requests(), [request.clone(), request]);
//! assert_eq!(clock.slept(), [Duration::from_millis(250)]);
//! assert_eq!(clock.wall(), TestClock::START.plus(Duration::from_millis(3_250)));
//! # });
//! ```
//!
//! Nothing here panics or fails a test by itself. A wrong script comes out as a failed call that says why, and
//! [`ScriptedTransport::remaining`] and [`FaultPlan::pending`] tell whether the test got as far as it meant.

pub mod conformance;
pub mod contract;
mod fault;
mod front;
#[doc(hidden)]
pub mod internal {
    //! For the fakes alone, which stand behind the same fronts.

    use std::io;

    pub use crate::fault::data::{FaultRule, planned};
    pub use crate::front::{Backend, Lease, PAGE, Page, PageAnswer, Wiring};
    pub use crate::scripted::cut;
    pub use steadfast_core::internal::testkit::{claim_at, let_pass, transition_at};

    /// A front that is wired so, once it listens.
    ///
    /// # Errors
    ///
    /// The machine gives no port.
    pub async fn listen(wiring: Wiring) -> io::Result<crate::Front> {
        crate::Front::listen(wiring).await
    }
}
mod near;
mod random;
mod scripted;

pub use fault::{FAULT_HEADER, Fault, FaultPlan, WaitForm};
pub use front::Front;
pub use random::{FixedRandom, SeededRandom};
pub use scripted::ScriptedTransport;
#[doc(inline)]
pub use steadfast_core::internal::testkit::TestClock;

/// One step of SplitMix64's output function: every bit of `state` reaches every bit of the result.
///
/// Its own few lines rather than a generator of `rand`, whose streams may change between versions: a seed
/// that reproduced a failure must reproduce it next year. Constants from Steele, Lea, Flood, "Fast Splittable
/// Pseudorandom Number Generators" (OOPSLA 2014), in Vigna's public-domain form.
fn mix(state: u64) -> u64 {
    let state = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let state = (state ^ (state >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    state ^ (state >> 31)
}

/// SplitMix64's increment: the odd number nearest to 2⁶⁴ divided by the golden ratio.
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;
