//! The retention of settled operations: by the policy, by route, by call.
//!
//! A record that ends before the vendor forgets the key, or before its own call is over, is a second charge that the
//! caller did not ask for. So no retention may be shorter than both together: the [floor](Floor). What is written too
//! short is refused. What the service did not set is raised to it. That is the default, and the policy's own for a
//! route whose vendor remembers for longer than elsewhere (Stripe replays keys of `/v2` for 30 days).

use std::time::Duration;

use http::header::{CONTENT_TYPE, HeaderValue};
use http::{HeaderMap, Method};
use url::Url;

use crate::error::{Error, Field, Input, field};
use crate::guard::Guard;
use crate::operation::{Key, OperationId, Scope};
use crate::policy::{Backoff, Policy, RETENTION, Timeouts};
use crate::request::Request;
use crate::vendor::Vendor;

/// The retention of routes, the longest prefix first.
#[derive(Clone, Debug, Default)]
pub(crate) struct Retention {
    routes: Vec<(String, Duration)>,
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

    /// What one call asks for.
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
        mut routes: Vec<(String, Duration)>,
        policy: &Policy,
        vendor: &dyn Vendor,
    ) -> Result<Retention, Error> {
        let floor = |route: &str| {
            let window = window_of(vendor, route);
            Floor::new(window, &policy.backoff, &policy.timeout)
        };
        // The default is what nobody wrote: it is raised, call by call.
        if policy.retention != RETENTION
            && let Some(problem) = floor("/").problem(policy.retention)
        {
            return Err(Error::invalid(Input::Policy, problem).at(field!(record.keep)));
        }
        for (route, keep) in &routes {
            if !route.starts_with('/') || route.contains(['?', '#']) {
                let problem = "a route starts with a slash, and has no query";
                return Err(Error::invalid(Input::Retention, problem).at(Field::named(route)));
            }
            if let Some(problem) = floor(route).problem(*keep) {
                return Err(Error::invalid(Input::Retention, problem).at(Field::named(route)));
            }
        }
        // Stable, and what was said last comes first: it replaces what was said before.
        routes.reverse();
        routes.sort_by_key(|(route, _)| std::cmp::Reverse(rank(route)));
        Ok(Retention { routes })
    }

    /// How long the record of a call to `url` is kept, if the call itself does not say.
    pub(crate) fn of(&self, policy: &Policy, base: &Url, url: &Url, floor: Floor) -> Duration {
        let keep = if self.routes.is_empty() {
            policy.retention
        } else {
            let route = below(base, url);
            let said = self.routes.iter().find(|(prefix, _)| is_below(route, prefix));
            said.map_or(policy.retention, |(_, keep)| *keep)
        };
        keep.max(Guard::RetentionFloor.keeps(floor.least()))
    }
}

/// The path of `url` as a call gives it, without the base's own.
pub(super) fn below<'a>(base: &Url, url: &'a Url) -> &'a str {
    url.path().strip_prefix(base.path().trim_end_matches('/')).unwrap_or(url.path())
}

/// Whether `route` is `prefix`, or goes on from it with a whole segment. A parameter in the prefix, such as
/// `{charge}`, is any one segment.
pub(super) fn is_below(route: &str, prefix: &str) -> bool {
    let mut segments = route.split('/');
    let mut wanted = prefix.split('/').peekable();
    while let Some(segment) = wanted.next() {
        // A slash at the end asks for one more segment, whichever.
        let is_any = is_parameter(segment) || (segment.is_empty() && wanted.peek().is_none());
        match segments.next() {
            Some(own) if is_any || own == segment => {}
            _ => return false,
        }
    }
    true
}

/// A prefix of more segments comes first, and of as many the one with fewer parameters.
pub(super) fn rank(prefix: &str) -> (usize, usize, bool) {
    let segments = || prefix.split('/').filter(|segment| !segment.is_empty());
    let parameters = segments().filter(|segment| is_parameter(segment)).count();
    (segments().count(), segments().count() - parameters, prefix.ends_with('/'))
}

fn is_parameter(segment: &str) -> bool {
    segment.len() > 2 && segment.starts_with('{') && segment.ends_with('}')
}

/// How long the vendor replays the key of a POST to `route`, as far as a made-up request tells. Vendors judge by the
/// request as it is stamped. A form, and JSON for those that take their key in it.
pub(super) fn window_of(vendor: &dyn Vendor, route: &str) -> Option<Duration> {
    let key = Key::new("retention").expect("a constant that is a key");
    let scope =
        Scope::new("default", vendor.name(), &vendor.account(&HeaderMap::new()), &Method::POST, route);
    let id = OperationId::new(scope, key);
    let probe = |kind: &'static str, body: &'static str| {
        let mut url = vendor.base_url().clone();
        url.set_path(&[url.path().trim_end_matches('/'), route].concat());
        let mut request = Request::new(Method::POST, url);
        request.headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
        request.body = body.into();
        vendor.stamp(id.wire_key(), &mut request).ok()?;
        vendor.replay_window(&request)
    };
    probe("application/x-www-form-urlencoded", "").max(probe("application/json", "{}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_secs(3600);

    #[test]
    fn a_prefix_ends_with_a_whole_segment() {
        for (route, prefix, expected) in [
            ("/v1/charges", "/v1/charges", true),
            ("/v1/charges/ch_1/capture", "/v1/charges", true),
            ("/v1/charges_all", "/v1/charges", false),
            ("/v1/charges", "/v1/", true),
            ("/v1", "/v1/", false),
            ("/v1/charges", "/", true),
            ("/v1/charges/ch_1/capture", "/v1/charges/{charge}/capture", true),
            ("/v1/charges/ch_1/capture", "/v1/{any}", true),
            ("/v1/charges/ch_1", "/v1/charges/{charge}/capture", false),
            ("/v1/charges/ch_1/refunds", "/v1/charges/{charge}/capture", false),
            ("/v1/charges", "/v1/charges/{charge}", false),
        ] {
            assert_eq!(is_below(route, prefix), expected, "{route} below {prefix}");
        }
    }

    #[test]
    fn the_prefix_that_says_most_comes_first() {
        let mut prefixes =
            ["/", "/v1", "/v1/charges/{charge}", "/v1/{a_long_name}", "/v1/charges/ch_1", "/v1/"];
        prefixes.sort_by_key(|prefix| std::cmp::Reverse(rank(prefix)));
        let expected = ["/v1/charges/ch_1", "/v1/charges/{charge}", "/v1/{a_long_name}", "/v1/", "/v1", "/"];
        assert_eq!(prefixes, expected);
    }

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
