//! Tests of code that calls vendors: the test controls time, randomness, answers and failures.
//!
//! Services name it `steadfast::testkit`, by the feature `testkit`: the page of that module lists the types for
//! each kind of test. This crate is for the authors of a store or an adapter: [`contract`] and [`conformance`]
//! are the suites that they pass.

pub mod conformance;
pub mod contract;
mod fault;
mod front;
#[doc(hidden)]
pub mod internal {
    //! Access for the fakes alone, which stand behind the same fronts.

    use std::io;

    pub use crate::fault::data::{FaultRule, lasting, planned};
    pub use crate::fault::names;
    pub use crate::front::{Backend, Lease, PAGE, Page, PageAnswer, Wiring};
    pub use crate::scripted::cut;
    pub use steadfast_core::internal::testkit::{claim_at, let_pass, transition_at};

    /// Starts a front with this wiring.
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
/// These few lines replace a generator of `rand`, whose streams may change between versions: a seed that
/// reproduced a failure must reproduce it next year. Constants from Steele, Lea, Flood, "Fast Splittable
/// Pseudorandom Number Generators" (OOPSLA 2014), in Vigna's public-domain form.
fn mix(state: u64) -> u64 {
    let state = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let state = (state ^ (state >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    state ^ (state >> 31)
}

/// SplitMix64's increment: the odd number nearest to 2⁶⁴ divided by the golden ratio.
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;
