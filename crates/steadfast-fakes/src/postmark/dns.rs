//! The part that a domain and a sender signature have in common: the records that their DNS is to have, and whether it
//! has them (<https://postmarkapp.com/developer/api/domains-api>).

use serde_json::{Value, json};

use super::super::fixture::Reply;
use super::server::refused;
use super::settings::PostmarkSettings;

/// Reads, changes and verifies what a domain and a sender signature have in common.
pub(super) fn authenticate(
    held: &mut Value,
    method: &str,
    action: &[&str],
    settings: &PostmarkSettings,
    key: u64,
    sent: &Value,
) -> Result<Reply, Reply> {
    match (method, action) {
        ("PUT", []) => set(held, sent),
        (_, ["verifydkim"]) if settings.dns_records_published => verify_dkim(held),
        (_, ["verifyreturnpath"]) if settings.dns_records_published => {
            held["ReturnPathDomainVerified"] = Value::from(!text(held, "ReturnPathDomain").is_empty());
        }
        (_, ["verifyspf"]) => {
            return Ok(Reply::json(200, &part(held, &["SPFHost", "SPFVerified", "SPFTextValue"])));
        }
        (_, ["rotatedkim"]) => rotate(held, key)?,
        _ => {}
    }
    Ok(Reply::json(200, held))
}

/// The pending key becomes the key, and the one before it is revoked.
fn verify_dkim(held: &mut Value) {
    if text(held, "DKIMPendingHost").is_empty() {
        return;
    }
    for name in ["Host", "TextValue"] {
        let [old, pending, revoked] = ["", "Pending", "Revoked"].map(|state| format!("DKIM{state}{name}"));
        held[revoked] = held[&old].take();
        held[old] = held[&pending].take();
        held[pending] = Value::from("");
    }
    held["DKIMVerified"] = Value::from(true);
    held["DKIMUpdateStatus"] = Value::from("Verified");
}

/// A new key, which is pending until it is verified.
pub(super) fn rotate(held: &mut Value, key: u64) -> Result<(), Reply> {
    if !text(held, "DKIMPendingHost").is_empty() {
        return Err(refused(505, "The DKIM key is scheduled for renewal already."));
    }
    let name = if held["Domain"].is_string() { "Domain" } else { "Name" };
    held["DKIMPendingHost"] = Value::from(format!("{key}pm._domainkey.{}", text(held, name)));
    held["DKIMPendingTextValue"] = Value::from(format!("k=rsa; p=fake{key}"));
    held["DKIMUpdateStatus"] = Value::from("Pending");
    Ok(())
}

pub(super) fn new_domain(id: u64, name: &str) -> Value {
    json!({
        "ID": id, "Name": name, "SPFVerified": true, "SPFHost": name,
        "SPFTextValue": "v=spf1 a mx include:spf.mtasv.net ~all", "DKIMVerified": false, "WeakDKIM": false, "DKIMHost": "",
        "DKIMTextValue": "", "DKIMPendingHost": format!("{id}pm._domainkey.{name}"),
        "DKIMPendingTextValue": format!("k=rsa; p=fake{id}"), "DKIMRevokedHost": "", "DKIMRevokedTextValue": "",
        "SafeToRemoveRevokedKeyFromDNS": false, "DKIMUpdateStatus": "Pending", "ReturnPathDomain": "",
        "ReturnPathDomainVerified": false, "ReturnPathDomainCNAMEValue": "pm.mtasv.net",
    })
}

/// Sets what an object shows, as far as it was sent.
pub(super) fn set(held: &mut Value, sent: &Value) {
    for (name, value) in sent.as_object().into_iter().flatten().filter(|(_, value)| !value.is_null()) {
        if held.get(name).is_some() {
            held[name] = value.clone();
        }
    }
}

pub(super) fn part(held: &Value, names: &[&str]) -> Value {
    names.iter().map(|name| ((*name).to_owned(), held[*name].clone())).collect()
}

pub(super) fn text<'a>(held: &'a Value, name: &str) -> &'a str {
    held[name].as_str().unwrap_or_default()
}
