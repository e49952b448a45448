//! The retention of settled operations: by the policy, by route, by call.
//!
//! A record that ends before the vendor forgets the key, or before its own call is over, is a second charge that the
//! caller did not ask for. So no retention may be shorter than both together: the [floor](Floor). A setting that is too
//! short is refused. A default is raised to it. That is the default, and the policy's own for a
//! route whose vendor remembers for longer than elsewhere (Stripe replays keys of `/v2` for 30 days).

use std::time::Duration;

use url::Url;

use steadfast_core::internal::error::{Field, field};
use steadfast_core::internal::ext::InputErrorExt;
use steadfast_core::internal::guard::Guard;
use steadfast_core::internal::policy::RETENTION;
use steadfast_core::internal::vendor::{Content, stamped};
use steadfast_core::policy::{Backoff, Timeouts};
use steadfast_core::vendor::Vendor;
use steadfast_core::{Error, Input, Policy};

use super::prefixes::{self, Prefixes};

/// The retention of routes.
#[derive(Clone, Debug)]
pub(crate) struct Retention {
    routes: Prefixes<Duration>,
}

/// The least that a record must be kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Floor {
    /// How long the vendor replays the key; zero if it does not.
    window: Duration,
    /// The longest that a call takes: the waits of its ladder, or its total time.
    call: Duration,
}

impl Floor {
    pub(crate) fn new(window: Option<Duration>, backoff: &Backoff, timeout: &Timeouts) -> Floor {
        Floor { window: window.unwrap_or_default(), call: backoff.longest().max(timeout.total) }
    }

    fn least(self) -> Duration {
        self.window.saturating_add(self.call)
    }

    /// Why a record must not be kept for `keep`, if it must not.
    fn problem(self, keep: Duration) -> Option<String> {
        let Floor { window, call } = self;
        (keep < self.least()).then(|| {
            format!(
                "{keep:?} is shorter than {:?}: the vendor replays a key for {window:?}, and a call takes up to {call:?}",
                self.least()
            )
        })
    }

    /// The retention that one call asks for.
    ///
    /// # Errors
    ///
    /// A validation error with both figures if it is too short.
    pub(crate) fn accept(self, keep: Duration) -> Result<Duration, Error> {
        match self.problem(keep) {
            None => Ok(keep),
            Some(problem) => Err(Error::invalid(Input::Retention, problem)),
        }
    }
}

impl Retention {
    /// Checks the routes' retention and the policy's own against what `vendor` does.
    ///
    /// # Errors
    ///
    /// A validation error that names the route or `record.keep`, with both figures.
    pub(crate) fn new(
        routes: Vec<(String, Duration)>,
        policy: &Policy,
        vendor: &dyn Vendor,
    ) -> Result<Retention, Error> {
        let floor = |route: &str| {
            let window = window_of(vendor, route);
            Floor::new(window, &policy.backoff, &policy.timeout)
        };
        // The default is what nobody wrote: it is raised, call by call.
        if policy.retention != RETENTION
            && let Some(problem) = floor(&vendor.keyed_path()).problem(policy.retention)
        {
            return Err(Error::invalid(Input::Policy, problem).at(field!(record.keep)));
        }
        for (route, keep) in &routes {
            prefixes::check(route, Input::Retention)?;
            if let Some(problem) = floor(route).problem(*keep) {
                return Err(Error::invalid(Input::Retention, problem).at(Field::named(route)));
            }
        }
        Ok(Retention { routes: Prefixes::new(routes) })
    }

    /// How long the record of a call to `url` is kept, if the call itself does not say.
    pub(crate) fn of(&self, policy: &Policy, base: &Url, url: &Url, floor: Floor) -> Duration {
        let keep = self.routes.of(base, url).copied().unwrap_or(policy.retention);
        keep.max(Guard::RetentionFloor.keeps(floor.least()))
    }
}

/// How long the vendor replays the key of a POST to `route`, as far as a made-up request tells. Vendors judge by the
/// request as it is stamped. A form, and JSON for those that take their key in it.
pub(crate) fn window_of(vendor: &dyn Vendor, route: &str) -> Option<Duration> {
    let window = |content| vendor.replay_window(&stamped(vendor, route, content)?.0);
    window(Content::Form).max(window(Content::Json))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_secs(3600);

    #[test]
    fn the_floor_is_the_window_and_the_longest_call_together() {
        let policy = Policy::background();
        let floor = Floor::new(Some(HOUR), &policy.backoff, &policy.timeout);
        assert_eq!(floor.least(), HOUR + Duration::from_secs(120));
        assert!(floor.accept(floor.least()).is_ok());
        let short = floor.least() - Duration::from_millis(1);
        let told = floor.accept(short).expect_err("too short").to_string();
        assert!(told.contains("3719.999s") && told.contains("3720s"), "{told}");
    }
}
