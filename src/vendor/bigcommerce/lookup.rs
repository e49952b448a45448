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

use steadfast_core::internal::guard::Guard;
use steadfast_core::internal::vendor::body::{self, reconciled};
use steadfast_core::internal::vendor::date;
use steadfast_core::transport::{Answer, Request};
use steadfast_core::vendor::{BaseUrl, Finding, Subject};

use super::orders;
use super::routes::Resource;
use super::same::agrees;

/// Returns the URL at which to look for the object that the subject's request created. `None` if it cannot be found.
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
        Resource::Refunds { route } => in_items(&sent()?, subject.wire_key).then(|| base.at(route, &[])),
        Resource::Other => None,
    }
}

/// Reads the lookup's answer.
pub(super) fn read(
    base: &BaseUrl,
    resource: &Resource,
    subject: &Subject<'_>,
    asked: &Request,
    answer: &Answer,
) -> Finding {
    let is_order = matches!(resource, Resource::Orders | Resource::CheckoutOrders { .. });
    if is_order && let Some(finding) = orders::beyond_list(base, resource, subject, asked, answer) {
        return finding;
    }
    let rows = match rows(is_order || *resource == Resource::Coupons, answer) {
        Rows::Whole(rows) => rows,
        Rows::Part => return Finding::CannotTell,
        Rows::Not => return Finding::Unanswered,
    };
    let sent = body::json(&subject.request.body).unwrap_or(Value::Null);
    // Before the rows of an earlier life are left out: others are older, too.
    if Guard::FilterNoticed.keeps(rows.iter().any(|row| !passes(resource, subject, &sent, row))) {
        return Finding::CannotTell;
    }
    match resource {
        Resource::Orders | Resource::CheckoutOrders { .. } => {
            orders::listed(base, resource, subject, asked, rows)
        }
        Resource::Products | Resource::Named { .. } => {
            the_one(subject, &sent, rows, |row| found(200, &json!({ "data": row, "meta": {} })))
        }
        Resource::Coupons => the_one(subject, &sent, rows, |row| found(200, row)),
        Resource::Customers => customers(subject, &sent, rows),
        Resource::Refunds { .. } => refund(subject, &sent, rows),
        Resource::Other => Finding::CannotTell,
    }
}

/// Rows of a list's answer.
pub(super) enum Rows {
    Whole(Vec<Value>),
    /// The list has further pages.
    Part,
    /// The answer is no well-formed list.
    Not,
}

pub(super) fn rows(is_v2: bool, answer: &Answer) -> Rows {
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

/// A resource that the vendor holds once.
fn the_one(
    subject: &Subject<'_>,
    sent: &Value,
    rows: Vec<Value>,
    shown: impl Fn(&Value) -> Finding,
) -> Finding {
    let is_like = |row: &Value| agrees(sent, row);
    match of_this_life(subject, sent, rows, is_like).as_deref() {
        Some([]) => Finding::Absent,
        Some([row]) if is_like(row) => shown(row),
        _ => Finding::CannotTell,
    }
}

/// All of them, each as it was sent, or none. The rows may come in any order.
fn customers(subject: &Subject<'_>, sent: &Value, rows: Vec<Value>) -> Finding {
    let Some(all) = sent.as_array() else { return Finding::CannotTell };
    let is_like = |row: &Value| all.iter().any(|ours| agrees(ours, row));
    let Some(rows) = of_this_life(subject, sent, rows, is_like) else { return Finding::CannotTell };
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
        (matching.next().is_none() && agrees(ours, row)).then(|| row.clone())
    };
    match all.iter().map(held).collect::<Option<Vec<Value>>>() {
        Some(held) if rows.len() == all.len() => found(200, &json!({ "data": held, "meta": {} })),
        _ => Finding::CannotTell,
    }
}

/// The refund with our key in the reason of an item, of what was asked for. Refunds of others on the same order are no
/// hindrance. A miss among them is proof only where one of them shows that this store keeps the reasons of items, which is
/// not documented.
fn refund(subject: &Subject<'_>, sent: &Value, rows: Vec<Value>) -> Finding {
    let key = subject.wire_key;
    let (hits, others): (Vec<Value>, Vec<Value>) = rows.into_iter().partition(|row| in_items(row, key));
    let is_like = |row: &Value| is_refund_of(sent, row);
    let Some(hits) = of_this_life(subject, sent, hits, is_like) else { return Finding::CannotTell };
    match hits.as_slice() {
        [] if others.is_empty() => Finding::Absent,
        [] if keeps_reasons(&others) => Finding::Absent,
        [row] if is_like(row) => found(201, &json!({ "data": row, "meta": {} })),
        _ => Finding::CannotTell,
    }
}

/// Whether a refund is of the items that were asked for, and of no other.
fn is_refund_of(sent: &Value, row: &Value) -> bool {
    let (Some(asked), Some(shown)) = (sent["items"].as_array(), row["items"].as_array()) else { return true };
    // An amount is asked for as `amount`, and shown as `requested_amount`.
    let is_it = |asked: &Value, shown: &Value| {
        let amount = &asked["amount"];
        agrees(asked, shown)
            && (amount.is_null()
                || shown["requested_amount"].is_null()
                || agrees(amount, &shown["requested_amount"]))
    };
    let is_asked =
        |shown: &Value| shown["item_id"].is_null() || asked.iter().any(|asked| is_it(asked, shown));
    asked.iter().all(|asked| shown.iter().any(|shown| is_it(asked, shown))) && shown.iter().all(is_asked)
}

/// Whether one of the refunds shows that this store keeps the reasons of items.
fn keeps_reasons(rows: &[Value]) -> bool {
    rows.iter().any(|row| in_items(row, "")) || Guard::ReasonsKept.is_out()
}

/// Whether the reason of one of a refund's items holds `key`.
fn in_items(refund: &Value, key: &str) -> bool {
    let has_it = |item: &Value| text(item, "reason").is_some_and(|reason| reason.contains(key));
    refund["items"].as_array().is_some_and(|items| items.iter().any(has_it))
}

/// The rows that are not from before the operation. `None` if it is not clear: one may be or not, has a date that is
/// none, or matches the request, so that its time alone excludes it. A refund's date is `created`.
///
/// A date that the caller chose is no time of creation. Brands and categories have no date. One that has the name and
/// agrees counts, also if another client created it. No second one with that name can be created, so nothing is lost by it.
pub(super) fn of_this_life(
    subject: &Subject<'_>,
    sent: &Value,
    rows: Vec<Value>,
    is_like: impl Fn(&Value) -> bool,
) -> Option<Vec<Value>> {
    let mut ours = Vec::with_capacity(rows.len());
    let is_chosen = text(sent, "date_created").is_some();
    for row in rows {
        let written = text(&row, "date_created").or_else(|| text(&row, "created"));
        let is_older = match written.filter(|_| !is_chosen) {
            None => false,
            Some(written) => {
                let at = date::rfc2822(written).or_else(|| date::rfc3339(written))?;
                subject.is_older(at)?
            }
        };
        if is_older && Guard::TimeAloneIsNoProof.keeps(is_like(&row)) {
            return None;
        }
        if !is_older {
            ours.push(row);
        }
    }
    Some(ours)
}

/// Number of rows that a page of V2 has unless it is asked for fewer (developer.bigcommerce.com, "Filtering": 50).
const V2_PAGE: usize = 50;

pub(super) fn found(status: u16, body: &Value) -> Finding {
    let status = if status == 201 { StatusCode::CREATED } else { StatusCode::OK };
    Finding::Found(reconciled(status, body.to_string()))
}

pub(super) fn text<'a>(value: &'a Value, name: &str) -> Option<&'a str> {
    value.get(name)?.as_str().filter(|text| !text.is_empty())
}
