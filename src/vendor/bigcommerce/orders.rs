//! Finding an order again, and distinguishing it from another that has the same key.
//!
//! A caller may give several orders one `external_order_id`, and two services that share a store may make the same key.
//! So a hit counts only if it is the order that was sent, in the members that distinguish two orders. Where the caller
//! chose the id, this is also what V2 shows as a link: the products and the addresses. Staff change orders, and then
//! the finding is [`Finding::CannotTell`]. Members that change by themselves are not compared.
//!
//! Orders that staff archived are listed only with `is_deleted=true` (`vendors.md`). They are asked for before a miss is
//! proof.

use http::{Method, StatusCode};
use serde_json::{Value, json};

use steadfast_core::internal::ext::SubjectExt;
use steadfast_core::internal::guard::Guard;
use steadfast_core::internal::vendor::{body, date};
use steadfast_core::transport::{Answer, Request};
use steadfast_core::vendor::{BaseUrl, Finding, Subject};

use super::lookup::{Rows, found, of_this_life, rows, text};
use super::routes::Resource;
use super::same::{agrees, matches_all};

/// Reads the list of orders, all of whose rows have the key.
pub(super) fn listed(
    base: &BaseUrl,
    resource: &Resource,
    subject: &Subject<'_>,
    asked: &Request,
    rows: Vec<Value>,
) -> Finding {
    let sent = sent(subject);
    let is_like = |row: &Value| agrees(&comparable(&sent), row) && has_date(subject, &sent, row);
    let Some(rows) = of_this_life(subject, &sent, rows, is_like) else { return Finding::CannotTell };
    match rows.as_slice() {
        [] if is_archive(asked) || Guard::ArchivedToo.is_out() => Finding::Absent,
        [] => archived(asked),
        [row] if Guard::HitIsWhatWasSent.is_out() => shown(resource, row),
        [row] if is_like(row) && !is_twin(subject, &sent, row) => next(base, resource, subject, row, None),
        _ => Finding::CannotTell,
    }
}

/// Reads an answer after the list's: a part of the order, or the order itself. `None` if it is the list's.
pub(super) fn beyond_list(
    base: &BaseUrl,
    resource: &Resource,
    subject: &Subject<'_>,
    asked: &Request,
    answer: &Answer,
) -> Option<Finding> {
    let route: Vec<&str> = base.route(&asked.url).split('/').skip(1).collect();
    let ["v2", "orders", id, part @ ..] = route.as_slice() else { return None };
    let whole = json!({ "id": id });
    Some(match part {
        [] => match answer.json() {
            Some(order) if answer.status == StatusCode::OK && !answer.cut && same_id(&order["id"], id) => {
                shown(resource, &order)
            }
            _ => Finding::Unanswered,
        },
        [part] => match rows(true, answer) {
            Rows::Whole(theirs) if is_part(&sent(subject), part, &theirs) => {
                next(base, resource, subject, &whole, Some(part))
            }
            Rows::Whole(_) | Rows::Part => Finding::CannotTell,
            Rows::Not => Finding::Unanswered,
        },
        _ => Finding::CannotTell,
    })
}

/// The next part of the order to compare, after `done`; once there is none, what was found. `order` is the list's row, or
/// its id alone.
fn next(
    base: &BaseUrl,
    resource: &Resource,
    subject: &Subject<'_>,
    order: &Value,
    done: Option<&str>,
) -> Finding {
    let sent = sent(subject);
    let is_sent = |part: &&&str| {
        !is_our_stamp(subject.wire_key) && sent[**part].as_array().is_some_and(|rows| !rows.is_empty())
    };
    let mut parts = PARTS.iter().filter(is_sent);
    let part = match done {
        Some(done) => parts.find(|part| **part > done),
        None => parts.next(),
    };
    let Some(id) =
        order["id"].as_u64().map(|id| id.to_string()).or_else(|| order["id"].as_str().map(str::to_owned))
    else {
        return if part.is_none() { shown(resource, order) } else { Finding::CannotTell };
    };
    match (part, done) {
        (Some(part), _) => {
            let route = format!("/v2/orders/{id}/{part}");
            Finding::Next(Request::new(Method::GET, base.at(&route, &[])))
        }
        (None, None) => shown(resource, order),
        (None, Some(_)) => {
            Finding::Next(Request::new(Method::GET, base.at(&format!("/v2/orders/{id}"), &[])))
        }
    }
}

/// Returns the order in the shape of the answer that was lost.
fn shown(resource: &Resource, order: &Value) -> Finding {
    match resource {
        Resource::CheckoutOrders { .. } => found(200, &json!({ "data": { "id": order["id"] }, "meta": {} })),
        _ => found(201, order),
    }
}

/// Whether an order whose key the caller chose may be another's: it was made before this operation was claimed. Its key
/// is no stamp, and two orders may be alike in all else. Both clocks count in seconds.
fn is_twin(subject: &Subject<'_>, sent: &Value, row: &Value) -> bool {
    if is_our_stamp(subject.wire_key) || text(sent, "date_created").is_some() {
        return false;
    }
    created(row).is_some_and(|at| subject.is_before(at))
}

/// Returns true if an order has the date that the caller chose for it. Where the caller chose its key too, nothing else
/// may distinguish this month's order of a subscription from the last.
fn has_date(subject: &Subject<'_>, sent: &Value, row: &Value) -> bool {
    is_our_stamp(subject.wire_key)
        || text(sent, "date_created").is_none()
        || created(sent).is_some_and(|at| created(row) == Some(at))
}

/// Whether the id is one that only we make: a UUIDv8.
fn is_our_stamp(key: &str) -> bool {
    uuid::Uuid::parse_str(key).is_ok_and(|uuid| uuid.get_version_num() == 8)
}

fn created(row: &Value) -> Option<steadfast_core::clock::Timestamp> {
    let written = text(row, "date_created")?;
    date::rfc2822(written).or_else(|| date::rfc3339(written))
}

fn sent(subject: &Subject<'_>) -> Value {
    body::json(&subject.request.body).unwrap_or_default()
}

/// Returns the members to compare: those that were sent, without those that change by themselves, that staff write
/// beside them, or that are compared elsewhere.
fn comparable(sent: &Value) -> Value {
    let mut sent = sent.as_object().cloned().unwrap_or_default();
    sent.retain(|name, _| !NOT_COMPARED.contains(&name.as_str()) && !PARTS.contains(&name.as_str()));
    Value::Object(sent)
}

/// Whether the rows of a part are those that were sent, in any order.
fn is_part(sent: &Value, part: &str, theirs: &[Value]) -> bool {
    let Some(ours) = sent[part].as_array() else { return false };
    matches_all(ours, theirs, |ours, theirs| {
        let mut ours = ours.clone();
        let options = ours.as_object_mut().and_then(|row| row.remove("product_options"));
        agrees(&ours, theirs) && has_options(&options.unwrap_or_default(), &theirs["product_options"])
    })
}

/// Whether a line has the options that were asked for. An option is asked for as `id`, and shown as `product_option_id`.
fn has_options(asked: &Value, shown: &Value) -> bool {
    let (Some(asked), Some(shown)) = (asked.as_array(), shown.as_array()) else { return true };
    let is_it = |asked: &Value, shown: &Value| {
        let id = &shown["product_option_id"];
        (id.is_null() || agrees(&asked["id"], id))
            && [&shown["value"], &shown["display_value"]]
                .iter()
                .any(|value| text_of(&asked["value"]) == text_of(value))
    };
    asked.iter().all(|asked| shown.iter().any(|shown| is_it(asked, shown)))
}

fn text_of(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), |text| text.trim().to_owned())
}

fn same_id(held: &Value, id: &str) -> bool {
    held.as_str() == Some(id) || held.as_number().is_some_and(|number| number.to_string() == id)
}

fn is_archive(asked: &Request) -> bool {
    asked.url.query_pairs().any(|(name, _)| name == ARCHIVED)
}

fn archived(asked: &Request) -> Finding {
    let mut next = asked.clone();
    next.url.query_pairs_mut().append_pair(ARCHIVED, "true");
    Finding::Next(next)
}

const ARCHIVED: &str = "is_deleted";

/// Parts that V2 shows as a link, in the order in which they are asked for (`orders.v2.oas2.yml`).
const PARTS: [&str; 2] = ["products", "shipping_addresses"];

/// The status and what payments write move by themselves. Notes are for staff. A date is compared as one: see [`has_date`].
const NOT_COMPARED: [&str; 8] = [
    "consignments",
    "date_created",
    "payment_method",
    "payment_provider_id",
    "payment_status",
    "staff_notes",
    "status",
    "status_id",
];
