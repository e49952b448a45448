//! Batches, and writes of which a part is not applied.
//!
//! This is documented (github.com/bigcommerce/docs, `reference/catalog/products_catalog.v3.yml`, 207): a product is
//! saved, and its stock or its URL is not. `errors` is then an object. Whether an item of a batch is applied beside
//! one that is refused is not documented, for products and for customers alike: that is a switch.

use serde_json::{Value, json};

use super::super::fixture::Reply;
use super::items::Items;
use super::machine::{Machine, PROBLEM_TYPE, State, problem_v2};

/// The fate of the items of a batch beside one that is refused. None of it is documented.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in super::super) enum Batches {
    /// None is applied.
    #[default]
    Whole,
    /// They are applied, and the answer is a 207.
    InPart,
    /// They are applied, and the answer is the refusal, without a word on them.
    InPartUnsaid,
}

/// A field that was not saved, and why.
pub(super) type Unsaved = (&'static str, &'static str);

impl Machine {
    /// Applies a batch's items in their order, as the switch says.
    pub(super) fn batch(
        &self,
        state: &mut State,
        collection: &str,
        items: &[Value],
        judge: impl Fn(&State, &Value) -> Option<Reply>,
        mut apply: impl FnMut(&mut State, usize, &Value) -> (Value, Vec<Unsaved>),
    ) -> Reply {
        if self.settings.batches() == Batches::Whole {
            let refused = items.iter().find_map(|item| judge(state, item));
            if let Some(refused) = refused.or_else(|| self.repeats(collection, items)) {
                return refused;
            }
        }
        let (mut done, mut refused, mut unsaved) = (Vec::new(), Vec::new(), Vec::new());
        for (part, item) in items.iter().enumerate() {
            match judge(state, item) {
                Some(no) => refused.push(no),
                None => {
                    let (made, not_saved) = apply(state, part, item);
                    done.push(made);
                    unsaved.extend(not_saved);
                }
            }
        }
        match refused.first() {
            Some(first) if done.is_empty() || self.settings.batches() == Batches::InPartUnsaid => {
                Reply { status: first.status, headers: first.headers.clone(), body: first.body.clone() }
            }
            None if unsaved.is_empty() => Reply::json(200, &json!({ "data": done, "meta": {} })),
            None => self.in_part(&Value::from(done), &unsaved),
            Some(first) if collection == "v3/catalog/products" => {
                // The form that is documented for products.
                Reply::json(207, &json!({ "data": done, "errors": first.value(), "meta": {} }))
            }
            Some(_) => {
                let meta = json!({ "total": items.len(), "success": done.len(), "failed": refused.len() });
                let errors: Vec<Value> = refused.iter().map(Reply::value).collect();
                Reply::json(207, &json!({ "data": done, "errors": errors, "meta": meta }))
            }
        }
    }

    /// The 207 of what was saved without some of its fields.
    pub(super) fn in_part(&self, data: &Value, unsaved: &[Unsaved]) -> Reply {
        let fields: Value =
            unsaved.iter().map(|(field, why)| ((*field).to_owned(), Value::from(*why))).collect();
        let errors = json!({
            "status": 207, "title": "Some of the fields were not saved.", "type": PROBLEM_TYPE, "errors": fields,
        });
        Reply::json(207, &json!({ "data": data, "errors": errors, "meta": {} }))
    }

    /// The answer to two items of one batch with the same unique field.
    fn repeats(&self, collection: &str, items: &[Value]) -> Option<Reply> {
        let fields: &[&str] = match collection {
            "v3/customers" => &["email"],
            "v3/catalog/products" => &["name", "sku"],
            _ => &[],
        };
        let key = |item: &Value, field: &str| {
            item[field].as_str().map(str::to_lowercase).filter(|key| !key.is_empty())
        };
        let is_twice = |field: &&&str| {
            let keys: Vec<String> = items.iter().filter_map(|item| key(item, field)).collect();
            keys.iter().enumerate().any(|(at, one)| keys[..at].contains(one))
        };
        fields.iter().find(is_twice).map(|field| self.taken(collection, field))
    }

    /// The answer to a second of a unique field.
    pub(super) fn taken(&self, collection: &str, field: &str) -> Reply {
        let duplicate = |what: &str| self.fixtures.reply("product_duplicate").fill("product name", what);
        match collection {
            _ if field == "sku" => duplicate("product sku"),
            "v3/catalog/products" => duplicate("product name"),
            "v3/catalog/brands" => duplicate("brand name"),
            "v3/catalog/categories" => duplicate("category name"),
            "v3/pricelists" => duplicate("price list name"),
            "v3/customers" => self.fixtures.reply("customer_duplicate"),
            "v2/customers" => self.fixtures.reply("v2_error_details"),
            "v2/products" | "v2/brands" | "v2/categories" => problem_v2(409, "The name is a duplicate."),
            _ => problem_v2(409, "The coupon code is a duplicate."),
        }
    }
}

/// The fields of a product that are saved, and those that are not: stock below nothing, and a URL that is too long, not of
/// Latin letters, or another's.
pub(super) fn saved(
    items: &Items,
    store: &str,
    collection: &str,
    id: Option<&str>,
    sent: &Value,
) -> (Value, Vec<Unsaved>) {
    let (mut fields, mut unsaved) = (sent.clone(), Vec::new());
    if collection != "v3/catalog/products" {
        return (fields, unsaved);
    }
    let mut leave_out = |field: &'static str, why: &'static str| {
        if let Some(fields) = fields.as_object_mut() {
            fields.remove(field);
        }
        unsaved.push((field, why));
    };
    if sent["inventory_level"].as_f64().is_some_and(|level| level < 0.0) {
        leave_out("inventory_level", "The stock must not be negative.");
    }
    if let Some(url) = sent["custom_url"]["url"].as_str() {
        let is_anothers = |(kind, other): (&str, Value)| {
            let is_itself = kind == collection && Some(other["id"].to_string().as_str()) == id;
            !is_itself
                && other["custom_url"]["url"].as_str().is_some_and(|other| other.eq_ignore_ascii_case(url))
        };
        let entities = |kind: &'static str| items.all(store, kind).into_iter().map(move |one| (kind, one));
        if url.chars().count() > URL_LEN_MAX || !url.is_ascii() {
            leave_out("custom_url", "The URL must be of Latin letters, and of 255 at most.");
        } else if CATALOG.into_iter().flat_map(entities).any(is_anothers) {
            leave_out("custom_url", "The URL is taken.");
        }
    }
    (fields, unsaved)
}

const CATALOG: [&str; 3] = ["v3/catalog/products", "v3/catalog/brands", "v3/catalog/categories"];
const URL_LEN_MAX: usize = 255;
