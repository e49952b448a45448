//! The items that a list of the BigCommerce fake has to look at: those under a term that is asked for, or within bounds of
//! the id, and else all.

use serde_json::Value;

use super::{Item, LOOKED_UP_BY, Table, Term, term, without};

/// Oldest first, all that may pass the filters.
pub(super) fn candidates<'a>(
    table: &'a Table<Item>,
    filters: &[(String, String)],
) -> Box<dyn Iterator<Item = &'a Item> + 'a> {
    let terms = filters.iter().find_map(|(name, wanted)| {
        let (field, is_list) = name.strip_suffix(":in").map_or((name.as_str(), false), |field| (field, true));
        let any_of = |wanted: &str| term(field, &Value::from(wanted));
        LOOKED_UP_BY.contains(&field).then(|| match is_list {
            true => wanted.split(',').filter_map(any_of).collect::<Vec<Term>>(),
            // Those without the field pass too.
            false => any_of(wanted).into_iter().chain([without(field)]).collect(),
        })
    });
    match terms {
        Some(terms) => Box::new(table.with(&terms).map(|(_, item)| item)),
        None => Box::new(between_ids(table, filters)),
    }
}

/// Oldest first, all whose ids are within the bounds of these filters. Items are made in the order of their ids.
fn between_ids<'a>(
    table: &'a Table<Item>,
    filters: &[(String, String)],
) -> impl Iterator<Item = &'a Item> + use<'a> {
    let bounds = |wanted: &'static str| {
        let named = filters.iter().filter(move |(name, _)| name == wanted);
        named.filter_map(|(_, bound)| bound.parse::<u64>().ok())
    };
    let above = bounds("min_id").max().map_or(0, |min| table.before(|item| item.id >= min));
    let last = bounds("max_id").min().map_or(u64::MAX - 1, |max| table.before(|item| item.id > max));
    table.between(above, last + 1).map(|(_, item)| item)
}
