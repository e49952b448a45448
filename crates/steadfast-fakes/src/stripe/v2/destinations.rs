//! Event destinations (<https://docs.stripe.com/api/v2/core/event_destinations>): those that are webhook endpoints.
//!
//! The fake keeps them and sends nothing to them.

use serde_json::{Map, Value, json};

use steadfast_core::clock::Timestamp;
use steadfast_testkit::conformance::rfc3339;

use super::refusal::Refusal;
use super::{Api, Call, body};
use crate::fixture::Reply;
use crate::stripe::contract;
use crate::stripe::desk::merge_metadata;
use crate::stripe::objects::Objects;
use crate::stripe::webhooks::secret_of;

/// Below `/v2/`, and the name that they are kept under.
pub(super) const PATH: &str = "core/event_destinations";

/// Carries a write out: the id of what it was done to, and what is shown of it.
pub(super) fn write(
    objects: &mut Objects,
    account: &str,
    at: Timestamp,
    call: &Call,
) -> Result<(String, Value), Refusal> {
    let held = match call.api {
        Api::Create => None,
        _ => Some(held(objects, account, &call.id)?),
    };
    body::check(contract::v2_body(call.api.name()), &call.body)?;
    check_url(account, &call.body)?;
    let Some(mut object) = held else {
        let object = create(objects, account, at, &call.body)?;
        objects.add(account, PATH, &object);
        return Ok((id_of(&object), shown(object, &call.includes())));
    };
    let id = id_of(&object);
    match call.api {
        Api::Delete => {
            objects.remove(account, PATH, &id);
            let gone = deleted(&id);
            return Ok((id, gone));
        }
        Api::Disable => {
            object["status"] = Value::from("disabled");
            object["status_details"] = json!({ "disabled": { "reason": "user" } });
        }
        Api::Enable => {
            object["status"] = Value::from("enabled");
            object["status_details"] = Value::Null;
        }
        _ => update(&mut object, &call.body)?,
    }
    object["updated"] = Value::from(rfc3339(at));
    objects.replace(account, PATH, &object);
    Ok((id, shown(object, &call.includes())))
}

/// The answer to the repeat of what succeeded: nothing is changed again, and what is shown is what there is now.
pub(super) fn again(objects: &Objects, account: &str, call: &Call, id: &str) -> Result<Reply, Refusal> {
    let now = match call.api {
        Api::Delete => deleted(id),
        _ => shown(held(objects, account, id)?, &call.includes()),
    };
    Ok(Reply::json(200, &now))
}

pub(super) fn held(objects: &Objects, account: &str, id: &str) -> Result<Value, Refusal> {
    objects.get(account, PATH, id).ok_or_else(|| Refusal::not_found(id))
}

/// The object as an answer has it: the receiver's URL and secret are null unless they are asked for.
pub(super) fn shown(mut object: Value, includes: &[String]) -> Value {
    for field in ["signing_secret", "url"] {
        if !includes.iter().any(|include| *include == format!("webhook_endpoint.{field}")) {
            object["webhook_endpoint"][field] = Value::Null;
        }
    }
    object
}

fn create(
    objects: &mut Objects,
    account: &str,
    at: Timestamp,
    sent: &Map<String, Value>,
) -> Result<Value, Refusal> {
    let Some(url) = sent.get("webhook_endpoint").map(|endpoint| endpoint["url"].clone()) else {
        return Err(Refusal::field("Missing required field: webhook_endpoint"));
    };
    if sent["event_payload"] == "thin" && sent.contains_key("snapshot_api_version") {
        return Err(Refusal::field("Invalid field: snapshot_api_version is for snapshot events only"));
    }
    let is_live = account.ends_with("/live");
    let id = objects.next_id(if is_live { "ed" } else { "ed_test" });
    let or = |name: &str, unset: Value| sent.get(name).cloned().unwrap_or(unset);
    let mut metadata = json!({});
    merge_metadata(&mut metadata, &or("metadata", json!({})));
    let now = rfc3339(at);
    Ok(json!({
        "id": id, "object": OBJECT, "amazon_eventbridge": null, "azure_event_grid": null, "created": now,
        "description": or("description", Value::from("")), "enabled_events": sent["enabled_events"],
        "event_payload": sent["event_payload"], "events_from": or("events_from", json!(["@self"])),
        "livemode": is_live, "metadata": metadata, "name": sent["name"],
        "snapshot_api_version": or("snapshot_api_version", Value::Null), "status": "enabled", "status_details": null,
        "type": sent["type"], "updated": now,
        "webhook_endpoint": { "signing_secret": secret_of(&id), "url": url },
    }))
}

fn update(object: &mut Value, sent: &Map<String, Value>) -> Result<(), Refusal> {
    for (name, value) in sent {
        match name.as_str() {
            "include" => {}
            "metadata" => merge_metadata(&mut object["metadata"], value),
            "webhook_endpoint" => object["webhook_endpoint"]["url"] = value["url"].clone(),
            name => object[name] = value.clone(),
        }
    }
    if object["metadata"].as_object().is_some_and(|held| held.len() > 50) {
        return Err(Refusal::field("Invalid field: metadata can have up to 50 names"));
    }
    Ok(())
}

/// Live mode takes HTTPS alone (stripe-node, `V2/Core/EventDestinations.d.ts`).
fn check_url(account: &str, sent: &Map<String, Value>) -> Result<(), Refusal> {
    let Some(url) = sent.get("webhook_endpoint").and_then(|endpoint| endpoint["url"].as_str()) else {
        return Ok(());
    };
    let scheme = url::Url::parse(url).map(|url| url.scheme().to_owned());
    match scheme.as_deref() {
        Ok("https") => Ok(()),
        Ok("http") if !account.ends_with("/live") => Ok(()),
        _ => Err(Refusal::field("Invalid field: webhook_endpoint.url must be an HTTPS URL")),
    }
}

fn deleted(id: &str) -> Value {
    json!({ "id": id, "object": OBJECT })
}

fn id_of(object: &Value) -> String {
    object["id"].as_str().unwrap_or_default().to_owned()
}

const OBJECT: &str = "v2.core.event_destination";
