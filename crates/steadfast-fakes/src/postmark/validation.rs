//! What Postmark refuses in a message, in its own words.

use serde_json::{Value, json};

use super::super::fixture::{Fixtures, Reply};
use super::server::STREAMS;
use super::shapes;

/// Checks a message and gives its recipients.
pub(super) fn check(fixtures: &Fixtures, item: &Value, template: bool) -> Result<Vec<String>, Reply> {
    if !item.is_object() {
        return Err(fixtures.reply("invalid_json"));
    }
    let shape = if template { shapes::TEMPLATED } else { shapes::MESSAGE };
    if let Some(member) = shapes::wrong(shape, item) {
        return Err(fixtures.reply("invalid_field").fill("'From'", &format!("'{member}'")));
    }
    if template && item["TemplateId"].is_null() && item["TemplateAlias"].is_null() {
        return Err(fixtures.reply("invalid_field").fill("'From'", "'TemplateId'"));
    }
    let from = item["From"].as_str().unwrap_or_default();
    if !is_address(bare(from)) {
        return Err(fixtures.reply("bad_from").fill("nope", from));
    }
    let recipients = recipients(item);
    match recipients.iter().find(|address| !is_address(address)) {
        Some(bad) => return Err(fixtures.reply("bad_to").fill("invalid@localhost", bad)),
        None if recipients.is_empty() => return Err(fixtures.reply("bad_to").fill("invalid@localhost", "")),
        None => {}
    }
    if recipients.len() > RECIPIENTS_MAX {
        return Err(refused(&format!("A message can have at most {RECIPIENTS_MAX} recipients.")));
    }
    let has = |name: &str| item[name].as_str().is_some_and(|text| !text.is_empty());
    if !template && !has("TextBody") && !has("HtmlBody") {
        return Err(refused("Provide either email TextBody or HtmlBody or both."));
    }
    if !metadata_fits(&item["Metadata"]) {
        return Err(fixtures.reply("metadata_too_long"));
    }
    let stream = item["MessageStream"].as_str().unwrap_or(STREAMS[0].0);
    match STREAMS.iter().find(|(known, _)| *known == stream) {
        None => Err(fixtures.reply("stream_missing").fill("'x'", &format!("'{stream}'"))),
        // It is for what comes in.
        Some((_, kind)) if *kind == "Inbound" => Err(fixtures.reply("stream_inbound")),
        Some(_) => Ok(recipients),
    }
}

/// A refusal as it stands in a batch's list: the code and the message alone, the inactive one in words of its
/// own.
pub(super) fn in_batch(fixtures: &Fixtures, error: &Reply) -> Value {
    let error = error.value();
    if error["ErrorCode"] != INACTIVE {
        return error;
    }
    let listed = error["Message"]
        .as_str()
        .and_then(|text| text.split_once("addresses: "))
        .map_or("", |(_, rest)| rest);
    let listed = listed.split_once(". Inactive").map_or(listed, |(addresses, _)| addresses);
    let words = fixtures.reply("batch_mixed").value()[1]["Message"].as_str().unwrap_or_default().to_owned();
    json!({ "ErrorCode": INACTIVE, "Message": words.replace("example@example.com", listed) })
}

/// All addresses of `To`, `Cc` and `Bcc`, without names.
fn recipients(item: &Value) -> Vec<String> {
    ["To", "Cc", "Bcc"]
        .iter()
        .filter_map(|name| item[*name].as_str())
        .flat_map(|list| list.split(','))
        .map(|address| bare(address.trim()).to_owned())
        .filter(|address| !address.is_empty())
        .collect()
}

/// The address in `"Name" <address>`.
pub(super) fn bare(address: &str) -> &str {
    address.rsplit_once('<').map_or(address, |(_, rest)| rest.trim_end_matches('>'))
}

/// A mailbox at a domain with a dot: as much as the fixtures show.
pub(super) fn is_address(address: &str) -> bool {
    address.split_once('@').is_some_and(|(mailbox, domain)| !mailbox.is_empty() && domain.contains('.'))
}

/// <https://postmarkapp.com/support/article/1125-custom-metadata-faq>: up to 10 fields, names of up to 20 and
/// values of up to 80 characters.
fn metadata_fits(metadata: &Value) -> bool {
    let Some(fields) = metadata.as_object() else {
        return metadata.is_null();
    };
    let fits = |(name, value): (&String, &Value)| {
        name.chars().count() <= 20 && value.as_str().is_none_or(|value| value.chars().count() <= 80)
    };
    fields.len() <= 10 && fields.iter().all(fits)
}

/// The words are composed.
fn refused(message: &str) -> Reply {
    Reply::json(422, &json!({ "ErrorCode": 300, "Message": message }))
}

/// <https://postmarkapp.com/developer/api/email-api>: of `To`, `Cc` and `Bcc` together.
const RECIPIENTS_MAX: usize = 50;

/// ErrorCode of an inactive recipient (<https://postmarkapp.com/developer/api/overview#error-codes>).
const INACTIVE: u64 = 406;
