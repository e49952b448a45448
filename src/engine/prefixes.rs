//! Settings by route: the longest prefix of a call's path decides.

use std::cmp::Reverse;

use url::Url;

use steadfast_core::internal::error::Field;
use steadfast_core::internal::ext::InputErrorExt;
use steadfast_core::{Error, Input};

/// A value for each prefix, the one that says most first.
#[derive(Clone, Debug)]
pub(crate) struct Prefixes<T>(Vec<(String, T)>);

impl<T> Prefixes<T> {
    /// For the same prefix, the last value replaces what was set before.
    pub(super) fn new(mut values: Vec<(String, T)>) -> Prefixes<T> {
        // Stable, so that the last comes first.
        values.reverse();
        values.sort_by_key(|(prefix, _)| Reverse(rank(prefix)));
        Prefixes(values)
    }

    /// The value for a call to `url`, below the vendor's `base`.
    pub(super) fn of(&self, base: &Url, url: &Url) -> Option<&T> {
        if self.0.is_empty() {
            return None;
        }
        let path = below(base, url);
        self.0.iter().find(|(prefix, _)| is_below(path, prefix)).map(|(_, value)| value)
    }
}

/// # Errors
///
/// A validation error of this input that names the prefix, if it is no route.
pub(super) fn check(prefix: &str, input: Input) -> Result<(), Error> {
    match problem(prefix) {
        None => Ok(()),
        Some(problem) => Err(Error::invalid(input, problem).at(Field::named(prefix))),
    }
}

/// Why it is no route, or one that no path of a call ever has.
pub(crate) fn problem(prefix: &str) -> Option<String> {
    let method = prefix.split(' ').next().filter(|word| word.len() < prefix.len());
    if let Some(method) =
        method.filter(|word| !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_alphabetic()))
    {
        let path = prefix[method.len()..].trim();
        return Some(format!("it is for all methods and names none; write `{path}` without `{method}`"));
    }
    if !prefix.starts_with('/') || prefix.contains(['?', '#']) {
        return Some("a route starts with a slash, and has no query".to_owned());
    }
    let odd = |segment: &&str| {
        let is_template = segment.starts_with([':', '<', '$']) || segment.contains(['{', '}', '*']);
        !is_parameter(segment) && (is_template || segment.contains(char::is_whitespace))
    };
    if let Some(odd) = prefix.split('/').find(odd) {
        return Some(format!(
            "`{odd}` is taken as it stands, and no path has it; any one segment is written as {{name}}"
        ));
    }
    let literal = with_any(prefix, "any");
    let sent = Url::parse(&format!("https://host{literal}")).ok()?.path().to_owned();
    (sent != literal).then(|| format!("no path is sent like this; a call to it is sent as `{sent}`"))
}

/// The prefix without the names of its parameters.
pub(crate) fn meant(prefix: &str) -> String {
    with_any(prefix, "{}")
}

/// The prefix with this in place of each parameter.
fn with_any(prefix: &str, any: &str) -> String {
    let segments = prefix.split('/').map(|segment| if is_parameter(segment) { any } else { segment });
    segments.collect::<Vec<_>>().join("/")
}

/// The path of `url` as a call gives it, without the base's own.
fn below<'a>(base: &Url, url: &'a Url) -> &'a str {
    url.path().strip_prefix(base.path().trim_end_matches('/')).unwrap_or(url.path())
}

/// Whether `route` is `prefix`, or goes on from it with a whole segment. A parameter in the prefix, such as
/// `{charge}`, is any one segment.
fn is_below(route: &str, prefix: &str) -> bool {
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
fn rank(prefix: &str) -> (usize, usize, bool) {
    let segments = || prefix.split('/').filter(|segment| !segment.is_empty());
    let parameters = segments().filter(|segment| is_parameter(segment)).count();
    (segments().count(), segments().count() - parameters, prefix.ends_with('/'))
}

fn is_parameter(segment: &str) -> bool {
    segment.len() > 2 && segment.starts_with('{') && segment.ends_with('}')
}

#[cfg(test)]
mod tests {
    use super::*;

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
    fn what_no_path_has_is_no_route() {
        for good in ["/", "/v1/", "/v1/refunds/{id}", "/v1/{any}/capture", "/v1/refunds:batch", "/v1.0/a-b_c"]
        {
            assert_eq!(problem(good), None, "{good}");
        }
        for (bad, word) in [
            ("v1/refunds", "slash"),
            ("/v1?a=1", "query"),
            ("POST /v1/refunds", "write `/v1/refunds` without `POST`"),
            ("put  /v1", "write `/v1` without `put`"),
            ("/v1/refunds/:id", "`:id`"),
            ("/v1/refunds/<id>", "`<id>`"),
            ("/v1/refunds/*", "`*`"),
            ("/v1/refunds/{}", "`{}`"),
            ("/v1/re_{id}", "`re_{id}`"),
            ("/v1/refunds /x", "`refunds `"),
            ("/v1/../v2", "`/v2`"),
            ("/v1/caf\u{e9}/{id}", "`/v1/caf%C3%A9/any`"),
            ("/v1\\refunds", "`/v1/refunds`"),
        ] {
            let said = problem(bad).unwrap_or_default();
            assert!(said.contains(word), "{bad}: {said}");
        }
    }

    #[test]
    fn the_name_of_a_parameter_tells_no_routes_apart() {
        assert_eq!(meant("/v1/{a}/x/{b}"), meant("/v1/{id}/x/{other}"));
        assert_ne!(meant("/v1/{a}/x"), meant("/v1/a/x"));
    }

    #[test]
    fn the_prefix_that_says_most_comes_first() {
        let mut prefixes =
            ["/", "/v1", "/v1/charges/{charge}", "/v1/{a_long_name}", "/v1/charges/ch_1", "/v1/"];
        prefixes.sort_by_key(|prefix| Reverse(rank(prefix)));
        let expected = ["/v1/charges/ch_1", "/v1/charges/{charge}", "/v1/{a_long_name}", "/v1/", "/v1", "/"];
        assert_eq!(prefixes, expected);
    }
}
