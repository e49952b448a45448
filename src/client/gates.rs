//! Gates that an operator reads and switches while the service runs: kill switch, pause, circuit breaker.
//!
//! The gates themselves are the policy's run-time state. Their times are those of the client's clock, which only the
//! client has. So times leave here as the duration that is left.

use std::time::Duration;

use steadfast_core::policy::{BreakerState, Mode};

use super::Client;

/// # For operators
///
/// Methods to read and switch the gates between a call and the vendor while the service runs. All clones of a client
/// share it, and other processes do not. Settled operations are replayed whatever is switched.
///
/// ```
#[doc = include_str!("../docs/setup/stripe.md")]
/// use steadfast::policy::BreakerState;
///
/// // What an operator's page shows of a vendor.
/// assert!(!stripe.kill_switch_is_engaged());
/// assert_eq!(stripe.pause_left(), None);
/// assert_eq!(stripe.breaker_state(), Some(BreakerState::Closed));
/// assert_eq!(stripe.attempts_under_way(), None, "the policy sets no limit");
#[doc = include_str!("../docs/setup/end.md")]
/// ```
impl Client {
    /// Refuses all calls from now on. Attempts under way go on.
    ///
    /// ```
    #[doc = include_str!("../docs/setup/stripe.md")]
    /// use steadfast::Gate;
    ///
    /// stripe.engage_kill_switch();
    /// let error = stripe.get("/v1/charges").send().await.unwrap_err();
    /// assert_eq!(error.gate(), Some(Gate::KillSwitch));
    ///
    /// stripe.release_kill_switch();
    /// assert!(stripe.get("/v1/charges").send().await.is_ok());
    #[doc = include_str!("../docs/setup/end.md")]
    /// ```
    pub fn engage_kill_switch(&self) {
        self.engine.gates.engage_kill_switch();
    }

    /// Lets calls through again. See [`engage_kill_switch`](Client::engage_kill_switch).
    ///
    /// ```
    /// # use steadfast::Client;
    /// # use steadfast::vendor::Stripe;
    /// # let stripe = Client::builder(Stripe::new("sk_test_123").base_url("http://localhost:1")).build()?;
    /// stripe.engage_kill_switch();
    /// stripe.release_kill_switch();
    /// assert!(!stripe.kill_switch_is_engaged());
    /// # Ok::<(), steadfast::Error>(())
    /// ```
    pub fn release_kill_switch(&self) {
        self.engine.gates.release_kill_switch();
    }

    /// Whether the kill switch refuses all calls.
    ///
    /// ```
    /// # use steadfast::Client;
    /// # use steadfast::vendor::Stripe;
    /// # let stripe = Client::builder(Stripe::new("sk_test_123").base_url("http://localhost:1")).build()?;
    /// let clone = stripe.clone();
    /// stripe.engage_kill_switch();
    /// assert!(clone.kill_switch_is_engaged());
    /// # Ok::<(), steadfast::Error>(())
    /// ```
    pub fn kill_switch_is_engaged(&self) -> bool {
        self.engine.gates.kill_switch_is_engaged()
    }

    /// Holds every call back for `wait` from now, as if the vendor had asked for it. At most for the policy's
    /// [`pause_max`](crate::Policy::pause_max). It never shortens a pause.
    ///
    /// ```
    #[doc = include_str!("../docs/setup/stripe.md")]
    /// use std::time::Duration;
    /// use steadfast::Gate;
    ///
    /// // Stripe has announced ten minutes of maintenance.
    /// stripe.pause_for(Duration::from_secs(600));
    /// let error = stripe.get("/v1/charges").send().await.unwrap_err();
    /// assert_eq!(error.gate(), Some(Gate::Pause));
    ///
    /// stripe.pause_for(Duration::from_secs(1));
    /// assert_eq!(stripe.pause_left(), Some(Duration::from_secs(600)));
    #[doc = include_str!("../docs/setup/end.md")]
    /// ```
    pub fn pause_for(&self, wait: Duration) {
        self.engine.gates.hold(self.engine.clock.now(), wait);
    }

    /// Returns the time for which the vendor's pause still holds every call back. `None` if there is no pause.
    ///
    /// ```
    #[doc = include_str!("../docs/setup/stripe.md")]
    /// # use steadfast::testkit::{Fault, WaitForm};
    /// # fake.plan().next(Fault::TooManyRequests(WaitForm::Seconds(3600)));
    /// use std::time::Duration;
    ///
    /// // Stripe answers 429, and asks for an hour: longer than the call has.
    /// let _ = stripe.get("/v1/charges").send().await;
    /// assert_eq!(stripe.pause_left(), Some(Duration::from_secs(3600)));
    #[doc = include_str!("../docs/setup/end.md")]
    /// ```
    pub fn pause_left(&self) -> Option<Duration> {
        let now = self.engine.clock.now();
        self.engine.gates.paused_until(now).map(|until| until.since(now))
    }

    /// Ends the pause. For an operator who knows better than the vendor's header.
    ///
    /// ```
    #[doc = include_str!("../docs/setup/stripe.md")]
    /// # use steadfast::testkit::{Fault, WaitForm};
    /// # fake.plan().next(Fault::TooManyRequests(WaitForm::Seconds(3600)));
    /// // Stripe asks for an hour, by mistake: every call to it would wait.
    /// let _ = stripe.get("/v1/charges").send().await;
    /// assert!(stripe.pause_left().is_some());
    ///
    /// stripe.end_pause();
    /// assert!(stripe.get("/v1/charges").send().await.is_ok());
    #[doc = include_str!("../docs/setup/end.md")]
    /// ```
    pub fn end_pause(&self) {
        self.engine.gates.clear_pause();
    }

    /// The state of the circuit, whatever the breaker's mode. `None` if the policy has no breaker.
    ///
    /// ```
    #[doc = include_str!("../docs/setup/stripe.md")]
    /// # fake.plan().next_n(steadfast::testkit::Fault::Error500Before, 5);
    /// use steadfast::policy::{Backoff, BreakerState};
    ///
    /// // Stripe fails, and the fifth failure in a row opens the circuit.
    /// for _ in 0..5 {
    ///     let _ = stripe.get("/v1/charges").backoff(Backoff::none()).send().await;
    /// }
    /// let Some(BreakerState::Open { left }) = stripe.breaker_state() else { panic!("closed") };
    /// assert!(left.as_secs_f64() <= 1.0, "then it is probed");
    #[doc = include_str!("../docs/setup/end.md")]
    /// ```
    pub fn breaker_state(&self) -> Option<BreakerState> {
        self.engine.gates.breaker_state(self.engine.clock.now())
    }

    /// Returns the routes whose own circuits are not closed, and the time for which they have not been. A failure of
    /// such a route has no bearing on the vendor: calls to other routes go on. A route is a method and a path with `{}`
    /// in place of ids.
    ///
    /// ```
    /// # use steadfast::Client;
    /// # use steadfast::vendor::Stripe;
    /// # let stripe = Client::builder(Stripe::new("sk_test_123").base_url("http://localhost:1")).build()?;
    /// assert_eq!(stripe.open_routes(), []);
    /// # Ok::<(), steadfast::Error>(())
    /// ```
    pub fn open_routes(&self) -> Vec<(String, Duration)> {
        let now = self.engine.clock.now();
        let open = self.engine.gates.circuits().map(|circuits| circuits.open(now)).unwrap_or_default();
        open.into_iter().map(|route| (route.name.to_string(), now.since(route.since))).collect()
    }

    /// The accounts that are held because the vendor refuses their credentials, and for how long. Their operations wait,
    /// and are sent once the credentials are accepted again. Calls that have a caller are sent as ever.
    ///
    /// ```
    /// # use steadfast::Client;
    /// # use steadfast::vendor::Stripe;
    /// # let stripe = Client::builder(Stripe::new("sk_test_123").base_url("http://localhost:1")).build()?;
    /// assert_eq!(stripe.held_accounts(), []);
    /// # Ok::<(), steadfast::Error>(())
    /// ```
    pub fn held_accounts(&self) -> Vec<(String, Duration)> {
        let now = self.engine.clock.now();
        let told = self.engine.gates.credentials().held().into_iter().filter(|held| held.is_told);
        told.map(|held| (held.path, now.since(held.since))).collect()
    }

    /// Returns the mode: whether the breaker decides, or an operator. `None` if the policy has no breaker.
    ///
    /// ```
    /// # use steadfast::Client;
    /// # use steadfast::vendor::Stripe;
    /// # let stripe = Client::builder(Stripe::new("sk_test_123").base_url("http://localhost:1")).build()?;
    /// use steadfast::policy::Mode;
    ///
    /// assert_eq!(stripe.breaker_mode(), Some(Mode::Normal));
    /// # Ok::<(), steadfast::Error>(())
    /// ```
    pub fn breaker_mode(&self) -> Option<Mode> {
        self.engine.gates.breaker_mode()
    }

    /// Sets who decides whether the circuit lets calls through. The breaker keeps its state, which counts again on the
    /// return to [`Mode::Normal`]. Does nothing if the policy has no breaker.
    ///
    /// ```
    #[doc = include_str!("../docs/setup/stripe.md")]
    /// use steadfast::policy::{BreakerState, Mode};
    ///
    /// stripe.set_breaker_mode(Mode::ForcedOpen);
    /// let error = stripe.get("/v1/charges").send().await.unwrap_err();
    /// assert!(error.is_circuit_open());
    /// assert_eq!(stripe.breaker_state(), Some(BreakerState::Closed), "the breaker's own state");
    ///
    /// stripe.set_breaker_mode(Mode::Normal);
    /// assert!(stripe.get("/v1/charges").send().await.is_ok());
    #[doc = include_str!("../docs/setup/end.md")]
    /// ```
    pub fn set_breaker_mode(&self, mode: Mode) {
        self.engine.gates.set_breaker_mode(mode);
    }

    /// Returns the number of calls that [`Mode::ObserveOnly`] let through and that the breaker would have refused: the
    /// cost of a configuration. 0 if the policy has no breaker.
    ///
    /// ```
    #[doc = include_str!("../docs/setup/stripe.md")]
    /// # fake.plan().next_n(steadfast::testkit::Fault::Error500Before, 6);
    /// use steadfast::policy::{Backoff, Mode};
    ///
    /// stripe.set_breaker_mode(Mode::ObserveOnly);
    /// // Stripe fails six times in a row.
    /// for _ in 0..6 {
    ///     let _ = stripe.get("/v1/charges").backoff(Backoff::none()).send().await;
    /// }
    /// assert_eq!(stripe.breaker_would_have_refused(), 1, "the circuit opened at the fifth");
    #[doc = include_str!("../docs/setup/end.md")]
    /// ```
    pub fn breaker_would_have_refused(&self) -> u64 {
        self.engine.gates.would_be_refusals()
    }

    /// Returns the number of attempts under way, if the policy limits them. `None` if it does not. A streamed reply is
    /// one until its body has ended, or until another call has taken its place because it is not read.
    ///
    /// ```
    /// # use steadfast::Client;
    /// # use steadfast::vendor::Stripe;
    /// # let stripe = Stripe::new("sk_test_123").base_url("http://localhost:1");
    /// use steadfast::Policy;
    ///
    /// let stripe = Client::builder(stripe).policy(Policy::background().concurrency(8)).build()?;
    /// assert_eq!(stripe.attempts_under_way(), Some(0));
    /// # Ok::<(), steadfast::Error>(())
    /// ```
    pub fn attempts_under_way(&self) -> Option<u32> {
        self.engine.gates.under_way()
    }
}
