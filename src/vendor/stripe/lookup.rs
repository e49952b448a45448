//! Finding an effect at Stripe by the metadata that it was created with.
//!
//! A list endpoint with `created[gte]` is a complete and consistent view, newest first. Scanned to its end without a
//! hit it proves that nothing was created. The scan is bounded: a busy account may create thousands of objects an hour,
//! and a lookup must not become a load of its own. Beyond the bound the finding is [`Finding::CannotTell`].
//!
//! `created` is Stripe's clock and the claim is ours. Where it is known what Stripe's was at the claim, the list
//! begins shortly before. Where it is not, it begins a week before. A clock that was ahead by seconds or days at the
//! claim, and was set since, must not hide the object behind the beginning of the list.

use std::time::Duration;

use http::StatusCode;
use http::header::DATE;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use url::Url;

use steadfast_core::clock::Timestamp;
use steadfast_core::internal::ext::SubjectExt;
use steadfast_core::internal::guard::Guard;
use steadfast_core::internal::vendor::body::reconciled;
use steadfast_core::internal::vendor::{CLOCK_SKEW, with_parameter};
use steadfast_core::transport::{Answer, Request};
use steadfast_core::vendor::rules::has_content_type;
use steadfast_core::vendor::{BaseUrl, Finding, Subject};
use steadfast_core::{Error, Input};

use super::same;

/// Appends the key to a form body, unless there is no room for it.
pub(super) fn stamp_metadata(request: &mut Request, key: &str) -> Result<(), Error> {
    if !has_content_type(request, FORM) {
        return Ok(());
    }
    let mut names = std::collections::BTreeSet::new();
    for (name, _) in url::form_urlencoded::parse(&request.body) {
        if name == STAMP {
            return Err(Error::validation(
                Input::Body,
                format!("{STAMP} is reserved for the operation's key"),
            ));
        }
        if name == "metadata" {
            // `metadata=` clears all metadata, ours with it.
            return Ok(());
        }
        if name.starts_with("metadata[") {
            names.insert(name.into_owned());
        }
    }
    if names.len() >= METADATA_MAX {
        return Ok(());
    }
    let pair = String::with_capacity(PAIR_ROOM);
    let pair = url::form_urlencoded::Serializer::new(pair).append_pair(STAMP, key).finish();
    let mut body = Vec::with_capacity(request.body.len() + 1 + pair.len());
    body.extend_from_slice(&request.body);
    if !body.is_empty() {
        body.push(b'&');
    }
    body.extend_from_slice(pair.as_bytes());
    request.body = body.into();
    Ok(())
}

/// Whether the request carries our metadata: without it, a list that lacks it proves nothing.
pub(super) fn is_stamped(subject: &Subject<'_>) -> bool {
    has_content_type(subject.request, FORM)
        && url::form_urlencoded::parse(&subject.request.body)
            .any(|(name, value)| name == STAMP && value == subject.wire_key)
}

/// The newest objects created since before the claim.
pub(super) fn first_page(base: &BaseUrl, route: &str, subject: &Subject<'_>) -> Url {
    let margin = if subject.vendor_clock_ms.is_some() { CLOCK_SKEW } else { CLOCK_UNKNOWN };
    let since = subject.claimed_there().minus(margin).as_millis() / 1000;
    let (since, limit) = (since.to_string(), PAGE_SIZE.to_string());
    base.at(route, &[("created[gte]", since.as_str()), ("limit", limit.as_str())])
}

#[derive(Deserialize)]
struct List<'a> {
    object: String,
    #[serde(borrow)]
    data: Vec<&'a RawValue>,
    has_more: bool,
}

/// Reads a page.
pub(super) fn read(subject: &Subject<'_>, asked: &Request, answer: &Answer) -> Finding {
    if answer.status != StatusCode::OK || answer.cut {
        return Finding::Unanswered;
    }
    let Ok(list) = serde_json::from_slice::<List<'_>>(&answer.body) else { return Finding::Unanswered };
    if list.object != "list" {
        return Finding::Unanswered;
    }
    let (mut last_id, mut is_in_doubt) = (None, false);
    for item in &list.data {
        let Ok(object) = serde_json::from_str::<Value>(item.get()) else { return Finding::CannotTell };
        if object["metadata"]["steadfast_key"].as_str() == Some(subject.wire_key) {
            let is_like = same::is_what_was_sent(subject.request, &object);
            match is_older(subject, &object) {
                Some(false) if is_like => return found(&object, item),
                Some(true) if !is_like => {}
                // Another's, changed since, or of an earlier life, and nothing else tells which.
                _ => is_in_doubt = true,
            }
        }
        last_id = object["id"].as_str().map(str::to_owned);
    }
    if is_in_doubt {
        return Finding::CannotTell;
    }
    match (list.has_more, last_id) {
        (false, _) if Guard::ClaimAhead.keeps(is_claimed_ahead(subject, answer)) => Finding::CannotTell,
        (false, _) if Guard::PartNoProof.keeps(shows_a_part(asked, subject)) => Finding::CannotTell,
        (false, _) => Finding::Absent,
        (true, Some(last_id)) => next_page(asked, &last_id),
        (true, None) => Finding::CannotTell,
    }
}

/// Whether the list may leave out what was created. Without a filter Stripe lists the subscriptions that are not
/// cancelled, the prices that are active, and the customers that are on no test clock. The source is docs.stripe.com/api,
/// "List all subscriptions", "List all prices" and "List all customers".
fn shows_a_part(asked: &Request, subject: &Subject<'_>) -> bool {
    let has_clock =
        || url::form_urlencoded::parse(&subject.request.body).any(|(name, _)| name == "test_clock");
    ["/v1/subscriptions", "/v1/prices"].iter().any(|route| asked.url.path().ends_with(route)) || has_clock()
}

/// Whether the claim is later than Stripe's clock says now, by more than clocks may differ: ours was ahead, and
/// the list began after what it should have shown. An answer without a date leaves that open.
fn is_claimed_ahead(subject: &Subject<'_>, answer: &Answer) -> bool {
    let date = answer.headers.get(DATE).and_then(|value| value.to_str().ok());
    let date = date.and_then(|text| httpdate::parse_http_date(text).ok()).map(Timestamp::from);
    date.is_some_and(|date| subject.claimed_there() > date.plus(CLOCK_SKEW))
}

/// A declined charge leaves an object too, and its lost answer was a 402 whose text the object does not hold.
fn found(object: &Value, text: &RawValue) -> Finding {
    let has = |error: &str| object[error].is_object();
    if object["status"] == "failed" || has("last_payment_error") || has("last_setup_error") {
        return Finding::CannotTell;
    }
    Finding::Found(reconciled(StatusCode::OK, text.get().to_owned()))
}

/// Whether an object with our key is of the key's previous life: its wire key is the same.
fn is_older(subject: &Subject<'_>, object: &Value) -> Option<bool> {
    // An invoice item has a date alone.
    let created = object["created"].as_u64().or_else(|| object["date"].as_u64())?.checked_mul(1000)?;
    subject.is_older(Timestamp::from_millis(created))
}

/// The page after `asked`. The pages are counted in the URL's fragment, which is ours alone: a fragment is
/// never sent (RFC 9110, section 4.2.5).
fn next_page(asked: &Request, last_id: &str) -> Finding {
    let page = asked.url.fragment().and_then(|text| text.parse::<u32>().ok()).unwrap_or(1) + 1;
    if page > PAGES_MAX {
        return Finding::CannotTell;
    }
    let mut next = asked.clone();
    next.url = with_parameter(asked, "starting_after", last_id);
    next.url.set_fragment(Some(&page.to_string()));
    Finding::Next(next)
}

pub(super) const FORM: &str = "application/x-www-form-urlencoded";
const STAMP: &str = "metadata[steadfast_key]";
/// More than [`STAMP`] and a key take in a form, so that one allocation does.
const PAIR_ROOM: usize = 96;
/// Stripe takes up to 50 metadata keys (docs.stripe.com/api/metadata).
const METADATA_MAX: usize = 50;
/// The largest page that Stripe gives.
const PAGE_SIZE: u32 = 100;
/// 1,000 objects since the claim: beyond, a person has better means.
const PAGES_MAX: u32 = 10;
/// The most by which a clock may have been ahead at a claim about which nothing else is known. Clocks that are not set
/// are off by seconds, those that are set wrong by hours or a day; a week is for both and a time zone.
const CLOCK_UNKNOWN: Duration = Duration::from_secs(7 * 24 * 60 * 60);
