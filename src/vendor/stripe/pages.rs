//! The next page of a list at Stripe.

use serde_json::Value;

use steadfast_core::internal::vendor::{NO_LIST, NextPage, object, parameter, with_parameter};
use steadfast_core::transport::{Answer, Request};

/// A v1 list says whether there is more, and goes on after its last object: `starting_after`, or before its first if
/// the list is read backwards with `ending_before` (docs.stripe.com/api/pagination). A search names its next page
/// (docs.stripe.com/api/pagination/search), and a v2 list the URL of its (docs.stripe.com/api-v2-overview).
pub(super) fn next(asked: &Request, answer: &Answer) -> NextPage {
    let list = object(answer)?;
    match list.get("next_page_url") {
        Some(Value::Null) => return Ok(None),
        Some(Value::String(next)) => return Ok(Some(asked.url.join(next).map_err(|_| NO_LIST)?)),
        Some(_) => return Err(NO_LIST.into()),
        None => {}
    }
    let data = list.get("data").and_then(Value::as_array).ok_or(NO_LIST)?;
    if !list.get("has_more").and_then(Value::as_bool).ok_or(NO_LIST)? {
        return Ok(None);
    }
    if let Some(Value::String(next)) = list.get("next_page") {
        return Ok(Some(with_parameter(asked, "page", next)));
    }
    let is_backwards = parameter(asked, "ending_before").is_some();
    let (name, object) =
        if is_backwards { ("ending_before", data.first()) } else { ("starting_after", data.last()) };
    let id = object.and_then(|object| object.get("id")).and_then(Value::as_str).ok_or(NO_CURSOR)?;
    Ok(Some(with_parameter(asked, name, id)))
}

const NO_CURSOR: &str = "the list has more rows, but none whose id could be the next cursor";
