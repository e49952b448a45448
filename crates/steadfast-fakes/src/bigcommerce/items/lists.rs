//! Answers to reads: a list, a count, or one resource by its id.

use std::time::Duration;

use serde_json::value::RawValue;
use serde_json::{Value, json};
use url::form_urlencoded;

use steadfast_core::clock::Timestamp;

use super::super::super::fixture::{Reply, parsed};
use super::super::machine::Call;
use super::super::parents::unknown_parent;
use super::super::routes::{Route, parent_of, route_of};
use super::candidates::candidates;
use super::question::{Asks, Question, question};
use super::{ARCHIVE, Item, Items, ORDERS, Table, V3, not_allowed, not_found, with_id};

impl Items {
    /// Answers a lookup: a list, or one by its id.
    pub(in super::super) fn get(&self, call: &Call<'_>, lag: Duration) -> Reply {
        if let Some(refused) = unknown_parent(self, call, Some(lag)) {
            return refused;
        }
        let counted = call.route.split_last().filter(|(last, _)| **last == "count" && call.is_v2());
        let reply = if let Some(route) = counted.and_then(|(_, parent)| route_of(parent)) {
            self.count_of(call, route, lag)
        } else if let Some(route) = route_of(call.route) {
            self.list(call, route, lag)
        } else if let Some(route) = parent_of(call.route).filter(|route| !route.one.is_empty()) {
            if !route.one.contains('G') {
                return not_allowed(call);
            }
            question(call, route, Asks::One).map(|question| self.one_of(call, &question, lag))
        } else {
            Ok(not_found(call))
        };
        reply.unwrap_or_else(|refused| refused)
    }

    fn count_of(&self, call: &Call<'_>, route: &Route, lag: Duration) -> Result<Reply, Reply> {
        let question = question(call, route, Asks::Count)?;
        let collection = call.route[..call.route.len() - 1].join("/");
        let count = passing(self.tables.of(call.store, &collection), &question, call.now, lag).count();
        Ok(Reply::json(200, &json!({ "count": count })))
    }

    fn one_of(&self, call: &Call<'_>, question: &Question, lag: Duration) -> Reply {
        let collection = call.collection();
        let Some((parent, id)) = collection.rsplit_once('/') else { return not_found(call) };
        let archive = self.tables.of(call.store, ARCHIVE).filter(|_| parent == ORDERS);
        let tables = self.tables.of(call.store, parent).into_iter().chain(archive);
        let mut found = tables.flat_map(|table| with_id(table, id));
        match found.find(|(_, item)| item.shows(call.now, lag)) {
            Some((_, item)) if call.is_v2() => Reply::json(200, &item.text),
            Some((_, item)) if question.includes.is_empty() => {
                Reply::json(200, &V3 { data: &item.text, meta: json!({}) })
            }
            Some((_, item)) => {
                let data = self.with_parts(call, parent, &item.text, question, lag);
                Reply::json(200, &V3 { data, meta: json!({}) })
            }
            None => not_found(call),
        }
    }

    fn list(&self, call: &Call<'_>, route: &Route, lag: Duration) -> Result<Reply, Reply> {
        if !route.takes('L') {
            return Ok(not_allowed(call));
        }
        let question = question(call, route, Asks::List)?;
        let collection = if question.is_of_archive { ARCHIVE.to_owned() } else { call.collection() };
        let passing = passing(self.tables.of(call.store, &collection), &question, call.now, lag);
        let sorted: Box<dyn Iterator<Item = &Item>> = match &question.sort {
            Some(sort) => Box::new(sort.sort(passing.collect()).into_iter()),
            None => Box::new(passing),
        };
        let texts = sorted.map(|item| &*item.text);
        let before = (question.page - 1).saturating_mul(question.limit);
        if call.is_v2() {
            let shown: Vec<&RawValue> = texts.skip(before).take(question.limit).collect();
            return Ok(if shown.is_empty() { Reply::empty(204) } else { Reply::json(200, &shown) });
        }
        let found: Vec<&RawValue> = texts.collect();
        if !route.has_pages() {
            return Ok(Reply::json(200, &V3 { data: found, meta: json!({}) }));
        }
        let shown: Vec<&RawValue> = found.iter().skip(before).take(question.limit).copied().collect();
        let pages = found.len().div_ceil(question.limit);
        let pagination = json!({
            "total": found.len(), "count": shown.len(), "per_page": question.limit, "current_page": question.page,
            "total_pages": pages, "links": links(call, &question, pages),
        });
        let meta = json!({ "pagination": pagination });
        if question.includes.is_empty() {
            return Ok(Reply::json(200, &V3 { data: shown, meta }));
        }
        let collection = call.collection();
        let parts = |text: &&RawValue| self.with_parts(call, &collection, text, &question, lag);
        Ok(Reply::json(200, &V3 { data: shown.iter().map(parts).collect::<Vec<Value>>(), meta }))
    }

    /// An item with the collections below it that `include` names, as far as they show.
    fn with_parts(
        &self,
        call: &Call<'_>,
        collection: &str,
        text: &RawValue,
        question: &Question,
        lag: Duration,
    ) -> Value {
        let mut item = parsed(text);
        for name in &question.includes {
            // `custom_fields` are below `custom-fields`.
            let part = format!("{collection}/{}/{}", item["id"], name.replace('_', "-"));
            let all = self.tables.of(call.store, &part).into_iter().flat_map(Table::all);
            let shown = all.filter(|part| part.shows(call.now, lag));
            item[name.as_str()] = shown.map(|part| parsed(&part.text)).collect();
        }
        item
    }

    /// The ids of those that a removal of several names, or the refusal of its parameters.
    pub(in super::super) fn ids(
        &self,
        call: &Call<'_>,
        route: &Route,
        lag: Duration,
    ) -> Result<Vec<String>, Reply> {
        let question = question(call, route, Asks::Removal)?;
        let passing = passing(self.tables.of(call.store, &call.collection()), &question, call.now, lag);
        Ok(passing.map(|item| item.id.to_string()).collect())
    }
}

/// How the pages beside this one, and itself, are asked for.
fn links(call: &Call<'_>, question: &Question, pages: usize) -> Value {
    let link = |page: usize| {
        let mut query = form_urlencoded::Serializer::new("?".to_owned());
        let asked = call.request.url.query_pairs();
        query.extend_pairs(asked.filter(|(name, _)| !matches!(&**name, "page" | "limit")));
        query.append_pair("page", &page.to_string()).append_pair("limit", &question.limit.to_string());
        query.finish()
    };
    let mut links = json!({ "current": link(question.page) });
    if question.page > 1 {
        links["previous"] = Value::from(link(question.page - 1));
    }
    if question.page < pages {
        links["next"] = Value::from(link(question.page + 1));
    }
    links
}

/// Oldest first, all that a request's lookup shows. It is as long as its asker reads it: a page is not worth a walk over
/// everything.
fn passing<'a>(
    table: Option<&'a Table<Item>>,
    question: &'a Question,
    now: Timestamp,
    lag: Duration,
) -> impl Iterator<Item = &'a Item> {
    let all = table.into_iter().flat_map(|table| candidates(table, &question.filters));
    all.filter(move |item| item.shows(now, lag) && item.matches(&question.filters))
}
