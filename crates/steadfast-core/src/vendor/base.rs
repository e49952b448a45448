//! The base URL of a vendor.

use std::fmt;

use url::Url;

use crate::error::{Error, Input};

/// The URL that paths of calls are appended to, as it was given: an adapter is built without a `Result`.
///
/// A text that is no URL is refused by [`check`](BaseUrl::check), which the client's builder reaches through
/// [`Vendor::check`](super::Vendor::check). `Debug` shows neither credentials nor a query: a log may have shown it
/// before the check.
///
/// ```
/// use steadfast::vendor::BaseUrl;
///
/// let base = BaseUrl::new("https://api.parcels.example/v1");
/// base.check()?;
/// assert_eq!(base.route(&base.at("/parcels", &[("reference", "a b")])), "/parcels");
/// assert!(BaseUrl::new("api.parcels.example").check().is_err());
/// # Ok::<(), steadfast::Error>(())
/// ```
#[derive(Clone)]
pub struct BaseUrl {
    url: Url,
    problem: Option<String>,
}

impl fmt::Debug for BaseUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BaseUrl").field("url", &shown(&self.url)).field("problem", &self.problem).finish()
    }
}

/// Returns scheme, host and port of a URL, and nothing that may be secret.
pub fn shown(url: &Url) -> String {
    let authority = url.host_str().unwrap_or_default();
    let port = url.port().map(|port| format!(":{port}")).unwrap_or_default();
    format!("{}://{authority}{port}{}", url.scheme(), url.path())
}

impl BaseUrl {
    /// The URL in `text`.
    pub fn new(text: &str) -> BaseUrl {
        match Url::parse(text) {
            Ok(url) if url.cannot_be_a_base() => BaseUrl::broken("it has no host".into()),
            Ok(url) => BaseUrl { url, problem: None },
            Err(url::ParseError::RelativeUrlWithoutBase) => {
                BaseUrl::broken("it lacks its scheme; write it whole, as \"https://api.stripe.com\"".into())
            }
            Err(error) => BaseUrl::broken(error.to_string()),
        }
    }

    /// A base that `check` refuses. The URL is one that resolves nowhere (RFC 2606).
    fn broken(problem: String) -> BaseUrl {
        let url = Url::parse("https://invalid.invalid/").expect("a constant that is a URL");
        BaseUrl { url, problem: Some(problem) }
    }

    /// The URL, or one that resolves nowhere in place of what is none.
    pub fn url(&self) -> &Url {
        &self.url
    }

    /// Refuses a text that is no URL to which paths can be appended.
    ///
    /// # Errors
    ///
    /// A validation error that names the mistake.
    pub fn check(&self) -> Result<(), Error> {
        match &self.problem {
            None => Ok(()),
            Some(problem) => Err(Error::validation(Input::BaseUrl, problem.clone())),
        }
    }

    /// The path of `url` below the base, with a leading slash. Empty if it is not below it.
    pub fn route<'a>(&self, url: &'a Url) -> &'a str {
        let base = self.url.path().trim_end_matches('/');
        match url.path().strip_prefix(base) {
            Some(route) if route.starts_with('/') => route,
            _ => "",
        }
    }

    /// The URL of `route`, with a query.
    pub fn at(&self, route: &str, query: &[(&str, &str)]) -> Url {
        let mut url = self.url.clone();
        url.set_path(&format!("{}{route}", self.url.path().trim_end_matches('/')));
        url.set_query(None);
        url.set_fragment(None);
        if !query.is_empty() {
            url.query_pairs_mut().extend_pairs(query);
        }
        url
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_route_is_what_follows_the_base_path() {
        let base = BaseUrl::new("https://v.test/stores/x/");
        let route = |text: &str| base.route(&Url::parse(text).expect("a url")).to_owned();
        assert_eq!(route("https://v.test/stores/x/v2/orders?a=1"), "/v2/orders");
        assert_eq!(route("https://v.test/stores/xyz/v2/orders"), "");
        assert_eq!(
            base.at("/v2/orders", &[("a", "b c")]).as_str(),
            "https://v.test/stores/x/v2/orders?a=b+c"
        );
        assert_eq!(BaseUrl::new("http://v.test").at("/a", &[]).as_str(), "http://v.test/a");
    }

    #[test]
    fn a_text_that_is_no_url_is_refused_by_check() {
        for bad in ["", "api.stripe.com", "mailto:x@y.z"] {
            assert_eq!(BaseUrl::new(bad).check().expect_err(bad).code(), "VALIDATION.base_url");
        }
    }
}
