//! Standard webhooks: who is told, and in which form (<https://docs.adyen.com/development-resources/webhooks>).
//!
//! Receivers are registered as in Adyen's Management API ([`manage`](super::manage)). A notification is signed inside its body: the signature covers
//! eight of its fields, with a colon between them, and no time.

use serde_json::{Value, json};

use steadfast_core::clock::Timestamp;
use steadfast_testkit::conformance::rfc3339;

use super::super::encoding::{base64, hmac_sha256};
use super::super::table::{Row, Table, Term};
use super::super::webhooks::{Delivery, Outbox, Proof};
use super::payments::{Payment, Told};

/// The receivers of the company account.
#[derive(Debug, Default)]
pub(super) struct Hooks {
    pub(super) hooks: Table<Hook>,
    pub(super) made: u64,
}

#[derive(Clone, Debug)]
pub(super) struct Hook {
    pub(super) id: String,
    /// `None`: of the company.
    pub(super) merchant: Option<String>,
    /// As the Management API shows it.
    pub(super) settings: Value,
    pub(super) password: String,
    pub(super) key: Option<[u8; 32]>,
}

impl Row for Hook {
    fn terms(&self) -> Vec<Term> {
        let owner = self.merchant.as_deref();
        vec![of_owner(owner), with_id(owner, &self.id)]
    }
}

/// Under which the webhooks of an owner are: of a merchant account, or of the company.
pub(super) fn of_owner(merchant: Option<&str>) -> Term {
    Term::new("owner", merchant)
}

/// Under which an owner's webhook with this id is.
pub(super) fn with_id(merchant: Option<&str>, id: &str) -> Term {
    Term::new("id", (merchant, id))
}

impl Hook {
    /// Whether it is told of this merchant account.
    fn is_for(&self, merchant: &str) -> bool {
        if let Some(own) = &self.merchant {
            return own == merchant;
        }
        let listed = self.settings["filterMerchantAccounts"].as_array();
        let is_listed = listed.is_some_and(|listed| listed.iter().any(|one| one == merchant));
        match self.settings["filterMerchantAccountType"].as_str() {
            Some("includeAccounts") => is_listed,
            Some("excludeAccounts") => !is_listed,
            _ => true,
        }
    }

    /// The Basic credentials that its requests carry.
    fn credentials(&self) -> Option<String> {
        let user = self.settings["username"].as_str().filter(|user| !user.is_empty())?;
        Some(format!("Basic {}", base64(format!("{user}:{}", self.password).as_bytes())))
    }
}

/// The content of a notification.
#[derive(Clone)]
pub(super) struct Notice {
    event: &'static str,
    psp: String,
    merchant: String,
    method: &'static str,
    success: bool,
    reason: &'static str,
    pub(super) amount: Value,
    pub(super) reference: String,
    pub(super) original: Option<String>,
    /// The action that a reversal was.
    pub(super) action: Option<&'static str>,
    /// The session or the payment link on whose page it was paid.
    checkout: Option<String>,
}

impl Notice {
    pub(super) fn of(payment: &Payment, event: &'static str, psp: &str, told: Told) -> Notice {
        Notice {
            event,
            psp: psp.to_owned(),
            merchant: payment.merchant.clone(),
            method: payment.method,
            success: told.is_ok(),
            reason: told.err().unwrap_or_default(),
            amount: payment.amount(),
            reference: payment.reference.clone(),
            original: None,
            action: None,
            checkout: payment.checkout.clone().filter(|_| event == "AUTHORISATION"),
        }
    }

    /// That this was taken, and not carried out afterwards.
    pub(super) fn failed(&self, event: &'static str, reason: &'static str) -> Notice {
        Notice { event, reason, success: true, ..self.clone() }
    }

    fn item(&self, at: Timestamp, key: Option<&[u8; 32]>) -> Value {
        let mut item = json!({
            "additionalData": {}, "amount": self.amount, "eventCode": self.event, "eventDate": rfc3339(at),
            "merchantAccountCode": self.merchant, "merchantReference": self.reference,
            "paymentMethod": self.method, "pspReference": self.psp, "reason": self.reason,
            "success": self.success.to_string(),
        });
        if let Some(original) = &self.original {
            item["originalReference"] = Value::from(original.as_str());
        } else if self.success {
            // "Supported by the transaction" (`NotificationRequestItem` of Webhooks-v1).
            item["operations"] = if self.method == "ideal" {
                json!(["REFUND"])
            } else {
                json!(["CANCEL", "CAPTURE", "REFUND"])
            };
        }
        if let Some(action) = self.action {
            item["additionalData"]["modification.action"] = Value::from(action);
        }
        if let Some(id) = &self.checkout {
            // `AuthorisationNotificationAdditionalData` of Webhooks-v1. Other notifications have these members too; whether
            // Adyen fills them there is not documented.
            let name = if id.starts_with("CS") { "checkoutSessionId" } else { "paymentLinkId" };
            item["additionalData"][name] = Value::from(id.as_str());
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
        let success = self.success.to_string();
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
        for (_, hook) in self.hooks.with(&[of_owner(None), of_owner(Some(&notice.merchant))]) {
            if !hook.is_for(&notice.merchant) || hook.settings["active"] != true {
                continue;
            }
            let item = notice.item(at, hook.key.as_ref());
            let body = json!({
                "live": "false", "notificationItems": [{ "NotificationRequestItem": item }],
            });
            outbox.post(Delivery {
                id: format!("{}-{}", notice.psp, notice.event),
                kind: notice.event.to_owned(),
                url: hook.settings["url"].as_str().unwrap_or_default().to_owned(),
                body: body.to_string(),
                headers: hook
                    .credentials()
                    .map(|value| ("Authorization".to_owned(), value))
                    .into_iter()
                    .collect(),
                proof: Proof::None,
                answers: Vec::new(),
            });
        }
    }
}
