//! The items that a list of the BigCommerce fake has to look at: those under a term that is asked for, or within bounds of
//! the id, and else all.

use serde_json::Value;

use super::filters::{Filter, Wants};
use super::{Item, LOOKED_UP_BY, Table, Term, term};

/// Oldest first, all that may pass the filters.
pub(super) fn candidates<'a>(
    table: &'a Table<Item>,
    filters: &[Filter],
) -> impl Iterator<Item = &'a Item> + use<'a> {
    let terms = |filter: &Filter| match &filter.wants {
        Wants::Any(wanted) if LOOKED_UP_BY.contains(&filter.field.as_str()) => {
            let term = |one: &String| term(&filter.field, &Value::from(one.as_str()));
            Some(wanted.iter().filter_map(term).collect())
        }
        _ => None,
    };
    let lists: Vec<Vec<Term>> = filters.iter().filter_map(terms).collect();
    let (above, below) = between_ids(table, filters);
    table.under_all(&lists, above, below, true).map(|(_, item)| item)
}

/// Between which ordinals all are whose ids are within the bounds of these filters. Items are made in the order of their
/// ids.
fn between_ids(table: &Table<Item>, filters: &[Filter]) -> (u64, u64) {
    let (mut above, mut last) = (0, u64::MAX - 1);
    for filter in filters.iter().filter(|filter| filter.field == "id") {
        match filter.wants {
            Wants::Min { .. } => above = above.max(table.before(|item| filter.passes_light(item))),
            Wants::Max { .. } => last = last.min(table.before(|item| !filter.passes_light(item))),
            _ => {}
        }
    }
    (above, last + 1)
}
