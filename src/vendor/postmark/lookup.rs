//! Finding a message by the metadata that it was sent with.

use http::{Method, StatusCode};
use serde_json::{Value, json};

use steadfast_core::internal::vendor::body::{self, reconciled};
use steadfast_core::internal::vendor::date;
use steadfast_core::transport::{Answer, Request};
use steadfast_core::vendor::{BaseUrl, Finding, Subject};

use super::{Kind, same, stamp};

/// The search for a stamped message, or for all the messages of a batch.
///
/// `None` if the batch's messages go to several streams: one search covers one stream.
pub(super) fn request(base: &BaseUrl, kind: Kind, subject: &Subject<'_>) -> Option<Request> {
    let messages = messages(kind, subject.request)?;
    let stream_of = |message: &Value| {
        let named = message.get("MessageStream").and_then(Value::as_str).filter(|name| !name.is_empty());
        named.unwrap_or(DEFAULT_STREAM).to_owned()
    };
    let stream = stream_of(messages.first()?);
    if messages.iter().any(|message| stream_of(message) != stream) {
        return None;
    }
    let filter = match kind {
        Kind::Single => format!("metadata_{}", stamp::KEY_FIELD),
        Kind::Batch | Kind::TemplateBatch => format!("metadata_{}", stamp::BATCH_FIELD),
    };
    let query = [
        ("count", COUNT_MAX),
        ("offset", "0"),
        (filter.as_str(), subject.wire_key),
        ("messagestream", stream.as_str()),
    ];
    Some(Request::new(Method::GET, base.at("/messages/outbound", &query)))
}

/// Reads the search's answer. A hit counts only if the message itself carries our key: then a filter that was ignored
/// finds nothing. It must be the message that was sent: to whom, from whom, about what. And it must have been received
/// after the operation's claim: the key's previous life had the same wire key and may have sent its own message. A miss
/// is never proof: the lag is undocumented, and messages are kept for 45 days.
pub(super) fn read(kind: Kind, subject: &Subject<'_>, answer: &Answer) -> Finding {
    if answer.status != StatusCode::OK {
        return Finding::Unanswered;
    }
    let Some(found) = answer.json() else { return Finding::Unanswered };
    let Some(hits) = found.get("Messages").and_then(Value::as_array) else { return Finding::Unanswered };
    let is_ours = |hit: &Value, key: &str, message: &Value| {
        let received = hit["ReceivedAt"].as_str().and_then(date::rfc3339);
        hit["Metadata"][stamp::KEY_FIELD].as_str() == Some(key)
            && received.and_then(|at| subject.is_older(at)) == Some(false)
            && same::is_what_was_sent(message, hit)
    };
    let hit =
        |key: &str, message: &Value| hits.iter().find(|hit| is_ours(hit, key, message)).map(send_result);
    let messages = messages(kind, subject.request).unwrap_or_default();
    let body = match (kind, messages.as_slice()) {
        (Kind::Single, [message]) => hit(subject.wire_key, message),
        (Kind::Single, _) | (_, []) => None,
        (Kind::Batch | Kind::TemplateBatch, messages) => {
            let of_item =
                |(index, message): (usize, &Value)| hit(&stamp::item_key(subject.wire_key, index), message);
            messages.iter().enumerate().map(of_item).collect::<Option<Vec<_>>>().map(Value::Array)
        }
    };
    match body {
        Some(body) => Finding::Found(reconciled(StatusCode::OK, body.to_string())),
        None => Finding::CannotTell,
    }
}

/// A hit in the shape of the answer to a send. `To` is a list there and one text here.
fn send_result(hit: &Value) -> Value {
    let recipients = hit["To"].as_array().map(Vec::as_slice).unwrap_or_default();
    let to: Vec<&str> = recipients.iter().filter_map(|recipient| recipient["Email"].as_str()).collect();
    json!({
        "To": to.join(", "),
        "SubmittedAt": hit["ReceivedAt"],
        "MessageID": hit["MessageID"],
        "ErrorCode": 0,
        "Message": "OK",
    })
}

/// The messages in a request's body.
pub(super) fn messages(kind: Kind, request: &Request) -> Option<Vec<Value>> {
    match (kind, body::json(&request.body)?) {
        (Kind::Single, message) => Some(vec![message]),
        (Kind::Batch, Value::Array(messages)) => Some(messages),
        (Kind::TemplateBatch, mut outer) => match outer.get_mut("Messages")?.take() {
            Value::Array(messages) => Some(messages),
            _ => None,
        },
        _ => None,
    }
}

const DEFAULT_STREAM: &str = "outbound";
/// The largest page of the search, and the largest batch.
const COUNT_MAX: &str = "500";
