//! The objects that a GET shows: one event destination, or a page of them, newest first.
//!
//! A page names the next one and the one before by their URLs (<https://docs.stripe.com/api-v2-overview#list-pagination>).
//! Neither the order nor the bounds of `limit` are documented: they are v1's.

use serde_json::{Value, json};
use url::form_urlencoded::Serializer;
use wiremock::Request;

use super::destinations::{PATH, held, shown};
use super::refusal::Refusal;
use crate::fixture::Reply;
use crate::stripe::objects::{LIMIT_DEFAULT, LIMIT_MAX, Objects};

/// The one of this id, or a page of the list.
pub(super) fn read(
    objects: &Objects,
    account: &str,
    id: Option<&String>,
    request: &Request,
) -> Result<Reply, Refusal> {
    let query = Query::of(request, id.is_none())?;
    let body = match id {
        Some(id) => shown(held(objects, account, id)?, &query.includes),
        None => list(objects, account, request, &query),
    };
    Ok(Reply::json(200, &body))
}

fn list(objects: &Objects, account: &str, request: &Request, query: &Query) -> Value {
    let (above, below) = match query.page {
        Place::First => (0, u64::MAX),
        Place::OlderThan(place) => (0, place),
        Place::NewerThan(place) => (place, u64::MAX),
    };
    let found = objects.between(account, PATH, above, below);
    let page: Vec<(u64, Value)> = match query.page {
        Place::NewerThan(_) => {
            let mut page: Vec<_> = found.take(query.limit).collect();
            page.reverse();
            page
        }
        _ => found.rev().take(query.limit).collect(),
    };
    // Of an empty page: the places right outside of it.
    let newest = page.first().map_or(below.saturating_sub(1), |(place, _)| *place);
    let oldest = page.last().map_or(above.saturating_add(1), |(place, _)| *place);
    let any = |above, below| objects.between(account, PATH, above, below).next().is_some();
    let next = any(0, oldest).then(|| url_of(request, &Place::OlderThan(oldest)));
    let previous = any(newest, u64::MAX).then(|| url_of(request, &Place::NewerThan(newest)));
    let data: Vec<Value> = page.into_iter().map(|(_, object)| shown(object, &query.includes)).collect();
    json!({ "data": data, "next_page_url": next, "previous_page_url": previous })
}

/// The request's own URL, at another place.
fn url_of(request: &Request, page: &Place) -> String {
    let mut query = Serializer::new(String::new());
    query.extend_pairs(request.url.query_pairs().filter(|(name, _)| name != "page"));
    format!("{}?{}", request.url.path(), query.append_pair("page", &page.token()).finish())
}

struct Query {
    includes: Vec<String>,
    limit: usize,
    page: Place,
}

/// Where a page begins. Places stay what they are when objects come and go.
#[derive(Debug, PartialEq, Eq)]
enum Place {
    First,
    OlderThan(u64),
    NewerThan(u64),
}

impl Place {
    fn token(&self) -> String {
        match self {
            Place::First => String::new(),
            Place::OlderThan(place) => format!("page_o{place:x}"),
            Place::NewerThan(place) => format!("page_n{place:x}"),
        }
    }

    fn of(token: &str) -> Option<Place> {
        let place = |text| u64::from_str_radix(text, 16).ok();
        match token.strip_prefix("page_")?.split_at_checked(1)? {
            ("o", text) => place(text).map(Place::OlderThan),
            ("n", text) => place(text).map(Place::NewerThan),
            _ => None,
        }
    }
}

impl Query {
    fn of(request: &Request, is_list: bool) -> Result<Query, Refusal> {
        let mut query = Query { includes: Vec::new(), limit: LIMIT_DEFAULT, page: Place::First };
        for (name, value) in request.url.query_pairs() {
            match name.split('[').next().unwrap_or_default() {
                "include" if value == INCLUDED => query.includes.push(value.into_owned()),
                "include" => {
                    return Err(Refusal::field(format!("Invalid parameter: include must be {INCLUDED}")));
                }
                "limit" if is_list && name == "limit" => {
                    let limit = value.parse().ok().filter(|limit| (1..=LIMIT_MAX).contains(limit));
                    let wrong = || Refusal::field("Invalid parameter: limit must be between 1 and 100");
                    query.limit = limit.ok_or_else(wrong)?;
                }
                "page" if is_list && name == "page" => {
                    let wrong = || Refusal::field("Invalid parameter: page is no token of this list");
                    query.page = Place::of(&value).ok_or_else(wrong)?;
                }
                _ => return Err(Refusal::field(format!("Received unknown parameter: {name}"))),
            }
        }
        Ok(query)
    }
}

/// An answer to a create alone has the secret too.
const INCLUDED: &str = "webhook_endpoint.url";
