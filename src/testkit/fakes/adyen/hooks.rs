//! Standard webhooks: who is told, and in which form (<https://docs.adyen.com/development-resources/webhooks>).
//!
//! Receivers are registered as in Adyen's Management API. A notification is signed inside its body: the signature covers
//! eight of its fields, with a colon between them, and no time.

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use wiremock::Request;

use super::super::encoding::{base64, hex, hmac_sha256};
use super::super::fixture::Reply;
use super::super::webhooks::{Delivery, Outbox, Proof};
use super::payments::{Payment, Told};
use crate::clock::Timestamp;
use crate::testkit::conformance::rfc3339;

/// The receivers of the company account.
#[derive(Debug, Default)]
pub(super) struct Hooks {
    hooks: Vec<Hook>,
    made: u64,
}

#[derive(Debug)]
struct Hook {
    id: String,
    /// `None`: of the whole company.
    merchant: Option<String>,
    settings: Value,
    /// Basic credentials that its requests carry.
    credentials: Option<String>,
    key: Option<[u8; 32]>,
}

/// What a notification tells.
pub(super) struct Notice {
    event: &'static str,
    psp: String,
    merchant: String,
    method: &'static str,
    told: Told,
    pub(super) amount: Value,
    pub(super) reference: String,
    pub(super) original: Option<String>,
    /// What a reversal was.
    pub(super) action: Option<&'static str>,
}

impl Notice {
    pub(super) fn of(payment: &Payment, event: &'static str, psp: &str, told: Told) -> Notice {
        Notice {
            event,
            psp: psp.to_owned(),
            merchant: payment.merchant.clone(),
            method: payment.method,
            told,
            amount: payment.amount(),
            reference: payment.reference.clone(),
            original: None,
            action: None,
        }
    }

    fn item(&self, at: Timestamp, key: Option<&[u8; 32]>) -> Value {
        let mut item = json!({
            "additionalData": {}, "amount": self.amount, "eventCode": self.event, "eventDate": rfc3339(at),
            "merchantAccountCode": self.merchant, "merchantReference": self.reference,
            "paymentMethod": self.method, "pspReference": self.psp, "reason": self.told.err().unwrap_or_default(),
            "success": self.told.is_ok().to_string(),
        });
        if let Some(original) = &self.original {
            item["originalReference"] = Value::from(original.as_str());
        } else if self.told.is_ok() {
            item["operations"] = json!(["CANCEL", "CAPTURE", "REFUND"]);
        }
        if let Some(action) = self.action {
            item["additionalData"]["modification.action"] = Value::from(action);
        }
        if let Some(key) = key {
            let signature = base64(&hmac_sha256(key, self.signed().as_bytes()));
            item["additionalData"]["hmacSignature"] = Value::from(signature);
        }
        item
    }

    /// The fields that a signature covers, as Adyen's own libraries join them.
    fn signed(&self) -> String {
        let value = self.amount["value"].to_string();
        let success = self.told.is_ok().to_string();
        [
            self.psp.as_str(),
            self.original.as_deref().unwrap_or_default(),
            &self.merchant,
            &self.reference,
            &value,
            self.amount["currency"].as_str().unwrap_or_default(),
            self.event,
            &success,
        ]
        .join(":")
    }
}

impl Hooks {
    /// Tells the receivers of this merchant account.
    pub(super) fn tell(&self, outbox: &Outbox, at: Timestamp, notice: &Notice) {
        for hook in &self.hooks {
            let is_for = hook.merchant.as_ref().is_none_or(|merchant| *merchant == notice.merchant);
            if !is_for || hook.settings["active"] != true {
                continue;
            }
            let item = notice.item(at, hook.key.as_ref());
            let body = json!({
                "live": "false", "notificationItems": [{ "NotificationRequestItem": item }],
            });
            let credentials = hook.credentials.iter();
            outbox.post(Delivery {
                id: format!("{}-{}", notice.psp, notice.event),
                kind: notice.event.to_owned(),
                url: hook.settings["url"].as_str().unwrap_or_default().to_owned(),
                body: body.to_string(),
                headers: credentials.map(|value| ("Authorization".to_owned(), value.clone())).collect(),
                proof: Proof::None,
                answers: Vec::new(),
            });
        }
    }

    fn create(&mut self, merchant: Option<&str>, sent: &Value) -> Reply {
        let text = |name: &str| sent[name].as_str().filter(|text| !text.is_empty());
        let missing = ["type", "url", "communicationFormat"].into_iter().find(|name| text(name).is_none());
        let missing = missing.or_else(|| (!sent["active"].is_boolean()).then_some("active"));
        if let Some(field) = missing {
            return invalid(field, "is required");
        }
        if (text("type"), text("communicationFormat")) != (Some("standard"), Some("json")) {
            return invalid("type", "only standard webhooks in JSON are known here");
        }
        self.made += 1;
        let credentials = text("username").map(|user| {
            let pair = format!("{user}:{}", text("password").unwrap_or_default());
            format!("Basic {}", base64(pair.as_bytes()))
        });
        let id = format!("S2-{:012X}", self.made);
        let settings = json!({
            "id": id, "type": "standard", "url": sent["url"], "description": text("description").unwrap_or_default(),
            "username": text("username").unwrap_or_default(), "hasPassword": text("password").is_some(),
            "active": sent["active"], "hasError": false, "communicationFormat": "json",
            "acceptsExpiredCertificate": false, "acceptsSelfSignedCertificate": false,
            "acceptsUntrustedRootCertificate": false, "populateSoapActionHeader": false,
        });
        let reply = Reply::json(200, &settings);
        let merchant = merchant.map(str::to_owned);
        self.hooks.push(Hook { id, merchant, settings, credentials, key: None });
        reply
    }
}

impl Hook {
    fn update(&mut self, sent: &Value) -> Reply {
        for name in ["active", "url", "description"] {
            if let Some(value) = sent.get(name) {
                self.settings[name] = value.clone();
            }
        }
        Reply::json(200, &self.settings)
    }

    fn generate_key(&mut self) -> Reply {
        let key: [u8; 32] = Sha256::digest(format!("fake {}", self.id)).into();
        self.key = Some(key);
        Reply::json(200, &json!({ "hmacKey": hex(&key).to_uppercase() }))
    }
}

/// The Management API's webhooks; `None` for what the fake does not know.
pub(super) fn manage(hooks: &mut Hooks, request: &Request, path: &str) -> Option<Reply> {
    let parts: Vec<&str> = path.split('/').skip(1).collect();
    let [version, kind, account, "webhooks", rest @ ..] = &parts[..] else { return None };
    let merchant = match *kind {
        "merchants" => Some(*account),
        "companies" => None,
        _ => return None,
    };
    if !matches!(*version, "v1" | "v3") {
        return None;
    }
    let sent = serde_json::from_slice(&request.body).unwrap_or(Value::Null);
    let is_its = |hook: &Hook| hook.merchant.as_deref() == merchant;
    let method = request.method.as_str();
    if rest.is_empty() {
        return match method {
            "POST" => Some(hooks.create(merchant, &sent)),
            "GET" => {
                let data: Vec<&Value> =
                    hooks.hooks.iter().filter(|hook| is_its(hook)).map(|hook| &hook.settings).collect();
                let total = data.len();
                Some(Reply::json(200, &json!({ "itemsTotal": total, "pagesTotal": 1, "data": data })))
            }
            _ => None,
        };
    }
    let place = hooks.hooks.iter().position(|hook| is_its(hook) && rest[0] == hook.id)?;
    match (method, &rest[1..]) {
        ("GET", []) => Some(Reply::json(200, &hooks.hooks[place].settings)),
        ("PATCH", []) => Some(hooks.hooks[place].update(&sent)),
        ("DELETE", []) => {
            hooks.hooks.remove(place);
            Some(Reply::empty(204))
        }
        ("POST", ["generateHmac"]) => Some(hooks.hooks[place].generate_key()),
        _ => None,
    }
}

/// `RestServiceError` of the Management specification.
fn invalid(field: &str, message: &str) -> Reply {
    let problem = json!({
        "type": "https://docs.adyen.com/errors/validation", "errorCode": "31_005", "title": "Invalid input",
        "detail": format!("{field}: {message}"), "status": 422,
        "invalidFields": [{ "name": field, "message": message }],
    });
    Reply::json(422, &problem)
}
