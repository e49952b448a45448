//! The path of a call, below its vendor's base URL, and the parameters in it.
//!
//! An id that a service puts into a path with `format!` may be anything: `../refunds`, `ch_1?expand[]=customer`, or
//! nothing at all, which makes a DELETE of one customer a DELETE of the list. So [`Call::path`] takes the ids apart
//! from the text around them. An id is then one segment, or a part of one, and never a piece of the route.

use std::fmt;

use steadfast_core::internal::ext::InputErrorExt;
use steadfast_core::internal::guard::Guard;
use steadfast_core::{Error, Input, OnUnknown};

use super::Call;
use crate::engine::routes::Route;

impl Call {
    /// Fills a parameter of the path: `{charge}` in `/v1/charges/{charge}`, as vendors write them in their references.
    /// All of its places are filled.
    ///
    /// ```
    #[doc = include_str!("../docs/setup/stripe.md")]
    /// let form = [("amount", "1000"), ("currency", "usd")];
    /// let charge = stripe.post("/v1/charges").key("order-42/charge").form(&form).send().await?;
    /// let id = charge.json::<serde_json::Value>()?["id"].as_str().unwrap().to_owned();
    ///
    /// let found = stripe.get("/v1/charges/{charge}").path("charge", &id).send().await?;
    /// assert_eq!(found.status(), 200);
    ///
    /// // An id is never a piece of the route.
    /// let climbs = stripe.get("/v1/charges/{charge}").path("charge", "../customers").send().await;
    /// assert_eq!(climbs.unwrap_err().code(), "VALIDATION.path");
    #[doc = include_str!("../docs/setup/end.md")]
    /// ```
    ///
    /// A value is percent-encoded: all but letters, digits, `-`, `.`, `_` and `~`. So `/`, `?` and `#` stay within it. An
    /// id of those characters alone gives the same path, and so the same operation, as one that `format!` wrote.
    ///
    /// These are mistakes that [`send`](Call::send) reports. A value is empty, has a control character, or has `.` or `..`
    /// between its slashes. The path has no parameter of this name. A parameter has no value. The value is never shown.
    pub fn path(mut self, name: &str, value: impl fmt::Display) -> Call {
        let filled = match self.unfilled.take() {
            None => Err(absent(name)),
            Some(template) => fill(&template, name, &value.to_string()).and_then(|path| {
                let base = self.client.engine.vendor.base_url().path();
                let left = set_path(&mut self.request.url, base, &path);
                left.map_err(|problem| format!("with the value of {{{name}}} it {problem}"))
            }),
        };
        match filled {
            Ok(unfilled) => {
                self.unfilled = unfilled;
                self.take_route();
            }
            Err(problem) => self.note(Error::invalid(Input::Path, problem)),
        }
        self
    }

    /// Takes the route of the filled path: a route of the client's may name what was a parameter. Fields that were redacted
    /// stay redacted. The choice for an unknown outcome only gets stricter: no filled path makes a call resend.
    fn take_route(&mut self) {
        let engine = &self.client.engine;
        let route = engine.routes.of(engine.vendor.base_url(), &self.request.url);
        let choice = |route: Option<&Route>| route.map_or(OnUnknown::ByMethod, |route| route.on_unknown);
        let (before, after) = (choice(self.work.route.as_deref()), choice(route.as_deref()));
        if after == OnUnknown::Park || (before == OnUnknown::Resend && after != OnUnknown::Resend) {
            self.work.on_unknown = after;
        }
        if let Some(route) = &route {
            self.work.redact = self.work.redact.and(&route.redact);
        }
        self.work.route = route;
    }

    /// Notes the first parameter of the path that has no value.
    pub(super) fn check_is_filled(&mut self) {
        if let Some(name) = self.unfilled.as_deref().and_then(first_parameter) {
            let problem = format!("{{{name}}} has no value; give it one with path(\"{name}\", …)");
            self.mistake.get_or_insert_with(|| Error::invalid(Input::Path, problem));
        }
    }
}

/// The path with the parameter's value in its places.
fn fill(template: &str, name: &str, value: &str) -> Result<String, String> {
    let place = ["{", name, "}"].concat();
    if !is_name(name) || !template.contains(&place) {
        return Err(absent(name));
    }
    let problem = if value.is_empty() {
        "is empty"
    } else if value.chars().any(char::is_control) {
        "has a control character"
    } else if value.split(['/', '\\']).any(is_dot_segment) {
        "has a . or .. segment"
    } else {
        return Ok(template.replace(&place, &encoded(value)));
    };
    Err(format!("the value of {place} {problem}"))
}

fn absent(name: &str) -> String {
    format!("it has no parameter {{{name}}} that is to be filled")
}

/// All but what RFC 3986 calls unreserved, in section 2.3. A `;` or `=` in an id is a parameter of the segment to some
/// servers, and a `+` a space.
fn encoded(value: &str) -> String {
    let mut text = String::with_capacity(value.len());
    for byte in value.bytes() {
        if byte.is_ascii_alphanumeric()
            || matches!(byte, b'-' | b'.' | b'_' | b'~')
            || Guard::IdIsASegment.is_out()
        {
            text.push(char::from(byte));
        } else {
            text.push_str(&format!("%{byte:02X}"));
        }
    }
    text
}

/// The name of the first parameter in a path.
fn first_parameter(path: &str) -> Option<&str> {
    let mut pieces = path.split('{').skip(1);
    pieces.find_map(|piece| piece.split_once('}').map(|(name, _)| name).filter(|name| is_name(name)))
}

/// What is in braces and no name is text, and is sent as it is.
fn is_name(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'))
}

/// Gives `url` the path `base` + `path`, and the query of `path` if it has one. Gives the path without its query if it
/// has parameters.
///
/// # Errors
///
/// What is wrong with the path.
pub(super) fn set_path(url: &mut url::Url, base: &str, path: &str) -> Result<Option<Box<str>>, &'static str> {
    if !path.starts_with('/') {
        return Err("must start with a slash; the host comes from the adapter");
    }
    // Most paths are plain, and are looked at once.
    let is_special = |byte| matches!(byte, b'#' | b'?' | b'.' | b'%' | b'{') || byte < b' ';
    let is_plain = !path.bytes().any(is_special);
    let (path_only, query) = if is_plain { (path, None) } else { checked(path)? };
    let mut base = base;
    while let Some(shorter) = base.strip_suffix('/') {
        base = shorter;
    }
    match base {
        "" => url.set_path(path_only),
        base => url.set_path(&[base, path_only].concat()),
    }
    if query.is_some() {
        url.set_query(query);
    }
    let has_parameters = !is_plain && first_parameter(path_only).is_some();
    Ok(has_parameters.then(|| path_only.into()))
}

/// A path and its query.
fn checked(path: &str) -> Result<(&str, Option<&str>), &'static str> {
    if path.contains('#') {
        return Err("must not have a fragment");
    }
    // A URL drops tabs and line ends, and what stood around one would be a segment then.
    if path.contains(|c: char| c < ' ') {
        return Err("must not have control characters");
    }
    let (path_only, query) = match path.split_once('?') {
        Some((path_only, query)) => (path_only, Some(query)),
        None => (path, None),
    };
    if path_only.split(['/', '\\']).any(is_dot_segment) {
        return Err("must not have . or .. segments");
    }
    Ok((path_only, query))
}

/// `base` with a longer path than it has: a clone's text then has room for a call's path, and setting it does not
/// allocate again. Made once per client.
pub(crate) fn with_room(base: &url::Url) -> url::Url {
    let mut roomy = base.clone();
    roomy.set_path(&[base.path(), &"-".repeat(PATH_ROOM)].concat());
    roomy
}

/// Longer than most paths of vendors; a longer one costs an allocation.
const PATH_ROOM: usize = 96;

/// Dots as the URL standard reads them, percent-encoded or not: they would climb out of the base path.
fn is_dot_segment(segment: &str) -> bool {
    let after_dot = |rest: &str| match rest.as_bytes() {
        [b'.', ..] => Some(1),
        [b'%', b'2', b'e' | b'E', ..] => Some(3),
        _ => None,
    };
    let Some(first) = after_dot(segment) else { return false };
    let rest = &segment[first..];
    rest.is_empty() || after_dot(rest) == Some(rest.len())
}

#[cfg(test)]
mod tests {
    use url::Url;

    use super::*;

    fn appended(base: &str, path: &str) -> Result<String, &'static str> {
        let base = Url::parse(base).expect(base);
        let mut url = with_room(&base);
        set_path(&mut url, base.path(), path).map(|_| url.to_string())
    }

    #[test]
    fn a_path_is_appended_to_the_base_path() {
        for (base, path, expected) in [
            ("https://v.test", "/v1/x", "https://v.test/v1/x"),
            ("https://v.test/stores/abc", "/v2/orders", "https://v.test/stores/abc/v2/orders"),
            ("https://v.test/stores/abc/", "/v2/orders?id=1", "https://v.test/stores/abc/v2/orders?id=1"),
            ("https://v.test", "//evil.test/x", "https://v.test//evil.test/x"),
        ] {
            assert_eq!(appended(base, path).expect(path), expected);
        }
    }

    #[test]
    fn a_path_cannot_leave_the_base_path() {
        for path in ["v1/x", "https://evil.test/", "/../x", "/a/%2e%2E/x", "/a/.", "/a\\..\\x", "/x#y", ""] {
            assert!(appended("https://v.test/base", path).is_err(), "{path}");
        }
    }

    #[test]
    fn a_value_is_encoded_into_one_segment_and_never_a_piece_of_the_route() {
        let filled = |value: &str| fill("/v1/charges/{id}/capture", "id", value);
        for (value, segment) in [
            ("ch_1", "ch_1"),
            ("a-b.c~d", "a-b.c~d"),
            ("a/b", "a%2Fb"),
            ("a?b#c", "a%3Fb%23c"),
            ("a b+c;d=e&f@g:h", "a%20b%2Bc%3Bd%3De%26f%40g%3Ah"),
            ("%2e%2e%2f", "%252e%252e%252f"),
            ("ü", "%C3%BC"),
            ("{id}", "%7Bid%7D"),
            ("...", "..."),
        ] {
            assert_eq!(filled(value).expect(value), format!("/v1/charges/{segment}/capture"));
            let path = appended("https://v.test/base", &filled(value).expect(value)).expect(value);
            assert_eq!(path, format!("https://v.test/base/v1/charges/{segment}/capture"));
        }
        for bad in ["", ".", "..", "../refunds", "a/../b", "a\\..\\b", "%2e%2e", "%2E/x", "a\nb", "a\0"] {
            assert!(filled(bad).is_err(), "{bad}");
        }
        assert!(fill("/v1/charges/{id}", "charge", "ch_1").is_err(), "no such parameter");
        assert_eq!(fill("/{a}/{b}/{a}.json", "a", "x").expect("two places"), "/x/{b}/x.json");
    }

    #[test]
    fn only_a_name_in_braces_is_a_parameter() {
        let first = |path| first_parameter(path).map(str::to_owned);
        assert_eq!(first("/a/{b_1}/{c}").as_deref(), Some("b_1"));
        for plain in ["/a", "/a/{}", "/a/{b c}", "/a/{b", "/a}b{"] {
            assert_eq!(first(plain), None, "{plain}");
        }
    }

    #[test]
    fn a_parameter_is_filled_whenever_it_is_given_and_the_query_stays() {
        let vendor = crate::vendor::BigCommerce::new("k8yfjd03xq", "token");
        let client = crate::Client::builder(vendor).transport(crate::testkit::ScriptedTransport::new());
        let client = client.build().expect("a client");
        let call = client.get("/v3/customers/{customer}/{part}?include=a").query(&[("limit", 3)]);
        let url = call.path("part", "a b").path("customer", 7).request.url;
        assert_eq!(url.path(), "/stores/k8yfjd03xq/v3/customers/7/a%20b");
        assert_eq!(url.query(), Some("include=a&limit=3"));
        let twice = client.get("/v3/customers/{customer}").path("customer", 7).path("customer", 8);
        assert!(twice.mistake.is_some(), "there is nothing left to fill");
    }
}
