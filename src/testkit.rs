//! Tests of vendor calls.

mod clock;
#[cfg(feature = "testkit")]
pub mod fakes;
mod fault;
#[cfg(feature = "testkit")]
mod front;
mod random;
mod scripted;

pub use clock::TestClock;
pub use fault::{FAULT_HEADER, Fault, FaultPlan, WaitForm};
#[cfg(feature = "testkit")]
pub use front::Front;
pub use random::{FixedRandom, SeededRandom};
pub use scripted::ScriptedTransport;

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
