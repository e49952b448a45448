//! Whom a recorded request may be sent to.
//!
//! Recovery sends what another process recorded, and adds its own secret. Scope and fingerprint name no host. So a
//! service with a wrong base URL could have that secret sent to its host, and only a comparison of the two addresses
//! tells. It is made here, before the loop, for all that was taken over; a call's own request is made from the base
//! URL.
//!
//! A vendor may move to another host. If the client names the old host as a [former base
//! URL](crate::ClientBuilder::former_base_url), what was recorded for it is sent to the new one. If not, it becomes a
//! dead letter: only the service can tell a vendor that moved from a base URL that is wrong.

use std::borrow::Cow;

use url::Url;

use steadfast_core::clock::Instant;
use steadfast_core::internal::error::Kind;
use steadfast_core::internal::ext::ErrorExt;
use steadfast_core::internal::transport::is_loopback;
use steadfast_core::operation::{Key, OperationId};
use steadfast_core::transport::Request;
use steadfast_core::{Effect, Error};

use super::Engine;
use crate::limit;

impl Engine {
    /// The URL that a request goes to which was recorded for `url`: that URL, if it is on the present host. A request that was recorded
    /// below a former base URL, and is not below the present one, goes below the present one. `None` if it may not have
    /// this client's secret.
    ///
    /// A former base URL that holds the present one, such as the same one without a version, maps nothing: the recorded
    /// path has its own version.
    pub(crate) fn address<'a>(&self, url: &'a Url) -> Option<Cow<'a, Url>> {
        let base = self.vendor.base_url();
        if rest_below(url, base).is_some() {
            return Some(Cow::Borrowed(url));
        }
        let has_moved = |former: &&Url| rest_below(base, former).is_none();
        let mut formers = self.former_base_urls.iter().filter(has_moved);
        let Some(rest) = formers.find_map(|former| rest_below(url, former)) else {
            return is_same_place(url, base).then_some(Cow::Borrowed(url));
        };
        let path = [without_slash(base), rest].concat();
        let mut present = base.clone();
        present.set_path(&path);
        present.set_query(url.query());
        Some(Cow::Owned(present))
    }

    /// Whether a request that was recorded for `url` goes to a place below the present base URL.
    pub(crate) fn reaches(&self, url: &Url) -> bool {
        let base = self.vendor.base_url();
        self.address(url).is_some_and(|url| rest_below(&url, base).is_some())
    }

    /// The paths that a call to `path` had below the former base URLs, where they are other paths.
    pub(super) fn former_paths(&self, path: &str) -> impl Iterator<Item = String> {
        let base = without_slash(self.vendor.base_url());
        let rest = path.strip_prefix(base).filter(|rest| rest.starts_with('/'));
        let formers = self.former_base_urls.iter().map(without_slash).filter(move |former| *former != base);
        formers.zip(rest.into_iter().cycle()).map(|(former, rest)| [former, rest].concat())
    }

    /// The path by which the operation of a call is named that is on record from before its vendor moved. An operation's
    /// name has the path, less what [`Vendor::operation_path`](crate::vendor::Vendor::operation_path) leaves out: by
    /// another one, a repeat would be another operation, and a second effect.
    ///
    /// Asked before the claim, and not in one with it: only a process that has not heard yet that the vendor moved
    /// still gives such a name.
    ///
    /// # Errors
    ///
    /// A store that failed, or did not answer by `deadline`.
    pub(super) async fn former_name(
        &self,
        request: &Request,
        key: &Key,
        deadline: Instant,
    ) -> Result<Option<String>, Error> {
        for path in self.former_paths(request.url.path()) {
            let id = OperationId::new(self.scope_at(request, &path), key.clone());
            let failed = || Error::new(Kind::Store { doing: FIND }, Effect::Unknown);
            let read = limit::within(&*self.clock, deadline, self.store.get(&id)).await;
            let read =
                read.ok_or_else(failed).and_then(|read| read.map_err(|error| failed().with_source(error)));
            if read.map_err(|error| self.in_context(error, request, Some((&id, None))))?.is_some() {
                return Ok(Some(path));
            }
        }
        Ok(None)
    }

    /// Whether a row of the outbox that was written for this origin is for this client. Its path is below the base
    /// URL of the client that writes it.
    pub(crate) fn is_of_origin(&self, origin: &str) -> bool {
        let Ok(origin) = Url::parse(origin) else { return false };
        let formers = self.former_base_urls.iter();
        is_same_place(&origin, self.vendor.base_url())
            || formers.into_iter().any(|former| former.origin() == origin.origin())
    }

    /// Scheme, host and port of the base URL. Its path may hold a secret.
    pub(crate) fn origin(&self) -> String {
        self.vendor.base_url().origin().ascii_serialization()
    }
}

/// The rest of the path of `url` below that of `base`. `None` if it is not below it.
fn rest_below<'a>(url: &'a Url, base: &Url) -> Option<&'a str> {
    let rest = url.path().strip_prefix(without_slash(base))?;
    (url.origin() == base.origin() && rest.starts_with('/')).then_some(rest)
}

fn without_slash(url: &Url) -> &str {
    url.path().trim_end_matches('/')
}

const FIND: &str = "find the operation by the name that it had below a former base URL";

/// Of one scheme, host and port. A fake on loopback has another port each time.
fn is_same_place(one: &Url, other: &Url) -> bool {
    let is_same = one.scheme() == other.scheme()
        && one.host_str() == other.host_str()
        && one.port_or_known_default() == other.port_or_known_default();
    is_same || (is_loopback(one) && is_loopback(other))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_a_scheme_a_host_and_a_port() {
        let same = |one: &str, other: &str| {
            is_same_place(&Url::parse(one).expect(one), &Url::parse(other).expect(other))
        };
        for (one, other) in [
            ("https://v.test/a?b=1", "https://v.test:443/"),
            ("https://V.test/", "https://v.test/base"),
            ("http://127.0.0.1:1/", "http://localhost:2/"),
        ] {
            assert!(same(one, other), "{one} {other}");
        }
        for (one, other) in [
            ("https://v.test/", "http://v.test/"),
            ("https://v.test/", "https://v.test:8443/"),
            ("https://v.test/", "https://v.test.evil.example/"),
            ("https://v.test/", "https://api.v.test/"),
            ("http://127.0.0.1:1/", "https://v.test/"),
            ("http://localhost.evil.example/", "http://localhost/"),
        ] {
            assert!(!same(one, other) && !same(other, one), "{one} {other}");
        }
    }
}
