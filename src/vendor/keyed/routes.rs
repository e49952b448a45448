//! The routes on which a vendor takes the key, such as `POST /payments/{id}/captures`.
//!
//! Such a route is a method and a whole path, where the routes of a policy are the beginnings of paths. A vendor that
//! takes the key on `/orders` need not take it on `/orders/{id}/track`, and would execute a repeat there. A route that
//! is not listed to the letter is not known to take the key.

use http::Method;

/// Whether a request of this method to this path, which is the one below the base URL, is on the route.
pub(super) fn is_on(route: &str, method: &Method, path: &str) -> bool {
    let Some((named, wanted)) = route.split_once(' ') else { return false };
    let mut segments = path.split('/');
    named == method.as_str()
        && wanted.split('/').all(|wanted| {
            let is_here = |own: &str| own == wanted || (is_parameter(wanted) && !own.is_empty());
            segments.next().is_some_and(is_here)
        })
        && segments.next().is_none()
}

/// A path on the route, if it is one of POSTs. Its parameters are any segment.
pub(super) fn path_of_post(route: &str) -> Option<String> {
    let path = route.strip_prefix("POST ")?;
    let segments = path.split('/').map(|segment| if is_parameter(segment) { "any" } else { segment });
    Some(segments.collect::<Vec<_>>().join("/"))
}

/// Returns the mistake in a route.
pub(super) fn problem(route: &str) -> Option<&'static str> {
    let Some((method, path)) = route.split_once(' ') else { return Some(FORM) };
    if !METHODS.contains(&method) || !path.starts_with('/') {
        return Some(FORM);
    }
    if path.contains(|letter: char| letter.is_whitespace() || "?#*".contains(letter)) {
        return Some("a route is a whole path without a query; `{id}` is any one segment");
    }
    let is_broken = |segment: &str| segment.contains(['{', '}']) && !is_parameter(segment);
    path.split('/').any(is_broken).then_some("`{id}` is a whole segment, with a name between its braces")
}

/// Returns true for a parameter such as `{id}`.
fn is_parameter(segment: &str) -> bool {
    let name = segment.strip_prefix('{').and_then(|rest| rest.strip_suffix('}'));
    name.is_some_and(|name| !name.is_empty() && !name.contains(['{', '}']))
}

const FORM: &str = "a route is a method and a path, such as \"POST /payments/{id}/captures\"";
/// Methods that may have an effect: no other carries a key.
const METHODS: [&str; 4] = ["POST", "PUT", "PATCH", "DELETE"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_route_is_a_method_and_a_whole_path() {
        for (route, path, expected) in [
            ("POST /payments", "/payments", true),
            ("POST /payments", "/payments/", false),
            ("POST /payments", "/payments/pay_1", false),
            ("POST /payments", "/Payments", false),
            ("POST /payments", "/v1/payments", false),
            ("POST /payments", "", false),
            ("PUT /payments", "/payments", false),
            ("POST /payments/{id}/captures", "/payments/pay_1/captures", true),
            ("POST /payments/{id}/captures", "/payments/a%2Fb/captures", true),
            ("POST /payments/{id}/captures", "/payments//captures", false),
            ("POST /payments/{id}/captures", "/payments/pay_1", false),
            ("POST /payments/{id}/captures", "/payments/pay_1/captures/again", false),
            ("POST /payments/{id}/captures", "/payments/pay_1/refunds", false),
            ("POST /", "/", true),
            ("POST /", "/payments", false),
        ] {
            assert_eq!(is_on(route, &Method::POST, path), expected, "{path:?} on {route}");
            let own = path_of_post(route);
            assert!(own.is_none_or(|own| is_on(route, &Method::POST, &own)), "{route}");
        }
    }

    #[test]
    fn a_malformed_route_is_refused() {
        for good in ["POST /", "PATCH /a/{id}", "DELETE /a/{x}/b.json"] {
            assert_eq!(problem(good), None, "{good}");
        }
        for bad in [
            "",
            "/emails",
            "POST",
            "POST emails",
            "post /emails",
            "GET /emails",
            "POST  /emails",
            "POST /emails ",
            "POST /emails?a=1",
            "POST /emails/*",
            "POST /a/{}",
            "POST /a/{id",
            "POST /a/x{id}",
        ] {
            assert!(problem(bad).is_some(), "{bad:?}");
        }
    }
}
