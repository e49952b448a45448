//! A JSON body, held against what the call takes.

use serde_json::{Map, Value};
use wiremock::Request;

use super::refusal::Refusal;
use crate::serve::header;
use crate::stripe::contract::{Field, Kind};

/// The body; none is an empty one.
pub(super) fn of(request: &Request) -> Result<Map<String, Value>, Refusal> {
    if let Some((name, _)) = request.url.query_pairs().next() {
        return Err(Refusal::field(format!("Received unknown parameter: {name}")));
    }
    if request.body.is_empty() {
        return Ok(Map::new());
    }
    let content_type = header(&request.headers, "content-type").unwrap_or_default();
    let media_type = content_type.split(';').next().unwrap_or_default().trim();
    if !media_type.eq_ignore_ascii_case("application/json") {
        return Err(Refusal::not_json("Requests to /v2 take a body of the type application/json."));
    }
    match serde_json::from_slice(&request.body) {
        Ok(Value::Object(body)) => Ok(body),
        _ => Err(Refusal::not_json("The request's body is not a JSON object.")),
    }
}

/// Refuses what the call does not take, and a body without what it must have.
pub(super) fn check(fields: &[Field], sent: &Map<String, Value>) -> Result<(), Refusal> {
    hash(fields, sent, "")
}

fn hash(fields: &[Field], sent: &Map<String, Value>, outer: &str) -> Result<(), Refusal> {
    let named = |name: &str| if outer.is_empty() { name.to_owned() } else { format!("{outer}.{name}") };
    for (name, value) in sent {
        let Some(field) = fields.iter().find(|field| field.name == *name) else {
            return Err(Refusal::field(format!("Received unknown field: {}", named(name))));
        };
        check_value(&field.kind, value, &named(name))?;
    }
    match fields.iter().find(|field| field.required && !sent.contains_key(&field.name)) {
        Some(field) => Err(Refusal::field(format!("Missing required field: {}", named(&field.name)))),
        None => Ok(()),
    }
}

fn check_value(kind: &Kind, value: &Value, name: &str) -> Result<(), Refusal> {
    let wrong = |what: &str| Err(Refusal::field(format!("Invalid field: {name} must be {what}")));
    match (kind, value) {
        (Kind::Text, Value::String(_)) => Ok(()),
        (Kind::OneOf(known), Value::String(text)) if known.contains(text) => Ok(()),
        (Kind::OneOf(known), _) => wrong(&format!("one of {}", known.join(", "))),
        (Kind::List(inner), Value::Array(items)) => items
            .iter()
            .enumerate()
            .try_for_each(|(at, item)| check_value(inner, item, &format!("{name}[{at}]"))),
        (Kind::Hash(fields), Value::Object(sent)) => hash(fields, sent, name),
        (Kind::Metadata, Value::Object(sent)) => check_metadata(sent, name),
        (Kind::Text, _) => wrong("a string"),
        (Kind::List(_), _) => wrong("an array"),
        (Kind::Hash(_) | Kind::Metadata, _) => wrong("an object"),
        // No call of v2's takes another kind.
        _ => wrong("known"),
    }
}

/// The bounds are documented at <https://docs.stripe.com/metadata>; `null` for a name is its removal
/// (<https://docs.stripe.com/api-v2-overview>).
fn check_metadata(sent: &Map<String, Value>, outer: &str) -> Result<(), Refusal> {
    for (name, value) in sent {
        let fits = match value {
            Value::Null => true,
            Value::String(text) => text.chars().count() <= 500,
            _ => false,
        };
        if !fits || name.chars().count() > 40 {
            let message =
                format!("Invalid field: {outer}.{name} must be a string or null, up to 40 and 500 long");
            return Err(Refusal::field(message));
        }
    }
    if sent.len() > 50 {
        return Err(Refusal::field(format!("Invalid field: {outer} can have up to 50 names")));
    }
    Ok(())
}
