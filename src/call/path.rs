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
use crate::prepared::path::{is_dot_segment, is_name, set_path};

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
        let filled = match self.prepared.unfilled.take() {
            None => Err(absent(name)),
            Some(template) => fill(&template, name, &value.to_string()).and_then(|path| {
                let base = self.prepared.engine.vendor.base_url().path();
                let left = set_path(&mut self.prepared.request.url, base, &path);
                left.map_err(|problem| format!("with the value of {{{name}}} it {problem}"))
            }),
        };
        match filled {
            Ok(unfilled) => {
                self.prepared.unfilled = unfilled;
                self.take_route();
            }
            Err(problem) => self.note(Error::invalid(Input::Path, problem)),
        }
        self
    }

    /// Takes the route of the filled path: a route of the client's may name what was a parameter. Fields that were redacted
    /// stay redacted. The choice for an unknown outcome only gets stricter: no filled path makes a call resend.
    fn take_route(&mut self) {
        let engine = &self.prepared.engine;
        let route = engine.routes.of(engine.vendor.base_url(), &self.prepared.request.url);
        let choice = |route: Option<&Route>| route.map_or(OnUnknown::ByMethod, |route| route.on_unknown);
        let (before, after) = (choice(self.prepared.work.route.as_deref()), choice(route.as_deref()));
        if after == OnUnknown::Park || (before == OnUnknown::Resend && after != OnUnknown::Resend) {
            self.prepared.work.on_unknown = after;
        }
        if let Some(route) = &route {
            self.prepared.work.redact = self.prepared.work.redact.and(&route.redact);
        }
        self.prepared.work.route = route;
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
    format!("the path has no parameter `{{{name}}}`")
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::prepared::path::tests::appended;

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
    fn a_parameter_is_filled_whenever_it_is_given_and_the_query_stays() {
        let vendor = crate::vendor::BigCommerce::new("k8yfjd03xq", "token");
        let client = crate::Client::builder(vendor).transport(crate::testkit::ScriptedTransport::new());
        let client = client.build().expect("a client");
        let call = client.get("/v3/customers/{customer}/{part}?include=a").query(&[("limit", 3)]);
        let url = call.path("part", "a b").path("customer", 7).prepared.request.url;
        assert_eq!(url.path(), "/stores/k8yfjd03xq/v3/customers/7/a%20b");
        assert_eq!(url.query(), Some("include=a&limit=3"));
        let twice = client.get("/v3/customers/{customer}").path("customer", 7).path("customer", 8);
        assert!(twice.prepared.mistake.is_some(), "there is nothing left to fill");
    }
}
