//! Tools for tests of code that calls vendors: the test controls time, chance, answers and failures.
//!
//! The hard parts of a vendor call cannot be had on demand. A vendor charges the card and then loses the connection. A
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
//! The fakes of the vendors are in [`fakes`].
//!
//! Nothing here panics or fails a test by itself. A wrong script comes out as a failed call with the reason;
//! [`ScriptedTransport::remaining`] and [`FaultPlan::pending`] show how far the test got.

#[doc(inline)]
pub use steadfast_fakes as fakes;
#[doc(inline)]
pub use steadfast_testkit::{
    FAULT_HEADER, Fault, FaultPlan, FixedRandom, Front, ScriptedTransport, SeededRandom, TestClock, WaitForm,
    conformance, contract,
};
