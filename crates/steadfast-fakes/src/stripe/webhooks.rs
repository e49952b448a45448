//! Which endpoint is told what.

use serde_json::Value;

use super::super::webhooks::{Delivery, Outbox, Proof};
use super::objects::Objects;

/// The signing secret of an endpoint: that of its own.
pub(super) fn secret_of(endpoint: &str) -> String {
    format!("whsec_fake{}", endpoint.replace('_', ""))
}

/// Puts an event into the outbox for each endpoint that wants it.
pub(super) fn post(outbox: &Outbox, objects: &Objects, account: &str, event: &Value) {
    let kind = event["type"].as_str().unwrap_or_default();
    for endpoint in objects.all(account, "webhook_endpoints") {
        let wants = |name: &Value| name == "*" || name == kind;
        if endpoint["status"] != "enabled"
            || !endpoint["enabled_events"].as_array().into_iter().flatten().any(wants)
        {
            continue;
        }
        outbox.post(Delivery {
            id: event["id"].as_str().unwrap_or_default().to_owned(),
            kind: kind.to_owned(),
            url: endpoint["url"].as_str().unwrap_or_default().to_owned(),
            body: event.to_string(),
            headers: Vec::new(),
            proof: Proof::Stripe(secret_of(endpoint["id"].as_str().unwrap_or_default())),
            answers: Vec::new(),
        });
    }
}
