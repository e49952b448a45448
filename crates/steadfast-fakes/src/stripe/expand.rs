//! Objects in place of their ids, where a request asks for them (<https://docs.stripe.com/api/expanding_objects>).
//!
//! A field may be expanded if the vendor's own types for Node have it as an id or an object. The contract lists it.

use serde_json::{Value, json};

use super::contract::Resource;
use super::objects::Objects;
use super::refusal::Refusal;

/// The objects that a request shows: of a resource, one or a page of them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shown<'a> {
    resource: &'a str,
    is_page: bool,
}

impl<'a> Shown<'a> {
    /// By method and the path below `/v1/`; `None` for a path that the fake does not know.
    pub(super) fn of(method: &str, rest: &'a str) -> Option<Shown<'a>> {
        let parts: Vec<&str> = rest.split('/').collect();
        let (resource, is_page) = match (method, &parts[..]) {
            // The older route, `/refund`, shows the charge.
            (_, ["charges", _, "refunds"]) => ("refunds", method == "GET"),
            ("GET", ["customers", _, "payment_methods"]) => ("payment_methods", true),
            // Of these no id is known that may be expanded.
            ("GET", [_, _, "lines" | "reversals"]) => ("", true),
            ("POST", ["transfers", _, "reversals"]) => ("", false),
            ("GET", ["balance" | "account"]) | (_, ["subscription_items", _]) => ("", false),
            ("DELETE", [name, _]) if *name != "subscriptions" => ("", false),
            (_, [name]) if Resource::named(name).is_some() => (*name, method == "GET"),
            (_, [name, ..]) if Resource::named(name).is_some() => (*name, false),
            _ => return None,
        };
        Some(Shown { resource, is_page })
    }

    /// Refuses what cannot be expanded, before anything is done.
    pub(super) fn check(self, paths: &[String]) -> Result<(), Refusal> {
        for path in paths {
            let refused = || Refusal::param("expand", format!("This property cannot be expanded ({path})."));
            if path.split('.').count() > DEPTH_MAX {
                let message =
                    format!("You cannot expand more than {DEPTH_MAX} levels of a property ({path}).");
                return Err(Refusal::param("expand", message));
            }
            let mut step = Some((self.resource, self.within(path).ok_or_else(refused)?));
            while let Some((resource, rest)) = step {
                let (_, to, left) = first(resource, rest).ok_or_else(refused)?;
                step = left.map(|left| (to, left));
            }
        }
        Ok(())
    }

    /// The answer, with the objects that are asked for.
    pub(super) fn expand(
        self,
        objects: &Objects,
        account: &str,
        mut value: Value,
        paths: &[String],
    ) -> Value {
        for path in paths {
            let Some(path) = self.within(path) else { continue };
            if let (true, Some(Value::Array(items))) = (self.is_page, value.get_mut("data")) {
                items.iter_mut().for_each(|item| fill(objects, account, self.resource, item, path));
            } else {
                fill(objects, account, self.resource, &mut value, path);
            }
        }
        value
    }

    /// The path as it is within one object: on a page each begins with `data`.
    fn within(self, path: &str) -> Option<&str> {
        if self.is_page { path.strip_prefix("data.") } else { Some(path) }
    }
}

/// Where the first id of a path is, the resource of that id, and the path from there on.
fn first<'a>(resource: &str, path: &'a str) -> Option<(&'static str, &'static str, Option<&'a str>)> {
    let known = &Resource::named(resource)?.expand;
    known.iter().find_map(|(at, to)| match path.strip_prefix(at.as_str())? {
        "" => Some((at.as_str(), to.as_str(), None)),
        rest => Some((at.as_str(), to.as_str(), Some(rest.strip_prefix('.')?))),
    })
}

fn fill(objects: &Objects, account: &str, resource: &str, value: &mut Value, path: &str) {
    let Some((at, to, left)) = first(resource, path) else { return };
    let names: Vec<&str> = at.split('.').collect();
    each(value, &names, &mut |held| {
        if let Some(object) = held.as_str().and_then(|id| object_of(objects, account, to, id)) {
            *held = object;
        }
        if let Some(left) = left {
            fill(objects, account, to, held, left);
        }
    });
}

/// Acts on what stands under these names, in each item of a list.
fn each(value: &mut Value, names: &[&str], act: &mut impl FnMut(&mut Value)) {
    match (value, names.split_first()) {
        (Value::Array(items), _) => items.iter_mut().for_each(|item| each(item, names, act)),
        (value, None) => act(value),
        (value, Some((name, rest))) => {
            if let Some(held) = value.get_mut(*name) {
                each(held, rest, act);
            }
        }
    }
}

fn object_of(objects: &Objects, account: &str, resource: &str, id: &str) -> Option<Value> {
    if resource == ANY {
        return objects.get(account, Resource::with_prefix(id.rsplit_once('_')?.0)?, id);
    }
    if resource == "customers" && objects.is_gone(account, id) {
        return Some(deleted_customer(id));
    }
    objects.get(account, resource, id)
}

/// The members that are shown of a customer that was deleted.
pub(super) fn deleted_customer(id: &str) -> Value {
    json!({ "id": id, "object": "customer", "deleted": true })
}

/// The resource of an id whose beginning tells what it is.
const ANY: &str = "any";

/// "Expansions have a maximum depth of four levels (for example, the deepest expansion allowed when listing charges is
/// `data.payment_intent.customer.default_source`)", says the page above.
const DEPTH_MAX: usize = 4;
