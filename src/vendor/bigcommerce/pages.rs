//! The next page of a list at BigCommerce.

use serde_json::Value;
use url::form_urlencoded;

use steadfast_core::internal::vendor::{NO_LIST, NextPage, number_of, object, with_parameter, with_query};
use steadfast_core::transport::{Answer, Request};

/// Returns the next page; a V3 list has in `meta` its page and the number of pages, or the query of the next one
/// (developer.bigcommerce.com, "REST pagination"). A V2 list is a bare array, without a word on what comes after it.
pub(super) fn next(route: &str, asked: &Request, answer: &Answer) -> NextPage {
    if route.starts_with("/v2/") {
        return next_v2(asked, answer);
    }
    let list = object(answer)?;
    list.get("data").and_then(Value::as_array).ok_or(NO_LIST)?;
    if let Some(cursors) = list.pointer("/meta/cursor_pagination") {
        return match (linked(cursors), cursors.get("links").map(Value::is_object)) {
            (Some(query), _) => Ok(Some(with_query(&asked.url, &query))),
            (None, Some(true)) => Ok(None),
            _ => Err(NO_LINK.into()),
        };
    }
    let Some(pagination) = list.pointer("/meta/pagination") else {
        // Some lists are never parted. One that a page was asked of is.
        return if number_of(asked, "page").is_some() { Err(NO_LIST.into()) } else { Ok(None) };
    };
    if let Some(query) = linked(pagination) {
        return Ok(Some(with_query(&asked.url, &query)));
    }
    let member = |name: &str| pagination.get(name).and_then(Value::as_u64);
    // One reference page writes the total without its s.
    let pages = member("total_pages").or_else(|| member("total_page")).ok_or(NO_LIST)?;
    let page = member("current_page").ok_or(NO_LIST)?;
    Ok((page < pages).then(|| with_parameter(asked, "page", &page.saturating_add(1).to_string())))
}

/// Reads pages of V2 until one is empty, or 204. It costs one request more. A page that is shorter than asked for is
/// not the last for certain: a store may give fewer than the limit that was asked for. An end that is taken for granted
/// loses the rest.
fn next_v2(asked: &Request, answer: &Answer) -> NextPage {
    let list = answer.json().ok_or(NO_LIST)?;
    let is_empty = list.as_array().ok_or(NO_LIST)?.is_empty();
    let page = number_of(asked, "page").unwrap_or(1);
    Ok((!is_empty).then(|| with_parameter(asked, "page", &page.saturating_add(1).to_string())))
}

/// The query of the next page, where the answer has it: `?page=2&limit=50`.
fn linked(pagination: &Value) -> Option<Vec<(String, String)>> {
    let next = pagination.pointer("/links/next")?.as_str()?;
    let query = next.split_once('?').map_or(next, |(_, query)| query);
    let pairs: Vec<_> = form_urlencoded::parse(query.as_bytes()).into_owned().collect();
    (!pairs.is_empty()).then_some(pairs)
}

const NO_LINK: &str = "it is a list by cursor, and has no link to its next page";
