//! The JSON forms of what lists give. Times are milliseconds since the Unix epoch, in names that end in `_ms`. Fields
//! are added, never renamed.

use serde::{Serialize, Serializer};
use serde_json::{Map, Value, json};

use super::{Place, Resolution, Resolved, Summary};
use crate::operation::OperationId;

impl Serialize for Summary {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        summary(self).serialize(serializer)
    }
}

/// A row of a list.
pub fn summary(summary: &Summary) -> Map<String, Value> {
    let mut form = name(&summary.id);
    let rest = json!({
        "wire_key": summary.wire_key,
        "phase": summary.phase.name(),
        "reason": summary.reason,
        "resolved": summary.resolved.as_ref().map(resolved),
        "effect": summary.effect,
        "status": summary.status,
        "attempts": summary.attempts,
        "fence": summary.fence,
        "claimed_at_ms": summary.claimed_at.as_millis(),
        "updated_at_ms": summary.updated_at.as_millis(),
        "until_ms": summary.until.map(crate::clock::Timestamp::as_millis),
        "sequence": summary.sequence.as_ref().map(place),
    });
    if let Value::Object(rest) = rest {
        form.extend(rest);
    }
    if let Some(code) = summary.code {
        form.insert("code".to_owned(), json!(code));
    }
    form
}

fn place(place: &Place) -> Value {
    let behind = place.behind.as_ref().map(|ahead| {
        let mut form = name(&ahead.id);
        form.insert("phase".to_owned(), json!(ahead.phase.name()));
        Value::Object(form)
    });
    json!({
        "name": place.sequence.name(),
        "position": place.position,
        "skips_dead_letters": place.sequence.skips_dead_letters(),
        "behind": behind,
    })
}

fn resolved(resolved: &Resolved) -> Value {
    let mut form = resolution(Some(&resolved.resolution));
    form.insert("by".to_owned(), json!(resolved.by));
    form.insert("why".to_owned(), json!(resolved.why));
    form.insert("at_ms".to_owned(), json!(resolved.at.as_millis()));
    Value::Object(form)
}

/// Every member is there for every resolution.
pub fn resolution(resolution: Option<&Resolution>) -> Map<String, Value> {
    let vendor_id = match resolution {
        Some(Resolution::Applied { vendor_id }) => Some(vendor_id),
        _ => None,
    };
    let new_key = match resolution {
        Some(Resolution::Replaced { key } | Resolution::Superseded { key }) => Some(key),
        _ => None,
    };
    let mut form = Map::new();
    form.insert("resolution".to_owned(), json!(resolution.map(Resolution::name)));
    form.insert("vendor_id".to_owned(), json!(vendor_id));
    form.insert("new_key".to_owned(), json!(new_key));
    let new_scope = match resolution {
        Some(Resolution::Adopted { scope }) => Some(scope),
        _ => None,
    };
    form.insert("new_scope".to_owned(), json!(new_scope));
    form
}

/// The name of an operation.
pub fn name(id: &OperationId) -> Map<String, Value> {
    let mut form = Map::new();
    form.insert("operation".to_owned(), json!(id.to_string()));
    form.insert("scope".to_owned(), json!(id.scope));
    form.insert("key".to_owned(), json!(id.key));
    form
}
