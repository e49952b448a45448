//! What Postmark accepted, and its search: late, bounded, and by one metadata field at a time
//! (<https://postmarkapp.com/developer/api/messages-api#outbound-message-search>).

use std::time::Duration;

use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use wiremock::Request;

use super::super::calendar::{eastern, parse_eastern};
use super::super::fixture::{Reply, parsed, text_of};
use super::super::serve::query;
use super::super::table::{Row, Table, Term};
use super::SecondFilter;
use super::validation::bare;
use crate::clock::Timestamp;

/// All accepted messages.
#[derive(Debug, Default)]
pub(super) struct Messages {
    held: Table<Message>,
    ids: u64,
}

/// An accepted message.
#[derive(Debug)]
pub(super) struct Message {
    accepted: Timestamp,
    shown: Box<RawValue>,
}

impl Message {
    pub(super) fn new(id: &str, item: &Value, recipients: &[String], accepted: Timestamp) -> Message {
        let to = item["To"].as_str().unwrap_or_default();
        let to: Vec<Value> =
            to.split(',').map(|address| json!({ "Email": bare(address.trim()), "Name": null })).collect();
        let metadata = if item["Metadata"].is_null() { json!({}) } else { item["Metadata"].clone() };
        let shown = json!({
            "Tag": item["Tag"].as_str().unwrap_or_default(),
            "MessageID": id,
            "MessageStream": item["MessageStream"].as_str().unwrap_or("outbound"),
            "To": to, "Cc": [], "Bcc": [],
            "Recipients": recipients,
            "ReceivedAt": eastern(accepted),
            "From": item["From"],
            "Subject": item["Subject"].as_str().unwrap_or_default(),
            "Attachments": [],
            "Status": "Sent",
            "TrackOpens": item["TrackOpens"].as_bool().unwrap_or(false),
            "TrackLinks": item["TrackLinks"].as_str().unwrap_or("None"),
            "Metadata": metadata,
            "Sandboxed": false,
        });
        Message { accepted, shown: text_of(&shown) }
    }
}

impl Row for Message {
    fn terms(&self) -> Vec<Term> {
        let shown = parsed(&self.shown);
        let metadata = shown["Metadata"].as_object().into_iter().flatten();
        metadata.filter_map(|(name, value)| Some(Term::new(name, value.as_str()?))).collect()
    }
}

impl Messages {
    /// A new message's id: a UUID, as Postmark's are, and the same in every run.
    pub(super) fn next_id(&mut self) -> String {
        self.ids += 1;
        uuid::Builder::from_custom_bytes(u128::from(self.ids).to_be_bytes()).into_uuid().to_string()
    }

    pub(super) fn add(&mut self, message: Message) {
        self.held.add(message);
    }

    pub(super) fn search(
        &self,
        request: &Request,
        now: Timestamp,
        lag: Duration,
        second: SecondFilter,
    ) -> Reply {
        let (Some(count), Some(offset)) = (number(request, "count"), number(request, "offset")) else {
            return refused("Parameters 'count' and 'offset' are required.");
        };
        if !(1..=COUNT_MAX).contains(&count) || count.saturating_add(offset) > REACH_MAX {
            return refused("Parameter 'count' may be at most 500, and 'count' plus 'offset' at most 10000.");
        }
        let mut metadata: Vec<(String, String)> = request
            .url
            .query_pairs()
            .filter_map(|(name, value)| {
                Some((name.strip_prefix("metadata_")?.to_owned(), value.into_owned()))
            })
            .collect();
        if metadata.len() > 1 {
            match second {
                SecondFilter::Ignore => metadata.truncate(1),
                SecondFilter::Refuse => return refused("Only one metadata filter is supported."),
            }
        }
        let found: Vec<&RawValue> = self
            .candidates(metadata.first())
            .filter(|message| now >= message.accepted.plus(lag) && now.since(message.accepted) <= RETENTION)
            .filter(|message| matches(message, metadata.first(), request))
            .map(|message| &*message.shown)
            .collect();
        let page = found.iter().skip(offset).take(count).copied().collect();
        Reply::json(200, &Page { messages: page, total_count: found.len() })
    }

    #[cfg(test)]
    pub(super) fn take_shown(&self) -> u64 {
        self.held.take_shown()
    }

    /// Newest first, all that may pass.
    fn candidates(&self, metadata: Option<&(String, String)>) -> Box<dyn Iterator<Item = &Message> + '_> {
        match metadata {
            Some((name, value)) => {
                Box::new(self.held.with(&[Term::new(name, value)]).rev().map(|(_, message)| message))
            }
            None => Box::new(self.held.all().rev()),
        }
    }
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct Page<'a> {
    messages: Vec<&'a RawValue>,
    total_count: usize,
}

/// Whether a message passes the filters.
fn matches(message: &Message, metadata: Option<&(String, String)>, request: &Request) -> bool {
    let value = parsed(&message.shown);
    let shown = |name: &str| value[name].as_str().unwrap_or_default();
    let equal = |parameter: &str, value: &str| query(request, parameter).is_none_or(|wanted| wanted == value);
    let stream = query(request, "messagestream").unwrap_or_else(|| "outbound".to_owned());
    let recipients = || value["Recipients"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let from = query(request, "fromdate").and_then(|text| parse_eastern(&text, false));
    let to = query(request, "todate").and_then(|text| parse_eastern(&text, true));
    metadata.is_none_or(|(name, wanted)| value["Metadata"][name] == wanted.as_str())
        && stream == shown("MessageStream")
        && equal("tag", shown("Tag"))
        && equal("subject", shown("Subject"))
        && equal("fromemail", bare(shown("From")))
        && query(request, "status").is_none_or(|wanted| wanted.eq_ignore_ascii_case(shown("Status")))
        && query(request, "recipient")
            .is_none_or(|wanted| recipients().any(|held| held.eq_ignore_ascii_case(&wanted)))
        && from.is_none_or(|from| message.accepted >= from)
        && to.is_none_or(|to| message.accepted <= to)
}

fn number(request: &Request, name: &str) -> Option<usize> {
    query(request, name)?.parse().ok()
}

/// The documentation gives the limits, not the words: these are composed.
fn refused(message: &str) -> Reply {
    Reply::json(422, &json!({ "ErrorCode": 300, "Message": message }))
}

const COUNT_MAX: usize = 500;
const REACH_MAX: usize = 10_000;
const RETENTION: Duration = Duration::from_secs(45 * 24 * 3600);
