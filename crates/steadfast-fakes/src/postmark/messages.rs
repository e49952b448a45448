//! The messages that Postmark accepted, and its search: late, bounded, and by one metadata field at a time
//! (<https://postmarkapp.com/developer/api/messages-api#outbound-message-search>).

use std::time::Duration;

use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use wiremock::Request;

use steadfast_core::clock::Timestamp;

use super::super::calendar::eastern;
use super::super::fixture::{Reply, parsed, text_of};
use super::super::serve::shows;
use super::super::table::{Row, Table, Term};
use super::questions::code_of;
use super::search::Asked;
use super::template::render;
use super::validation::{addresses, bare};
use super::words::{Word, Words};
use super::{SecondFilter, query};

/// All accepted messages.
#[derive(Debug, Default)]
pub(super) struct Messages {
    held: Table<Message>,
    pub(super) words: Words,
    ids: u64,
}

/// An accepted message.
#[derive(Debug)]
pub(super) struct Message {
    id: String,
    pub(super) accepted: Timestamp,
    pub(super) shown: Box<RawValue>,
    /// The bodies that only the message's own page shows.
    bodies: Box<RawValue>,
    /// The RFC's `Message-ID` that it went out with, where it is not Postmark's own.
    pub(super) message_id: Option<Box<str>>,
    pub(super) filtered: Filtered,
}

/// The fields that the search looks at. Beside the text, and as numbers: a search that had to take a hundred thousand
/// texts apart, or to compare them, would be slow.
#[derive(Debug)]
pub(super) struct Filtered {
    pub(super) stream: Word,
    pub(super) tag: Word,
    pub(super) subject: Word,
    pub(super) from: Word,
    pub(super) recipients: Box<[String]>,
}

impl Message {
    pub(super) fn new(
        id: &str,
        item: &Value,
        template: Option<&Value>,
        recipients: &[String],
        server: &Value,
        accepted: Timestamp,
        words: &mut Words,
    ) -> Message {
        let listed = |name: &str| -> Vec<Value> {
            addresses(item[name].as_str().unwrap_or_default()).map(mailbox).collect()
        };
        let metadata = if item["Metadata"].is_null() { json!({}) } else { item["Metadata"].clone() };
        let rendered = |name: &str| match template {
            Some(template) => render(template[name].as_str().unwrap_or_default(), &item["TemplateModel"]),
            None => item[name].as_str().unwrap_or_default().to_owned(),
        };
        // The server's own where a message does not say it.
        let tracks = |name: &str| if item[name].is_null() { &server[name] } else { &item[name] };
        let names = item["Attachments"].as_array().into_iter().flatten().map(|one| one["Name"].clone());
        let shown = json!({
            "Tag": item["Tag"].as_str().unwrap_or_default(),
            "MessageID": id,
            "MessageStream": item["MessageStream"].as_str().unwrap_or("outbound"),
            "To": listed("To"), "Cc": listed("Cc"), "Bcc": listed("Bcc"),
            "Recipients": recipients,
            "ReceivedAt": eastern(accepted),
            "From": item["From"],
            "Subject": rendered("Subject"),
            "Attachments": names.collect::<Vec<_>>(),
            "Status": SENT,
            "TrackOpens": tracks("TrackOpens"),
            "TrackLinks": tracks("TrackLinks"),
            "Metadata": metadata,
            "Sandboxed": false,
        });
        let bodies = json!({ "TextBody": rendered("TextBody"), "HtmlBody": rendered("HtmlBody") });
        let text = |name: &str| shown[name].as_str().unwrap_or_default();
        let filtered = Filtered {
            stream: words.keep(text("MessageStream")),
            tag: words.keep(text("Tag")),
            subject: words.keep(text("Subject")),
            from: words.keep(bare(text("From"))),
            recipients: recipients.into(),
        };
        Message {
            id: id.to_owned(),
            accepted,
            shown: text_of(&shown),
            bodies: text_of(&bodies),
            message_id: None,
            filtered,
        }
    }

    /// As its own page shows it.
    fn details(&self) -> Value {
        let (mut details, bodies) = (parsed(&self.shown), parsed(&self.bodies));
        let recipients = details["Recipients"].as_array().cloned().unwrap_or_default();
        let event = |recipient: &Value| {
            json!({ "Recipient": recipient, "Type": "Delivered", "ReceivedAt": details["ReceivedAt"],
                "Details": { "DeliveryMessage": "smtp;250 2.0.0 OK", "DestinationServer": "fake", "DestinationIP": "127.0.0.1" } })
        };
        let events: Vec<Value> = recipients.iter().map(event).collect();
        details["MessageEvents"] = Value::from(events);
        details["Body"] = Value::from(self.dump());
        for name in ["TextBody", "HtmlBody"] {
            details[name] = bodies[name].clone();
        }
        details
    }

    /// As it went out, as far as the fake writes mail.
    fn dump(&self) -> String {
        let (shown, bodies) = (parsed(&self.shown), parsed(&self.bodies));
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let to: Vec<String> =
            shown["To"].as_array().into_iter().flatten().map(|to| text(&to["Email"])).collect();
        let own = || format!("<{}@mtasv.net>", self.id);
        let message_id = self.message_id.as_deref().map_or_else(own, str::to_owned);
        format!(
            "From: {}\r\nTo: {}\r\nSubject: {}\r\nMessage-ID: {message_id}\r\n\r\n{}{}",
            text(&shown["From"]),
            to.join(", "),
            text(&shown["Subject"]),
            text(&bodies["TextBody"]),
            text(&bodies["HtmlBody"])
        )
    }

    /// The event that a webhook is told of its delivery
    /// (<https://postmarkapp.com/developer/webhooks/delivery-webhook>).
    pub(super) fn delivery(&self, recipient: &str) -> Value {
        let shown = parsed(&self.shown);
        json!({
            "RecordType": "Delivery", "ServerID": 1, "MessageStream": shown["MessageStream"], "MessageID": self.id,
            "Recipient": recipient, "Tag": shown["Tag"], "DeliveredAt": shown["ReceivedAt"], "Details": "Test delivery",
            "Metadata": shown["Metadata"],
        })
    }
}

/// `Name <address>`, taken apart.
fn mailbox(written: &str) -> Value {
    let name = written.rsplit_once('<').map(|(name, _)| name.trim().trim_matches('"'));
    json!({ "Email": bare(written), "Name": name.filter(|name| !name.is_empty()) })
}

impl Row for Message {
    fn terms(&self) -> Vec<Term> {
        let shown = parsed(&self.shown);
        let metadata = shown["Metadata"].as_object().into_iter().flatten();
        let metadata = metadata.filter_map(|(name, value)| Some(Term::new(name, value.as_str()?)));
        let recipients = shown["Recipients"].as_array().into_iter().flatten().filter_map(Value::as_str);
        let recipients = recipients.map(|address| Term::new("recipient", address.to_ascii_lowercase()));
        let text = |name: &str| shown[name].as_str().map(str::to_owned);
        let tag = text("Tag").filter(|tag| !tag.is_empty()).map(|tag| Term::new("tag", tag));
        let subject = text("Subject").map(|subject| Term::new("subject", subject));
        metadata
            .chain(recipients)
            .chain(tag)
            .chain(subject)
            .chain([Term::new("MessageID", &self.id)])
            .collect()
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

    /// The newest message to this address, as it is shown.
    pub(super) fn newest_to(&self, address: &str) -> Option<Value> {
        let term = Term::new("recipient", address.to_ascii_lowercase());
        let is_to = |message: &Message| {
            message.filtered.recipients.iter().any(|held| held.eq_ignore_ascii_case(address))
        };
        let mut found = self.held.with(&[term]).filter(|(_, message)| is_to(message));
        found.next_back().map(|(_, message)| parsed(&message.shown))
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
        let asked = Asked::of(request, &self.words);
        let found: Vec<&RawValue> = self
            .candidates(metadata.first(), &asked)
            .filter(|message| shows(message.accepted, now, lag) && now.since(message.accepted) <= RETENTION)
            .filter(|message| asked.matches(message, metadata.first()))
            .map(|message| &*message.shown)
            .collect();
        let page = found.iter().skip(offset).take(count).copied().collect();
        Reply::json(200, &Page { messages: page, total_count: found.len() })
    }

    /// `{id}/details` or `{id}/dump`.
    pub(super) fn one(&self, rest: &str, now: Timestamp, lag: Duration) -> Option<Reply> {
        let (id, what) = rest.split_once('/')?;
        let mut found = self.held.with(&[Term::new("MessageID", id)]).map(|(_, message)| message);
        let message = found.find(|message| message.id == id && shows(message.accepted, now, lag));
        let none =
            || Reply::json(422, &json!({ "ErrorCode": 701, "Message": "This message does not exist." }));
        match what {
            "details" => Some(message.map_or_else(none, |message| Reply::json(200, &message.details()))),
            "dump" => Some(
                message.map_or_else(none, |message| Reply::json(200, &json!({ "Body": message.dump() }))),
            ),
            _ => None,
        }
    }

    #[cfg(test)]
    pub(super) fn take_shown(&self) -> u64 {
        self.held.take_shown()
    }

    /// Newest first, all that may pass.
    fn candidates(
        &self,
        metadata: Option<&(String, String)>,
        asked: &Asked,
    ) -> Box<dyn Iterator<Item = &Message> + '_> {
        let term = metadata.map(|(name, value)| Term::new(name, value)).or(asked.term);
        match term {
            Some(term) => Box::new(self.held.under(term, 0, u64::MAX).rev().map(|(_, message)| message)),
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

fn number(request: &Request, name: &str) -> Option<usize> {
    query(request, name)?.parse().ok()
}

/// The documentation gives the code and the limits, not the words: these are composed.
fn refused(message: &str) -> Reply {
    Reply::json(422, &json!({ "ErrorCode": code_of("messages"), "Message": message }))
}

/// The status of every message here.
pub(super) const SENT: &str = "Sent";
const COUNT_MAX: usize = 500;
const REACH_MAX: usize = 10_000;
const RETENTION: Duration = Duration::from_secs(45 * 24 * 3600);
