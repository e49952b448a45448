//! Webhooks of a server (<https://postmarkapp.com/developer/api/webhooks-api>), and whom they tell of what.

use serde_json::{Value, json};
use wiremock::Request;

use super::super::encoding::base64;
use super::super::fixture::Reply;
use super::super::webhooks::{Delivery, Outbox, Proof};
use super::query;
use super::server::{Server, number, refused};

impl Server {
    pub(super) fn webhooks(&self, request: &Request) -> Reply {
        let wanted = query(request, "messagestream");
        let of = |hook: &&Value| wanted.as_deref().is_none_or(|wanted| hook["MessageStream"] == wanted);
        let shown: Vec<&Value> = self.webhooks.values().filter(of).collect();
        Reply::json(200, &json!({ "Webhooks": shown }))
    }

    pub(super) fn create_webhook(&mut self, sent: &Value) -> Reply {
        if sent["Url"].as_str().is_none_or(str::is_empty) {
            return refused(606, "The 'Url' of the webhook is required.");
        }
        let id = self.next_id();
        let mut hook = json!({
            "ID": id, "Url": "", "MessageStream": "outbound", "HttpAuth": null, "HttpHeaders": [],
            "Triggers": {
                "Open": { "Enabled": false, "PostFirstOpenOnly": false }, "Click": { "Enabled": false },
                "Delivery": { "Enabled": false }, "Bounce": { "Enabled": false, "IncludeContent": false },
                "SpamComplaint": { "Enabled": false, "IncludeContent": false }, "SubscriptionChange": { "Enabled": false },
            },
        });
        set_webhook(&mut hook, sent);
        let told = Reply::json(200, &hook);
        self.webhooks.insert(id, hook);
        told
    }

    pub(super) fn webhook(&mut self, method: &str, id: &str, sent: &Value) -> Reply {
        let Some(hook) = self.webhooks.get_mut(&number(id)) else {
            return refused(603, "The webhook was not found.");
        };
        match method {
            "DELETE" => {
                self.webhooks.remove(&number(id));
                let message = format!("Webhook {id} removed.");
                return Reply::json(200, &json!({ "ErrorCode": 0, "Message": message }));
            }
            "PUT" => set_webhook(hook, sent),
            _ => {}
        }
        Reply::json(200, hook)
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
            outbox.post(Delivery {
                id: format!("{}-{kind}", record["MessageID"].as_str().unwrap_or_default()),
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

fn set_webhook(hook: &mut Value, sent: &Value) {
    for name in ["Url", "MessageStream", "HttpAuth", "HttpHeaders"] {
        if let Some(value) = sent.get(name) {
            hook[name] = value.clone();
        }
    }
    for (trigger, how) in sent["Triggers"].as_object().into_iter().flatten() {
        for (name, value) in how.as_object().into_iter().flatten() {
            hook["Triggers"][trigger][name] = value.clone();
        }
    }
}
