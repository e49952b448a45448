//! The question of a list request, and the objects that it asks for.

use std::ops::RangeInclusive;

use serde_json::{Value, json};

use super::super::contract::{Field, Kind, Resource};
use super::super::params::Params;
use super::super::refusal::Refusal;
use super::{Object, held, term};
use crate::fixture::parsed;
use crate::table::Term;

/// The question of a list request.
#[derive(Debug)]
pub(in super::super) struct List<'a> {
    pub(super) resource: &'a str,
    pub(super) path: &'a str,
    pub(super) limit: usize,
    pub(super) starting_after: Option<String>,
    pub(super) ending_before: Option<String>,
    pub(super) created: RangeInclusive<i64>,
    /// Of other fields.
    ranges: Vec<(String, RangeInclusive<i64>)>,
    equal: Vec<(String, Value)>,
    shows_canceled: bool,
}

/// Reads what a list of subscriptions is asked for by their status. Says whether it shows those that were canceled:
/// without a status it does not.
fn by_status(equal: &mut Vec<(String, Value)>) -> bool {
    let Some(place) = equal.iter().position(|(name, _)| name == "status") else { return false };
    match equal[place].1.as_str() {
        Some("all") => drop(equal.remove(place)),
        Some("ended") => equal[place].1 = json!(["canceled", "incomplete_expired"]),
        _ => {}
    }
    true
}

impl<'a> List<'a> {
    /// Of this resource, and with this filter beside those of the request.
    pub(in super::super) fn of(
        resource: &'a str,
        path: &'a str,
        params: &Params,
        also: Option<(&str, &str)>,
    ) -> Result<List<'a>, Refusal> {
        let filters = Resource::named(resource).map_or(&[][..], |resource| &resource.list);
        let cursor = |name: &str, kind| Field { name: name.to_owned(), required: false, kind };
        let mut fields = filters.to_vec();
        fields.push(cursor("limit", Kind::Int));
        fields.extend(["starting_after", "ending_before"].map(|name| cursor(name, Kind::Text)));
        let mut asked = params.decode(&fields)?;
        let mut text = |name: &str| asked.remove(name).and_then(|id| id.as_str().map(str::to_owned));
        let (starting_after, ending_before) = (text("starting_after"), text("ending_before"));
        if starting_after.is_some() && ending_before.is_some() {
            let message = "You cannot parameterize both starting_after and ending_before.";
            return Err(Refusal::param("starting_after", message));
        }
        let limit = match asked.remove("limit") {
            None | Some(Value::Null) => LIMIT_DEFAULT,
            Some(limit) => limit.as_u64().and_then(|limit| usize::try_from(limit).ok()).unwrap_or(0),
        };
        if !(1..=LIMIT_MAX).contains(&limit) {
            return Err(Refusal::param("limit", "Invalid integer: limit must be between 1 and 100."));
        }
        let is_range =
            |name: &str| filters.iter().any(|field| field.name == name && matches!(field.kind, Kind::Range));
        asked.retain(|_, value| !value.is_null());
        let created = asked.remove("created").map_or(i64::MIN..=i64::MAX, |range| bounds(&range));
        let (ranges, mut equal): (Vec<_>, Vec<_>) = asked.into_iter().partition(|(name, _)| is_range(name));
        let ranges = ranges.into_iter().map(|(name, range)| (name, bounds(&range))).collect();
        equal.extend(also.map(|(name, value)| (name.to_owned(), Value::from(value))));
        let shows_canceled = resource != "subscriptions" || by_status(&mut equal);
        // Those that are not active are shown when they are asked for.
        if resource == "prices" && !equal.iter().any(|(name, _)| name == "active") {
            equal.push(("active".to_owned(), Value::from(true)));
        }
        let shown = List {
            resource,
            path,
            limit,
            starting_after,
            ending_before,
            created,
            ranges,
            equal,
            shows_canceled,
        };
        Ok(shown)
    }

    pub(super) fn object(&self) -> &str {
        Resource::named(self.resource).map_or(self.resource, |resource| &resource.object)
    }

    /// The terms: all that it asks for is under one of each of these.
    pub(super) fn terms(&self) -> Vec<Vec<Term>> {
        let terms = |(name, wanted): &(String, Value)| {
            let name = held(name, &Value::Null).0;
            match wanted {
                Value::Array(any) => any.iter().map(|one| term(name, one)).collect(),
                one => vec![term(name, one)],
            }
        };
        self.equal.iter().map(terms).collect()
    }

    pub(super) fn matches(&self, object: &Object) -> bool {
        if !self.created.contains(&i64::try_from(object.created).unwrap_or(i64::MAX)) {
            return false;
        }
        if self.equal.is_empty() && self.ranges.is_empty() && self.shows_canceled {
            return true;
        }
        let value = parsed(&object.text);
        if !self.shows_canceled && value["status"] == "canceled" {
            return false;
        }
        let ranges = self
            .ranges
            .iter()
            .all(|(name, range)| value[name].as_i64().is_some_and(|held| range.contains(&held)));
        ranges
            && self.equal.iter().all(|(name, wanted)| match (held(name, &value).1, wanted) {
                (held, Value::Array(wanted)) => wanted.contains(held),
                (held, wanted) => held == wanted,
            })
    }
}

/// A number, or what is within bounds.
fn bounds(range: &Value) -> RangeInclusive<i64> {
    let Value::Object(bounds) = range else {
        // A bound that is no number is before all time.
        let exact = range.as_i64().unwrap_or(i64::MIN);
        return exact..=exact;
    };
    let bound = |name: &str| bounds.get(name).and_then(Value::as_i64);
    let from = bound("gte").max(bound("gt").map(|gt| gt.saturating_add(1)));
    let to = [bound("lte"), bound("lt").map(|lt| lt.saturating_sub(1))].into_iter().flatten().min();
    from.unwrap_or(i64::MIN)..=to.unwrap_or(i64::MAX)
}

/// Both from <https://docs.stripe.com/api/pagination>.
pub(in super::super) const LIMIT_DEFAULT: usize = 10;
pub(in super::super) const LIMIT_MAX: usize = 100;
