//! A vendor's route: a method and a path, its ids apart.
//!
//! An id is recognised by its form: words of letters are the API's own, and so is a version such as `v2`. An id of
//! letters alone, such as a user's name, is recognised by its siblings: see [`RouteName::folded_with`].

use std::fmt;

use easy_ext::ext;

/// The name of a route, such as `PUT /v2/orders/{}`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RouteName(Box<str>);

impl RouteName {
    /// Returns the name of a method and a path, as [`Scope::route`](super::Scope::route) has them.
    pub fn of(route: &str) -> RouteName {
        RouteName(RouteName::segments(route).collect::<Vec<&str>>().join("/").into())
    }

    /// The segments of its name.
    pub(crate) fn segments(route: &str) -> impl Iterator<Item = &str> {
        route.split('/').map(|segment| if is_id(segment) { ID } else { segment })
    }

    /// Whether a method and a path are of this route.
    pub fn is_of(&self, route: &str) -> bool {
        let (mut named, mut given) = (self.0.split('/'), route.split('/'));
        loop {
            match (named.next(), given.next()) {
                (None, None) => return true,
                (Some(ID), Some(segment)) if is_id(segment) => {}
                (Some(ANY), Some(segment)) if !segment.is_empty() => {}
                (Some(own), Some(segment)) if own == segment => {}
                _ => return false,
            }
        }
    }

    /// The route that has both of these, where they differ in one segment behind the first: that segment may be an id.
    pub fn folded_with(&self, other: &RouteName) -> Option<RouteName> {
        let (own, others): (Vec<&str>, Vec<&str>) =
            (self.0.split('/').collect(), other.0.split('/').collect());
        let mut differing = own.iter().zip(&others).enumerate().filter(|(_, (own, other))| own != other);
        let (at, _) = differing.next().filter(|(at, _)| *at > 1 && own.len() == others.len())?;
        if differing.next().is_some() {
            return None;
        }
        let folded: Vec<&str> =
            own.iter().enumerate().map(|(nth, segment)| if nth == at { ANY } else { *segment }).collect();
        Some(RouteName(folded.join("/").into()))
    }

    /// The name's text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Methods that only the crates of this workspace call.
#[ext(RouteNameExt)]
impl RouteName {
    /// The route of this name, as [`as_str`](RouteName::as_str) gave it.
    pub fn named(name: &str) -> RouteName {
        RouteName(name.into())
    }

    /// A regular expression of Postgres that finds the scopes of this route, and no others.
    pub fn pattern(&self) -> String {
        let segment = |segment: &str| match segment {
            ID => format!(r"(?!v[0-9.]+(/|$))([^/]*[^a-zA-Z._: /-][^/]*|[^/]{{{},}})", WORD_MAX + 1),
            ANY => "[^/]+".to_owned(),
            word => word.chars().map(escaped).collect(),
        };
        let segments: Vec<String> = self.0.split('/').map(segment).collect();
        format!("^[^/]*/[^/]*/[^/]*/{}$", segments.join("/"))
    }
}

impl fmt::Display for RouteName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for RouteName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

fn escaped(character: char) -> String {
    if character.is_ascii_alphanumeric() || matches!(character, ' ' | '_') {
        character.to_string()
    } else {
        format!("\\{character}")
    }
}

fn is_id(segment: &str) -> bool {
    let version = segment.strip_prefix('v').filter(|number| !number.is_empty());
    if version.is_some_and(|number| number.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.')) {
        return false;
    }
    let is_of_words =
        |byte: u8| byte.is_ascii_alphabetic() || matches!(byte, b'-' | b'_' | b'.' | b':' | b' ');
    segment.len() > WORD_MAX || !segment.bytes().all(is_of_words)
}

/// Place of an id in a name.
const ID: &str = "{}";

/// Place, in a name, of a segment that is taken for an id because it has many siblings.
const ANY: &str = "{*}";

/// The longest word of an API.
const WORD_MAX: usize = 32;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_replaced_and_words_and_versions_are_kept() {
        for (route, name) in [
            ("POST /v1/payment_intents", "POST /v1/payment_intents"),
            ("PUT /v2/orders/17", "PUT /v2/orders/{}"),
            ("PUT /v3/catalog/products/17/variants/3", "PUT /v3/catalog/products/{}/variants/{}"),
            ("POST /v1/charges/ch_3Mx/capture", "POST /v1/charges/{}/capture"),
            ("GET /users/ann%40example.com", "GET /users/{}"),
            ("DELETE /a/0b2c8f8e-92a4-4f0e-8f52-1d0c8f9a7b11", "DELETE /a/{}"),
            ("GET /a/abcdefghijklmnopqrstuvwxyzabcdefghi", "GET /a/{}"),
            ("POST /email/batch", "POST /email/batch"),
            ("POST /", "POST /"),
        ] {
            assert_eq!(RouteName::of(route).as_str(), name);
            assert!(RouteName::of(route).is_of(route), "{route}");
        }
    }

    #[test]
    fn a_word_beside_ids_is_a_route_of_its_own() {
        let orders = RouteName::of("PUT /v2/orders/17");
        assert!(orders.is_of("PUT /v2/orders/18"));
        for other in [
            "PUT /v2/orders/bulk",
            "PUT /v2/orders",
            "POST /v2/orders/18",
            "PUT /v2/orders/18/shipments",
            "PUT /v3/orders/18",
        ] {
            assert!(!orders.is_of(other), "{other}");
        }
    }

    #[test]
    fn names_that_differ_in_one_segment_fold() {
        let (ann, bob) = (RouteName::of("PUT /users/ann"), RouteName::of("PUT /users/bob"));
        let users = ann.folded_with(&bob).expect("one segment");
        assert_eq!(users.as_str(), "PUT /users/{*}");
        assert!(users.is_of("PUT /users/eve") && users.is_of("PUT /users/17"));
        for other in ["POST /users/bob", "PUT /groups/ann", "PUT /users/ann/x", "PUT /users/ann"] {
            assert_eq!(ann.folded_with(&RouteName::of(other)), None, "{other}");
        }
    }
}
