//! The operation's key, put into a message once.
//!
//! A message of a batch carries the key with its place in the batch, so that each can be found. It carries the bare key
//! in a second field. Postmark's search takes one metadata filter, and with that field one lookup finds the whole
//! batch.

use bytes::Bytes;
use serde::Serialize;

use steadfast_core::internal::vendor::body::{self, RawObject};
use steadfast_core::{Error, Input};

use super::{Kind, MessageId};

/// The body with the key in it.
pub(super) fn stamp(kind: Kind, message_id: &MessageId, body: &[u8], key: &str) -> Result<Bytes, Error> {
    match kind {
        Kind::Single => {
            let mut message = RawObject::parse(body)?;
            stamp_message(&mut message, message_id, key, &[(KEY_FIELD, key)])?;
            message.to_bytes()
        }
        Kind::Batch => {
            let mut messages = body::parse_array(body)?;
            stamp_batch(&mut messages, message_id, key)?;
            body::to_bytes(&messages)
        }
        Kind::TemplateBatch => {
            let mut outer = RawObject::parse(body)?;
            let Some(held) = outer.get("Messages") else {
                return Err(Error::validation(Input::Body, "`Messages` is missing"));
            };
            let mut messages = body::parse_array(held.get().as_bytes())?;
            stamp_batch(&mut messages, message_id, key)?;
            outer.set("Messages", &messages)?;
            outer.to_bytes()
        }
    }
}

/// The key of the message at `index` of a batch.
pub(super) fn item_key(key: &str, index: usize) -> String {
    format!("{key}-{index}")
}

/// Letters, digits, dots and hyphens: enough for any domain, and nothing that could end the header.
pub(super) fn is_domain(text: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'.' || byte == b'-';
    !text.is_empty() && text.bytes().all(plain)
}

fn stamp_batch(messages: &mut [RawObject], message_id: &MessageId, key: &str) -> Result<(), Error> {
    for (index, message) in messages.iter_mut().enumerate() {
        let item = item_key(key, index);
        stamp_message(message, message_id, &item, &[(KEY_FIELD, &item), (BATCH_FIELD, key)])?;
    }
    Ok(())
}

fn stamp_message(
    message: &mut RawObject,
    message_id: &MessageId,
    item_key: &str,
    fields: &[(&str, &str)],
) -> Result<(), Error> {
    let mut metadata = nested(message, "Metadata")?;
    for (name, value) in fields {
        if metadata.has_ignoring_case(name) {
            return Err(Error::validation(Input::Body, format!("the metadata field `{name}` is reserved")));
        }
        metadata.set(name, value)?;
    }
    if metadata.len() > METADATA_MAX {
        let own = METADATA_MAX - fields.len();
        let problem =
            format!("Postmark takes {METADATA_MAX} metadata fields; with the key's, {own} are yours");
        return Err(Error::validation(Input::Body, problem));
    }
    message.set("Metadata", &metadata)?;
    stamp_message_id(message, message_id, item_key)
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct Header<'a> {
    name: &'a str,
    value: &'a str,
}

fn stamp_message_id(message: &mut RawObject, message_id: &MessageId, item_key: &str) -> Result<(), Error> {
    let domain = match message_id {
        MessageId::Off => return Ok(()),
        MessageId::Domain(domain) => domain.clone(),
        MessageId::SenderDomain => match message.text("From").as_deref().and_then(sender_domain) {
            Some(domain) => domain,
            None => return Ok(()),
        },
    };
    let mut headers = match message.get("Headers") {
        Some(held) if held.get() != "null" => body::parse_array(held.get().as_bytes())?,
        _ => Vec::new(),
    };
    let brings = |name: &str| {
        headers.iter().any(|header| header.text("Name").is_some_and(|held| held.eq_ignore_ascii_case(name)))
    };
    if brings("Message-ID") {
        return Ok(());
    }
    let id = format!("<{item_key}@{domain}>");
    let mut ours = vec![Header { name: "Message-ID", value: &id }];
    if !brings("X-PM-KeepID") {
        ours.push(Header { name: "X-PM-KeepID", value: "true" });
    }
    for header in ours {
        headers.push(RawObject::parse_value("Headers", &body::raw(&header)?)?);
    }
    message.set("Headers", &headers)
}

/// The object in a member that may be missing or null.
fn nested(message: &RawObject, name: &str) -> Result<RawObject, Error> {
    match message.get(name) {
        Some(held) if held.get() != "null" => RawObject::parse_value(name, held),
        _ => Ok(RawObject::default()),
    }
}

/// The domain of `"Joe" <joe@example.com>` or `joe@example.com`.
fn sender_domain(from: &str) -> Option<String> {
    let domain = from.rsplit_once('@')?.1.trim().trim_end_matches('>').trim();
    is_domain(domain).then(|| domain.to_owned())
}

/// Name of the field with the key: at most 20 characters are allowed for a name; a value may have 80, and the key with
/// a place has 40.
pub(super) const KEY_FIELD: &str = "steadfast_key";
pub(super) const BATCH_FIELD: &str = "steadfast_batch";
/// Postmark, "Custom metadata": at most 10 fields.
const METADATA_MAX: usize = 10;
