//! The next page of a list at Postmark.

use serde_json::Value;

use steadfast_core::internal::vendor::{NO_LIST, NextPage, number_of, object, with_parameter};
use steadfast_core::transport::{Answer, Request};

/// Returns the next page; a list takes `count` and `offset`, and has the total
/// (postmarkapp.com/developer/api/messages-api). The next page begins after the rows of this one, and not after the
/// count that was asked for: a page that is shorter than that leaves nothing out.
///
/// Some lists are given whole, with a total or without.
pub(super) fn next(asked: &Request, answer: &Answer) -> NextPage {
    let list = object(answer)?;
    if list.get("ErrorCode").is_some_and(|code| *code != 0) {
        return Err(NO_LIST.into());
    }
    let shown = list.as_object().into_iter().flatten().find_map(|(_, member)| member.as_array());
    let shown = shown.ok_or(NO_LIST)?.len() as u64;
    let offset = number_of(asked, "offset");
    let Some(total) = list.get("TotalCount").and_then(Value::as_u64) else {
        return if offset.is_some() { Err(NO_LIST.into()) } else { Ok(None) };
    };
    let next = offset.unwrap_or(0).saturating_add(shown);
    match (next < total, shown > 0 && offset.is_some()) {
        (false, _) => Ok(None),
        (true, true) => Ok(Some(with_parameter(asked, "offset", &next.to_string()))),
        (true, false) => Err(SHORT.into()),
    }
}

const SHORT: &str = "it shows fewer than there are, and not where the rest is";
