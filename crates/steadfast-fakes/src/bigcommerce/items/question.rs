//! The question that a request asks a list, or what is wrong with its parameters.
//!
//! BigCommerce's treatment of a parameter that is not a list's differs. V2 and the lists of channels refuse it, and of
//! most V3 lists nothing is documented. The fake refuses it everywhere: a list of everything would be a guess, and it
//! would hide a misspelt lookup.

use std::cmp::Ordering;

use serde_json::Value;

use super::super::super::fixture::{Reply, parsed};
use super::super::machine::{Call, problem, problem_v2};
use super::super::routes::{Route, is_in};
use super::filters::{DayOnly, Filter};
use super::{Item, number};

#[derive(Debug)]
pub(in super::super) struct Question {
    pub(super) filters: Vec<Filter>,
    pub(super) sort: Option<Sort>,
    pub(super) page: usize,
    pub(super) limit: usize,
    /// The collections that are shown with each item.
    pub(super) includes: Vec<String>,
    /// Whether the archive is asked for, and not what is in the list without that.
    pub(super) is_of_archive: bool,
}

/// The kind of request that the parameters belong to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Asks {
    List,
    /// One resource that is read.
    One,
    Count,
    /// The removal of several.
    Removal,
    /// A write: no parameter that the fake implements.
    Nothing,
}

/// The parameters of a request, read, or the vendor's refusal of them.
pub(in super::super) fn question(call: &Call<'_>, route: &Route, asks: Asks) -> Result<Question, Reply> {
    let pairs: Vec<(String, String)> = call.request.url.query_pairs().into_owned().collect();
    let names = || pairs.iter().map(|(name, _)| name.as_str());
    let of_delete = route.filters_of_delete();
    let has_includes = |name: &str| name == "include" && !route.includes.is_empty();
    let is_known = |name: &str| match asks {
        Asks::List => {
            route.has_filter(name) || name == "sort" && !route.sorts.is_empty() || has_includes(name)
        }
        Asks::One => has_includes(name),
        Asks::Count => route.has_filter(name) && !is_in(OF_LISTS, name),
        Asks::Removal => is_in(of_delete.0, name),
        Asks::Nothing => false,
    };
    let is_foreign = |name: &str| match asks {
        Asks::Removal => is_in(of_delete.1, name),
        Asks::One | Asks::Nothing => {
            is_in(OF_ONE, name) && (is_in(route.foreign, name) || has_includes(name))
        }
        Asks::List | Asks::Count => is_in(route.foreign, name),
    };
    let unknown: Vec<&str> = names().filter(|name| !is_known(name) && !is_foreign(name)).collect();
    if let Some(first) = unknown.first() {
        return Err(unknown_parameters(call, first, &unknown.join(", ")));
    }
    if let Some(name) = names().find(|name| is_foreign(name) && !is_known(name)) {
        return Err(refused(
            call,
            &format!("The fake does not implement the parameter '{name}' of BigCommerce."),
        ));
    }
    if let Some(name) = names().enumerate().find(|(at, name)| names().take(*at).any(|other| other == *name)) {
        let name = name.1;
        return Err(refused(
            call,
            &format!("The fake does not implement a parameter that is given twice: '{name}'."),
        ));
    }
    read(call, route, &pairs)
}

fn read(call: &Call<'_>, route: &Route, pairs: &[(String, String)]) -> Result<Question, Reply> {
    let mut question = Question {
        filters: Vec::new(),
        sort: None,
        page: 1,
        limit: LIMIT_DEFAULT,
        includes: Vec::new(),
        is_of_archive: false,
    };
    let day = if call.route == ["v3", "catalog", "products"] {
        DayOnly::AtThisTime(call.now)
    } else {
        DayOnly::Begins
    };
    for (name, value) in pairs {
        let count = || value.parse::<usize>().ok().filter(|count| *count > 0).ok_or("integer");
        let is_read = match name.as_str() {
            "is_deleted" => match value.as_str() {
                "true" | "false" => {
                    question.is_of_archive = value == "true";
                    Ok(())
                }
                _ => Err("boolean"),
            },
            "page" => count().map(|page| question.page = page),
            "limit" => count().map(|limit| question.limit = limit.min(LIMIT_MAX)),
            "sort" => Sort::read(call, route, value, pairs).map(|sort| question.sort = Some(sort)),
            "include" => {
                let names = || value.split(',').map(str::trim);
                if let Some(name) = names().find(|name| !is_in(route.includes, name)) {
                    let text = format!("The fake does not implement the parameter 'include' with '{name}'.");
                    return Err(refused(call, &text));
                }
                question.includes = names().map(str::to_owned).collect();
                Ok(())
            }
            "direction" if pairs.iter().any(|(name, _)| name == "sort") => Ok(()),
            "direction" => {
                return Err(refused(
                    call,
                    "The fake does not implement the parameter 'direction' without 'sort'.",
                ));
            }
            _ => Filter::read(name, value, &day).map(|filter| question.filters.push(filter)),
        };
        if let Err(expected) = is_read {
            return Err(bad_value(call, name, value, expected));
        }
    }
    Ok(question)
}

/// By which field a list is sorted.
#[derive(Debug)]
pub(super) struct Sort {
    field: String,
    falls: bool,
}

impl Sort {
    /// V2 orders and V3 customers have the direction behind a colon, and others in a parameter of its own.
    fn read(
        call: &Call<'_>,
        route: &Route,
        value: &str,
        pairs: &[(String, String)],
    ) -> Result<Sort, &'static str> {
        let direction = pairs.iter().find(|(name, _)| name == "direction").map(|(_, value)| value.as_str());
        let (field, direction) = match (call.route, value.split_once(':')) {
            (["v2", "orders"] | ["v3", "customers"], Some((field, direction))) => (field, Some(direction)),
            (["v3", "customers"], None) => return Err(SORT),
            (_, _) => (value, direction),
        };
        if !is_in(route.sorts, field) {
            return Err(SORT);
        }
        let falls = match direction {
            None | Some("asc") => false,
            Some("desc") => true,
            Some(_) => return Err(SORT),
        };
        Ok(Sort { field: field.to_owned(), falls })
    }

    /// Those of one value stay in their order.
    pub(super) fn sort<'a>(&self, items: Vec<&'a Item>) -> Vec<&'a Item> {
        let mut keyed: Vec<(Value, &'a Item)> =
            items.into_iter().map(|item| (parsed(&item.text)[self.field.as_str()].take(), item)).collect();
        keyed.sort_by(|(left, one), (right, other)| {
            let order = match self.field.as_str() {
                "date_created" => one.made.cmp(&other.made),
                "date_modified" => one.modified.cmp(&other.modified),
                _ => compare(left, right),
            };
            if self.falls { order.reverse() } else { order }
        });
        keyed.into_iter().map(|(_, item)| item).collect()
    }
}

/// Numbers as numbers, texts in any case, what is neither first.
fn compare(left: &Value, right: &Value) -> Ordering {
    let text = |value: &Value| value.as_str().map(str::to_lowercase);
    match (number(left), number(right)) {
        (Some(left), Some(right)) => left.total_cmp(&right),
        _ => (left.as_bool(), text(left)).cmp(&(right.as_bool(), text(right))),
    }
}

/// V2 names the first one, V3 all of them.
fn unknown_parameters(call: &Call<'_>, first: &str, all: &str) -> Reply {
    if call.is_v2() {
        return refused(call, &format!("The field '{first}' is not supported by this resource."));
    }
    refused(call, &format!("The filter(s): {all} are not valid filter parameter(s)."))
}

fn bad_value(call: &Call<'_>, name: &str, value: &str, expected: &str) -> Reply {
    if call.is_v2() {
        return refused(call, &format!("The field '{name}' is invalid."));
    }
    let title =
        format!("Query parameter \"{name}\" value must be {expected}. For input string: \"{value}\".");
    refused(call, &title)
}

fn refused(call: &Call<'_>, text: &str) -> Reply {
    if call.is_v2() { problem_v2(400, text) } else { problem(422, text) }
}

/// Parameters of a list, of which its count has none.
const OF_LISTS: &str = "page limit direction";
/// Parameters that one resource, or the answer to a write, is shaped by.
const OF_ONE: &str = "include include_fields exclude_fields consignment_structure";
const SORT: &str = "a field to sort by that the fake implements, and its direction";

/// Both as the V2 and V3 reference pages give them.
const LIMIT_DEFAULT: usize = 50;
const LIMIT_MAX: usize = 250;
