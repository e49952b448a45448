//! Settings for a part of a vendor's paths: the ladder, the timeouts, the choice for an unknown
//! outcome, and what is never shown.
//!
//! The gates belong to the vendor and not to a route: a breaker that saw a part of the calls would see the outage late.
//! The call's own setting comes first, then its route, then the client's policy. Recovery knows the path of what it
//! carries on with, so it goes by the route too. The choice for an unknown outcome is on record with the first claim.

use std::sync::Arc;
use std::time::Duration;

use url::Url;

use steadfast_core::operation::RedactedFields;
use steadfast_core::policy::{Backoff, Timeouts};
use steadfast_core::{Error, Input, OnUnknown, Policy};

use super::prefixes::{self, Prefixes};

/// The settings of one route.
#[derive(Clone, Debug, Default)]
pub(crate) struct Route {
    pub backoff: Option<Backoff>,
    pub timeout: Option<Timeouts>,
    pub on_unknown: OnUnknown,
    pub redact: RedactedFields,
}

/// The routes that differ.
#[derive(Clone, Debug)]
pub(crate) struct Routes {
    routes: Prefixes<Arc<Route>>,
    /// The longest exchange of any of them.
    attempt_max: Duration,
}

impl Routes {
    /// # Errors
    ///
    /// A validation error if a prefix is no route, or if a route's policy contradicts itself or the client's gates.
    pub(crate) fn new(routes: Vec<(String, Route)>, policy: &Policy) -> Result<Routes, Error> {
        let mut attempt_max = policy.timeout.attempt;
        for (prefix, route) in &routes {
            prefixes::check(prefix, Input::Other("routes"))?;
            let whole = route.over(policy);
            whole.validate()?;
            attempt_max = attempt_max.max(whole.timeout.attempt);
        }
        let routes = routes.into_iter().map(|(prefix, route)| (prefix, Arc::new(route))).collect();
        Ok(Routes { routes: Prefixes::new(routes), attempt_max })
    }

    /// The settings for a call to `url`.
    pub(crate) fn of(&self, base: &Url, url: &Url) -> Option<Arc<Route>> {
        self.routes.of(base, url).cloned()
    }

    /// The longest exchange of any call of the client's.
    pub(crate) fn attempt_max(&self) -> Duration {
        self.attempt_max
    }
}

impl Route {
    /// The client's policy as it is on this route.
    fn over(&self, policy: &Policy) -> Policy {
        let mut whole = policy.clone();
        if let Some(backoff) = &self.backoff {
            whole.backoff = backoff.clone();
        }
        if let Some(timeout) = self.timeout {
            whole.timeout = timeout;
        }
        // A retention that is the default is raised, call by call.
        whole.retention = whole.retention.max(whole.backoff.longest()).max(whole.timeout.total);
        whole
    }
}
