//! The next page of a list: by the `Link` header, and by rules that several vendors share.
//!
//! A rule here returns *last* only where the answer shows it. An answer that is no list, or broke off, is an error: a
//! list that ends early looks like one that is complete.

#![allow(missing_docs, reason = "for the crates of this workspace alone")]

use std::error::Error as StdError;

use http::header::LINK;
use serde_json::Value;
use url::Url;

use crate::answer::Answer;
use crate::request::Request;
use crate::vendor::rules::is_page;

/// The next page, or the reason for which the answer does not show it.
pub type NextPage = Result<Option<Url>, Box<dyn StdError + Send + Sync>>;

/// Returns the target of a `Link` header with `rel="next"` (RFC 8288). Without one it is the last page, and the only
/// one of a short list.
pub fn by_link(request: &Request, answer: &Answer) -> NextPage {
    if is_page(answer) {
        return Err(NO_LIST.into());
    }
    let values = answer.headers.get_all(LINK);
    let values: Result<Vec<&str>, _> = values.iter().map(|value| str::from_utf8(value.as_bytes())).collect();
    let values = values.map_err(|_| NO_LINK)?;
    if values.iter().any(|value| !value.trim().is_empty() && links(value).next().is_none()) {
        return Err(NO_LINK.into());
    }
    let next = values.into_iter().flat_map(links).find(|link| link.is_next);
    match next {
        Some(link) => Ok(Some(request.url.join(link.target).map_err(|_| NO_URL)?)),
        None if shows_more(answer) => Err(OTHERWISE.into()),
        None => Ok(None),
    }
}

/// Whether the body names a next page, by the names that vendors give it: `has_more` (Stripe, Plaid), a cursor (Square,
/// Increase, GoCardless), or a link of its own (PayPal). The `Link` header alone would take this page for the last.
fn shows_more(answer: &Answer) -> bool {
    let Some(list) = answer.json() else { return false };
    let is_text =
        |pointer: &str| list.pointer(pointer).and_then(Value::as_str).is_some_and(|text| !text.is_empty());
    let mut links = list.get("links").and_then(Value::as_array).into_iter().flatten();
    list.get("has_more") == Some(&Value::Bool(true))
        || [
            "/cursor",
            "/next_cursor",
            "/meta/cursors/after",
            "/next_page_url",
            "/links/next",
            "/_links/next/href",
        ]
        .into_iter()
        .any(is_text)
        || links.any(|link| link.get("rel").and_then(Value::as_str) == Some("next"))
}

/// The answer's JSON, which is an object.
pub fn object(answer: &Answer) -> Result<Value, &'static str> {
    answer.json().filter(Value::is_object).ok_or(NO_LIST)
}

/// Sets one parameter of the query in the request's URL; all others stay as they are.
pub fn with_parameter(request: &Request, name: &str, value: &str) -> Url {
    with_query(&request.url, &[(name.into(), value.into())])
}

/// Sets these parameters of the query, in the place of others of their name.
pub fn with_query(url: &Url, set: &[(String, String)]) -> Url {
    let is_set = |name: &str| set.iter().any(|(other, _)| other == name);
    let rest: Vec<(String, String)> =
        url.query_pairs().into_owned().filter(|(name, _)| !is_set(name)).collect();
    let mut next = url.clone();
    next.query_pairs_mut().clear().extend_pairs(rest.iter().chain(set));
    next
}

/// A number in the query of a request.
pub fn number_of(request: &Request, name: &str) -> Option<u64> {
    parameter(request, name)?.parse().ok()
}

/// A parameter in the query of a request.
pub fn parameter(request: &Request, name: &str) -> Option<String> {
    request.url.query_pairs().find(|(other, _)| other == name).map(|(_, value)| value.into_owned())
}

pub const NO_LIST: &str = "the response is not one of the vendor's list formats";
const NO_LINK: &str = "its Link header cannot be read";
const OTHERWISE: &str = "it names a next page, and not by a Link header: give the rule with pages_by";
const NO_URL: &str = "its next page has no URL";

/// A link of a header.
struct Link<'a> {
    target: &'a str,
    is_next: bool,
}

/// The links of one header's value: RFC 8288, section 3. A link that is about another resource than the answer (its
/// `anchor`) is none of this list's.
fn links(value: &str) -> impl Iterator<Item = Link<'_>> {
    let mut rest = value;
    std::iter::from_fn(move || {
        let (target, behind) = rest.split_once('<')?.1.split_once('>')?;
        let mut params = Params { rest: behind };
        let (mut relation, mut is_anchored) = (None, false);
        for (name, value) in params.by_ref() {
            if name.eq_ignore_ascii_case("rel") {
                // Of several the first counts (section 3.3).
                relation.get_or_insert(value);
            }
            is_anchored |= name.eq_ignore_ascii_case("anchor");
        }
        rest = params.rest;
        let is_next = relation.is_some_and(|relation| {
            relation.split(' ').any(|relation| relation.eq_ignore_ascii_case("next"))
        });
        Some(Link { target: target.trim(), is_next: is_next && !is_anchored })
    })
}

/// The parameters of one link: `; name=value` or `; name="value"`.
struct Params<'a> {
    rest: &'a str,
}

impl<'a> Iterator for Params<'a> {
    type Item = (&'a str, &'a str);

    fn next(&mut self) -> Option<(&'a str, &'a str)> {
        let param = self.rest.trim_start().strip_prefix(';')?.trim_start();
        let end = param.find(['=', ';', ',']).unwrap_or(param.len());
        let (name, behind) = param.split_at(end);
        let Some(value) = behind.strip_prefix('=') else {
            self.rest = behind;
            return Some((name.trim(), ""));
        };
        let value = value.trim_start();
        let (value, behind) = match value.strip_prefix('"') {
            // A quote within the value would stand behind a backslash. No relation has either.
            Some(quoted) => quoted.split_at(closing(quoted)),
            None => value.split_at(value.find([';', ',']).unwrap_or(value.len())),
        };
        self.rest = behind.strip_prefix('"').unwrap_or(behind);
        Some((name.trim(), value.trim()))
    }
}

/// Returns the end of a quoted text.
fn closing(quoted: &str) -> usize {
    let mut is_escaped = false;
    for (at, letter) in quoted.char_indices() {
        match letter {
            '"' if !is_escaped => return at,
            '\\' => is_escaped = !is_escaped,
            _ => is_escaped = false,
        }
    }
    quoted.len()
}

#[cfg(test)]
mod tests;
