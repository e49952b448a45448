//! The mistakes in a message that Postmark refuses, in its own words.

use serde_json::{Value, json};

use super::super::fixture::{Fixtures, Reply};
use super::server::{self, STREAMS};
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
    fits(item)?;
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
        .flat_map(addresses)
        .map(|address| if is_closed(address) { bare(address) } else { address })
        .map(str::to_owned)
        .collect()
}

/// Whether each quote of an address has its end.
fn is_closed(address: &str) -> bool {
    address.replace("\\\"", "").matches('"').count().is_multiple_of(2)
}

/// The addresses of a list, with their names. A name in quotes may have a comma (RFC 5322, section 3.4).
pub(super) fn addresses(list: &str) -> impl Iterator<Item = &str> {
    let (mut is_quoted, mut is_escaped) = (false, false);
    let parts = list.split(move |char| {
        let ends = char == ',' && !is_quoted;
        is_quoted ^= char == '"' && !is_escaped;
        is_escaped = char == '\\' && is_quoted && !is_escaped;
        ends
    });
    parts.map(str::trim).filter(|address| !address.is_empty())
}

/// The address in `"Name" <address>`.
pub(super) fn bare(address: &str) -> &str {
    address.rsplit_once('<').map_or(address, |(_, rest)| rest.trim_end_matches('>'))
}

/// A mailbox at a domain with a dot: as much as the fixtures show.
pub(super) fn is_address(address: &str) -> bool {
    let parts = address.split_once('@').filter(|_| !address.contains(['"', '<', '>', ' ']));
    parts.is_some_and(|(mailbox, domain)| !mailbox.is_empty() && domain.contains('.'))
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

/// That a message is not too long, nor a tag, and that no attachment is of a kind that Postmark does not send
/// (<https://postmarkapp.com/support/article/1056-what-are-the-attachment-and-email-size-limits>). "We calculate the size of
/// the email after it has been base64 encoded": here it is that of the bodies and of the attachments as they are sent.
fn fits(item: &Value) -> Result<(), Reply> {
    let text = |value: &Value| value.as_str().map_or(0, str::len);
    let attachments = || item["Attachments"].as_array().into_iter().flatten();
    if item["Tag"].as_str().is_some_and(|tag| tag.chars().count() > TAG_LEN_MAX) {
        return Err(refused(&format!("A tag can have at most {TAG_LEN_MAX} characters.")));
    }
    let bodies = ["TextBody", "HtmlBody"].map(|name| text(&item[name]));
    if bodies.iter().any(|body| *body > BODY_BYTES_MAX) {
        return Err(refused("The TextBody and the HtmlBody of a message can have at most 5 MB each."));
    }
    let whole = attachments().map(|one| text(&one["Content"])).chain(bodies).sum::<usize>();
    if whole > MESSAGE_BYTES_MAX {
        return Err(refused("A message can have at most 10 MB with its attachments."));
    }
    let extension = |name: &str| name.rsplit_once('.').map(|(_, extension)| extension.to_ascii_lowercase());
    let is_forbidden = |name: &&str| extension(name).is_some_and(|kind| FORBIDDEN.contains(&kind.as_str()));
    match attachments().filter_map(|one| one["Name"].as_str()).find(is_forbidden) {
        Some(name) => {
            Err(server::refused(411, &format!("The file type of the attachment '{name}' is not allowed.")))
        }
        None => Ok(()),
    }
}

/// The words are composed.
fn refused(message: &str) -> Reply {
    server::refused(300, message)
}

/// <https://postmarkapp.com/developer/api/email-api>: of `To`, `Cc` and `Bcc` together.
const RECIPIENTS_MAX: usize = 50;

/// `Tag` of <https://postmarkapp.com/developer/user-guide/send-email-with-api>.
const TAG_LEN_MAX: usize = 1000;
const BODY_BYTES_MAX: usize = 5 * 1024 * 1024;
const MESSAGE_BYTES_MAX: usize = 10 * 1024 * 1024;
/// "Forbidden File Types" of <https://postmarkapp.com/developer/user-guide/send-email-with-api>.
const FORBIDDEN: [&str; 31] = [
    "vbs", "exe", "bin", "bat", "chm", "com", "cpl", "crt", "hlp", "hta", "inf", "ins", "isp", "jse", "lnk",
    "mdb", "pcd", "pif", "reg", "scr", "sct", "shs", "vbe", "vba", "wsf", "wsh", "wsl", "msc", "msi", "msp",
    "mst",
];

/// ErrorCode of an inactive recipient (<https://postmarkapp.com/developer/api/overview#error-codes>).
const INACTIVE: u64 = 406;
