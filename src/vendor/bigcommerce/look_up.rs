//! Finding a resource again by the field that the client set.
//!
//! After the settle time a well-formed lookup without a row proves that nothing was created. V2 says "no
//! rows" with status 204 and no body, V3 with an empty `data`; anything else that is not a list proves
//! nothing. Several rows, or one that is not what we sent, are for a person.
//!
//! The wire key is the same in every life of a key, so that a row from before the claim is no proof that this life took
//! effect. It is left out where the vendor's clock at the claim is known, and else a person looks.

use http::StatusCode;
use serde_json::{Value, json};
use url::Url;

use super::routes::Resource;
use super::same::agrees;
use crate::answer::Answer;
use crate::guard::Guard;
use crate::vendor::rules::reconciled;
use crate::vendor::{BaseUrl, Finding, Subject, body, date};

/// Where to look for what the subject's request created. `None` if it cannot be found.
pub(super) fn url(base: &BaseUrl, resource: &Resource, subject: &Subject<'_>) -> Option<Url> {
    let sent = || body::json(&subject.request.body);
    let by = |route: &str, filter: &str, value: &str| Some(base.at(route, &[(filter, value)]));
    match resource {
        Resource::Orders => by("/v2/orders", "external_order_id", subject.wire_key),
        Resource::CheckoutOrders { cart_id } => by("/v2/orders", "cart_id", cart_id),
        Resource::Products => {
            let product = sent()?;
            let (filter, value) = match (text(&product, "sku"), text(&product, "name")) {
                (Some(sku), _) => ("sku", sku),
                (None, name) => ("name", name?),
            };
            by("/v3/catalog/products", filter, value)
        }
        Resource::Named { route } => by(route, "name", text(&sent()?, "name")?),
        Resource::Customers => {
            let customers = sent()?;
            let emails: Option<Vec<&str>> =
                customers.as_array()?.iter().map(|customer| text(customer, "email")).collect();
            let emails = emails.filter(|emails| !emails.is_empty())?;
            by("/v3/customers", "email:in", &emails.join(","))
        }
        Resource::Coupons => by("/v2/coupons", "code", text(&sent()?, "code")?),
        Resource::Refunds { route } => {
            let sent = sent()?;
            (in_items(&sent, subject.wire_key) || in_reason(&sent, subject.wire_key))
                .then(|| base.at(route, &[]))
        }
        Resource::Other => None,
    }
}

/// What the lookup's answer says.
pub(super) fn read(resource: &Resource, subject: &Subject<'_>, answer: &Answer) -> Finding {
    let rows = match rows(resource, answer) {
        Rows::Whole(rows) => rows,
        Rows::Part => return Finding::CannotTell,
        Rows::Not => return Finding::Unanswered,
    };
    let sent = body::json(&subject.request.body).unwrap_or(Value::Null);
    // Before the rows of an earlier life are left out: others are older, too.
    if Guard::FilterNoticed.keeps(rows.iter().any(|row| !passes(resource, subject, &sent, row))) {
        return Finding::CannotTell;
    }
    let Some(rows) = of_this_life(subject, rows) else { return Finding::CannotTell };
    match resource {
        Resource::Orders => order(subject, &sent, &rows),
        Resource::CheckoutOrders { .. } => match rows.as_slice() {
            [] => Finding::Absent,
            [order] => found(200, &json!({ "data": { "id": order["id"] }, "meta": {} })),
            _ => Finding::CannotTell,
        },
        Resource::Products | Resource::Named { .. } => match the_one(&sent, &rows) {
            One::Absent => Finding::Absent,
            One::Is(row) => found(200, &json!({ "data": row, "meta": {} })),
            One::Unclear => Finding::CannotTell,
        },
        Resource::Coupons => match the_one(&sent, &rows) {
            One::Absent => Finding::Absent,
            One::Is(row) => found(200, row),
            One::Unclear => Finding::CannotTell,
        },
        Resource::Customers => customers(&sent, &rows),
        Resource::Refunds { .. } => refund(subject, &sent, &rows),
        Resource::Other => Finding::CannotTell,
    }
}

/// What a list's answer holds.
enum Rows {
    Whole(Vec<Value>),
    /// The list has further pages.
    Part,
    /// It is no well-formed list.
    Not,
}

fn rows(resource: &Resource, answer: &Answer) -> Rows {
    let is_v2 = matches!(resource, Resource::Orders | Resource::CheckoutOrders { .. } | Resource::Coupons);
    if is_v2 && answer.status == StatusCode::NO_CONTENT && answer.body.is_empty() {
        return Rows::Whole(Vec::new());
    }
    if answer.status != StatusCode::OK || answer.cut {
        return Rows::Not;
    }
    let (rows, pages) = match (is_v2, answer.json()) {
        (true, Some(rows)) => (rows, None),
        (false, Some(mut body)) => {
            let pages = body["meta"]["pagination"]["total_pages"].as_u64();
            (body.get_mut("data").map(Value::take).unwrap_or_default(), pages)
        }
        (_, None) => return Rows::Not,
    };
    match rows {
        Value::Array(rows) if rows.iter().all(Value::is_object) => {
            // V2 does not say whether there are more.
            let is_full = is_v2 && rows.len() >= V2_PAGE;
            if is_full || pages.is_some_and(|pages| pages > 1) { Rows::Part } else { Rows::Whole(rows) }
        }
        _ => Rows::Not,
    }
}

/// Whether a row is one that was asked for. A filter that was ignored lists others, and perhaps not ours. Texts are
/// compared without regard to case, as the vendor may compare them.
fn passes(resource: &Resource, subject: &Subject<'_>, sent: &Value, row: &Value) -> bool {
    let is = |name: &str, wanted: Option<&str>| match (text(row, name), wanted) {
        (Some(there), Some(wanted)) => there.eq_ignore_ascii_case(wanted),
        _ => false,
    };
    match resource {
        Resource::Orders => is("external_order_id", Some(subject.wire_key)),
        Resource::CheckoutOrders { cart_id } => is("cart_id", Some(cart_id)),
        Resource::Products => match text(sent, "sku") {
            Some(sku) => is("sku", Some(sku)),
            None => is("name", text(sent, "name")),
        },
        Resource::Named { .. } => is("name", text(sent, "name")),
        Resource::Customers => {
            sent.as_array().is_some_and(|sent| sent.iter().any(|sent| is("email", text(sent, "email"))))
        }
        Resource::Coupons => is("code", text(sent, "code")),
        // All refunds of the order are asked for.
        Resource::Refunds { .. } | Resource::Other => true,
    }
}

/// An order that carries our own wire key is ours. Where the caller chose the id, its fields must agree too.
fn order(subject: &Subject<'_>, sent: &Value, rows: &[Value]) -> Finding {
    match the_one(sent, rows) {
        One::Absent => Finding::Absent,
        One::Is(row) => found(201, row),
        One::Unclear if rows.len() == 1 && is_our_stamp(subject.wire_key) => found(201, &rows[0]),
        One::Unclear => Finding::CannotTell,
    }
}

/// Whether the id is one that only we make: a UUIDv8.
fn is_our_stamp(key: &str) -> bool {
    uuid::Uuid::parse_str(key).is_ok_and(|uuid| uuid.get_version_num() == 8)
}

enum One<'a> {
    Absent,
    Is(&'a Value),
    Unclear,
}

fn the_one<'a>(sent: &Value, rows: &'a [Value]) -> One<'a> {
    match rows {
        [] => One::Absent,
        [row] if agrees(sent, row) => One::Is(row),
        _ => One::Unclear,
    }
}

/// All of them, each as it was sent, or none. The rows may come in any order.
fn customers(sent: &Value, rows: &[Value]) -> Finding {
    let Some(sent) = sent.as_array() else { return Finding::CannotTell };
    if rows.is_empty() {
        return Finding::Absent;
    }
    let same_email = |ours: &Value, row: &Value| match (text(ours, "email"), text(row, "email")) {
        (Some(ours), Some(theirs)) => ours.eq_ignore_ascii_case(theirs),
        _ => false,
    };
    let held = |ours: &Value| {
        let mut matching = rows.iter().filter(|row| same_email(ours, row));
        let row = matching.next()?;
        let mut ours = ours.clone();
        // BigCommerce may fold an address's case.
        ours["email"] = row["email"].clone();
        (matching.next().is_none() && agrees(&ours, row)).then(|| row.clone())
    };
    match sent.iter().map(held).collect::<Option<Vec<Value>>>() {
        Some(all) if rows.len() == sent.len() => found(200, &json!({ "data": all, "meta": {} })),
        _ => Finding::CannotTell,
    }
}

/// The refund with our key in the reason of an item. Refunds of others on the same order are no hindrance. A miss
/// among them is proof only where one of them shows that this store keeps the reasons of items, which is not
/// documented.
fn refund(subject: &Subject<'_>, sent: &Value, rows: &[Value]) -> Finding {
    let key = subject.wire_key;
    let mut hits = rows.iter().filter(|row| in_items(row, key) || in_reason(row, key));
    match (hits.next(), hits.next()) {
        (None, _) if rows.is_empty() => Finding::Absent,
        (None, _) if in_items(sent, key) && keeps_reasons(rows) => Finding::Absent,
        (None, _) | (Some(_), Some(_)) => Finding::CannotTell,
        (Some(row), None) => found(201, &json!({ "data": row, "meta": {} })),
    }
}

/// Whether one of the refunds shows that this store keeps the reasons of items.
fn keeps_reasons(rows: &[Value]) -> bool {
    rows.iter().any(|row| in_items(row, "")) || Guard::ReasonsKept.is_out()
}

/// Whether the reason of one of a refund's items holds `key`.
fn in_items(refund: &Value, key: &str) -> bool {
    refund["items"].as_array().is_some_and(|items| items.iter().any(|item| in_reason(item, key)))
}

/// Whether the reason holds `key`. Version 0.1 stamped the refund's own, which the specification of 2021 had.
fn in_reason(value: &Value, key: &str) -> bool {
    text(value, "reason").is_some_and(|reason| reason.contains(key))
}

/// The rows that are not from before the operation. `None` if one may be or not, or has a date that is none. A refund's
/// date is `created`.
///
/// Brands and categories have no date. One that has the name and agrees counts, also if another client created it. No
/// second one with that name can be created, so nothing is lost by it.
fn of_this_life(subject: &Subject<'_>, rows: Vec<Value>) -> Option<Vec<Value>> {
    let mut ours = Vec::with_capacity(rows.len());
    for row in rows {
        let is_older = match text(&row, "date_created").or_else(|| text(&row, "created")) {
            None => false,
            Some(written) => {
                let at = date::rfc2822(written).or_else(|| date::rfc3339(written))?;
                subject.is_older(at)?
            }
        };
        if !is_older {
            ours.push(row);
        }
    }
    Some(ours)
}

/// How many rows a page of V2 has unless it is asked for fewer (developer.bigcommerce.com, "Filtering": 50).
const V2_PAGE: usize = 50;

fn found(status: u16, body: &Value) -> Finding {
    let status = if status == 201 { StatusCode::CREATED } else { StatusCode::OK };
    Finding::Found(reconciled(status, body.to_string()))
}

fn text<'a>(value: &'a Value, name: &str) -> Option<&'a str> {
    value.get(name)?.as_str().filter(|text| !text.is_empty())
}
