//! Webhooks of a server (<https://postmarkapp.com/developer/api/webhooks-api>), and whom they tell of what.

use http::HeaderName;
use serde_json::{Value, json};
use url::Url;
use wiremock::Request;

use super::super::encoding::base64;
use super::super::fixture::Reply;
use super::super::webhooks::{Delivery, Outbox, Proof};
use super::query;
use super::server::{STREAMS, Server, invalid_field, no_stream, number, refused};
use super::shapes::{self, Shape};

impl Server {
    pub(super) fn webhooks(&self, request: &Request) -> Reply {
        let wanted = query(request, "messagestream");
        let of = |hook: &&Value| wanted.as_deref().is_none_or(|wanted| hook["MessageStream"] == wanted);
        let shown: Vec<&Value> = self.webhooks.values().filter(of).collect();
        Reply::json(200, &json!({ "Webhooks": shown }))
    }

    pub(super) fn create_webhook(&mut self, sent: &Value) -> Result<Reply, Reply> {
        if !sent["ID"].is_null() {
            return Err(refused(1356, "A request 'ID' must not be provided when creating a webhook."));
        }
        taken(shapes::NEW_WEBHOOK, sent)?;
        if sent["Url"].is_null() {
            return Err(bad_url());
        }
        let stream = sent["MessageStream"].as_str().unwrap_or(STREAMS[0].0);
        match STREAMS.iter().find(|(known, _)| *known == stream) {
            None => return Err(no_stream(stream)),
            // A message that comes in has a hook of its own, at the server.
            Some((_, kind)) if *kind == "Inbound" => {
                return Err(refused(1351, "You cannot create a webhook using an inbound stream."));
            }
            Some(_) => {}
        }
        let id = self.next_id();
        let mut hook = json!({
            "ID": id, "Url": "", "MessageStream": stream, "HttpAuth": null, "HttpHeaders": [],
            "Triggers": {
                "Open": { "Enabled": false, "PostFirstOpenOnly": false }, "Click": { "Enabled": false },
                "Delivery": { "Enabled": false }, "Bounce": { "Enabled": false, "IncludeContent": false },
                "SpamComplaint": { "Enabled": false, "IncludeContent": false }, "SubscriptionChange": { "Enabled": false },
            },
        });
        set_webhook(&mut hook, sent);
        let told = Reply::json(200, &hook);
        self.webhooks.insert(id, hook);
        Ok(told)
    }

    pub(super) fn webhook(&mut self, method: &str, id: &str, sent: &Value) -> Result<Reply, Reply> {
        let none = || refused(1352, "The webhook for the provided 'ID' was not found.");
        let hook = self.webhooks.get_mut(&number(id)).ok_or_else(none)?;
        match method {
            "DELETE" => {
                self.webhooks.remove(&number(id));
                let message = format!("Webhook {id} removed.");
                return Ok(Reply::json(200, &json!({ "ErrorCode": 0, "Message": message })));
            }
            "PUT" => {
                if ["ID", "MessageStream"].iter().any(|name| !sent[*name].is_null()) {
                    let text = "You cannot update the 'ID' or 'MessageStream' fields of a webhook.";
                    return Err(refused(1357, text));
                }
                taken(shapes::WEBHOOK, sent)?;
                set_webhook(hook, sent);
            }
            _ => {}
        }
        Ok(Reply::json(200, hook))
    }

    /// Tells those webhooks of a record that want it.
    pub(super) fn tell(&self, outbox: &Outbox, record: &Value) {
        let kind = record["RecordType"].as_str().unwrap_or_default();
        for hook in self.webhooks.values() {
            let wants = hook["Triggers"][kind]["Enabled"] == true;
            if !wants || hook["MessageStream"] != record["MessageStream"] {
                continue;
            }
            let mut headers: Vec<(String, String)> = Vec::new();
            for header in hook["HttpHeaders"].as_array().into_iter().flatten() {
                let text = |name: &str| header[name].as_str().unwrap_or_default().to_owned();
                headers.push((text("Name"), text("Value")));
            }
            if let (Some(user), Some(password)) =
                (hook["HttpAuth"]["Username"].as_str(), hook["HttpAuth"]["Password"].as_str())
            {
                let pair = base64(format!("{user}:{password}").as_bytes());
                headers.push(("Authorization".to_owned(), format!("Basic {pair}")));
            }
            let of = match kind {
                "Bounce" => record["ID"].to_string(),
                // It may have no message, or the one of a bounce. It is told of at once, so the count is its number.
                "SubscriptionChange" => self.suppressed.changes.to_string(),
                // A message is delivered to each of its recipients.
                _ => format!("{}-{}", text_of(&record["MessageID"]), text_of(&record["Recipient"])),
            };
            outbox.post(Delivery {
                id: format!("{of}-{kind}"),
                kind: kind.to_owned(),
                url: hook["Url"].as_str().unwrap_or_default().to_owned(),
                body: record.to_string(),
                headers,
                proof: Proof::None,
                answers: Vec::new(),
            });
        }
    }
}

/// The refusal of a webhook that has another form, or a trigger that the fake does not send.
fn taken(shape: Shape, sent: &Value) -> Result<(), Reply> {
    if sent["HttpHeaders"].as_array().is_some_and(|headers| headers.iter().any(is_unnamed)) {
        return Err(refused(1358, "You must provide a valid 'HttpHeader' 'Name'."));
    }
    if let Some(member) = shapes::wrong(shape, sent) {
        return Err(invalid_field(&member));
    }
    let url = sent["Url"].as_str();
    let is_url = |url: &str| Url::parse(url).is_ok_and(|url| matches!(url.scheme(), "http" | "https"));
    if url.is_some_and(|url| !is_url(url)) {
        return Err(bad_url());
    }
    for (trigger, how) in sent["Triggers"].as_object().into_iter().flatten() {
        // A receiver would wait for it for ever. Nor has the fake a bounce's content to tell.
        let is_known = how["Enabled"] != true || FIRED.contains(&trigger.as_str());
        if !is_known || how["IncludeContent"] == true {
            return Err(invalid_field(&format!("Triggers.{trigger}")));
        }
    }
    Ok(())
}

/// Whether a header has no name, or one that is none of HTTP's.
fn is_unnamed(header: &Value) -> bool {
    match &header["Name"] {
        Value::Null => header.is_object(),
        Value::String(name) => HeaderName::from_bytes(name.as_bytes()).is_err(),
        _ => false,
    }
}

fn bad_url() -> Reply {
    refused(1354, "The request must contain a valid 'Url' field.")
}

fn set_webhook(hook: &mut Value, sent: &Value) {
    for name in ["Url", "HttpAuth", "HttpHeaders"] {
        // An address can be changed, and not taken away.
        if let Some(value) = sent.get(name).filter(|value| name != "Url" || !value.is_null()) {
            hook[name] = value.clone();
        }
    }
    for (trigger, how) in sent["Triggers"].as_object().into_iter().flatten() {
        for (name, value) in how.as_object().into_iter().flatten() {
            hook["Triggers"][trigger][name] = value.clone();
        }
    }
}

fn text_of(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// The triggers that the fake sends.
const FIRED: [&str; 3] = ["Bounce", "Delivery", "SubscriptionChange"];
