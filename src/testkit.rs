//! For tests of code that calls vendors: the test controls time, chance, answers and failures.
//!
//! It is the crate `steadfast-testkit`, and in [`fakes`] `steadfast-fakes`.

#[doc(inline)]
pub use steadfast_testkit::*;

#[doc(inline)]
pub use steadfast_fakes as fakes;

#[doc(hidden)]
pub mod internals;
