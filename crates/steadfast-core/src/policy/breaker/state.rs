//! State of a circuit, and the mode in which it is decided on.

use std::time::Duration;

/// Mode: the breaker decides, or an operator.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum Mode {
    /// The breaker.
    #[default]
    Normal,
    /// Every call is refused.
    ForcedOpen,
    /// Every call is admitted, and none is counted.
    ForcedClosed,
    /// Every call is admitted; the breaker keeps its state as if it decided, and counts what it would have
    /// refused. To try out a configuration.
    ObserveOnly,
}

/// State of a circuit. The field's words: *open* means that calls are refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BreakerState {
    /// Calls go.
    Closed,
    /// Calls are refused.
    Open {
        /// Time that is left until probes may go.
        left: Duration,
    },
    /// A few probes may go. Also the state of an open circuit whose time is over.
    HalfOpen,
}
