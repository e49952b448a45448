//! Objects in place of their ids, where a request asks for them (<https://docs.stripe.com/api/expanding_objects>).

use serde_json::Value;

use super::contract::Resource;
use super::objects::Objects;
use super::refusal::Refusal;

/// Refuses what no object of this resource has, before anything is done.
pub(super) fn check(resource: &str, paths: &[String]) -> Result<(), Refusal> {
    let Some(known) = Resource::named(resource) else { return Ok(()) };
    for path in paths {
        let first = path.strip_prefix("data.").unwrap_or(path).split('.').next().unwrap_or_default();
        if !known.shows(first) || path.split('.').count() > DEPTH_MAX {
            return Err(Refusal::param("expand", format!("This property cannot be expanded ({path}).")));
        }
    }
    Ok(())
}

/// The answer, with the objects that are asked for.
pub(super) fn expand(objects: &Objects, account: &str, mut value: Value, paths: &[String]) -> Value {
    for path in paths {
        let names: Vec<&str> = path.split('.').collect();
        put(objects, account, &mut value, &names);
    }
    value
}

fn put(objects: &Objects, account: &str, value: &mut Value, names: &[&str]) {
    if let Value::Array(items) = value {
        items.iter_mut().for_each(|item| put(objects, account, item, names));
        return;
    }
    let Some((first, rest)) = names.split_first() else { return };
    let Some(held) = value.get_mut(*first) else { return };
    if let Some(object) = held.as_str().and_then(|id| object_of(objects, account, id)) {
        *held = object;
    }
    put(objects, account, held, rest);
}

/// The object of this id: what it is, is told by what the id begins with.
fn object_of(objects: &Objects, account: &str, id: &str) -> Option<Value> {
    let (prefix, _) = id.rsplit_once('_')?;
    objects.get(account, Resource::with_prefix(prefix)?, id)
}

/// Documented at <https://docs.stripe.com/api/expanding_objects>.
const DEPTH_MAX: usize = 5;
