//! Bounces: what they tell, which of them a list shows, and how an address takes mail again
//! (<https://postmarkapp.com/developer/api/bounce-api>).

use serde_json::{Map, Value, json};
use wiremock::Request;

use steadfast_core::clock::Timestamp;

use super::super::calendar::{eastern, parse_eastern};
use super::super::fixture::Reply;
use super::super::webhooks::Outbox;
use super::query;
use super::server::{SERVER, STREAMS, Server, no_page, number, page, refused};

/// A bounce, and when it came.
#[derive(Debug)]
pub(super) struct Bounce {
    pub(super) shown: Value,
    at: Timestamp,
}

impl Server {
    /// An address that takes no more mail, and the message that found that out, if there is one: by that message's
    /// stream nothing more is sent to it. Gives what a webhook is told of it
    /// (<https://postmarkapp.com/developer/webhooks/bounce-webhook>), and nothing if that was so before.
    pub(super) fn bounce(&mut self, address: &str, message: Option<&Value>, at: Timestamp) -> Option<Value> {
        let message = message.unwrap_or(&Value::Null);
        let stream = message["MessageStream"].as_str().unwrap_or(STREAMS[0].0);
        if !self.suppressed.bounce(stream, address, at) {
            return None;
        }
        let id = self.next_id();
        let text = |name: &str| message[name].as_str().unwrap_or_default();
        let bounce = json!({
            "RecordType": "Bounce", "ID": id, "Type": "HardBounce", "TypeCode": 1, "Name": "Hard bounce",
            "Tag": text("Tag"), "MessageID": message["MessageID"].as_str().unwrap_or(NO_MESSAGE), "ServerID": SERVER,
            "Description": "The server was unable to deliver your message (ex: unknown user, mailbox not found).",
            "Details": "", "Email": address, "From": text("From"), "BouncedAt": eastern(at), "DumpAvailable": false,
            "Inactive": true, "CanActivate": true, "Subject": text("Subject"),
            "MessageStream": stream,
        });
        self.bounces.insert(id, Bounce { shown: bounce.clone(), at });
        let mut told = bounce;
        told["Metadata"] =
            if message["Metadata"].is_object() { message["Metadata"].clone() } else { json!({}) };
        Some(told)
    }

    /// Lets an address take mail of the bounce's stream again.
    pub(super) fn activate(&mut self, id: &str, outbox: &Outbox, now: Timestamp) -> Result<Reply, Reply> {
        let bounce = self.bounces.get_mut(&number(id));
        let bounce = &mut bounce.ok_or_else(no_bounce)?.shown;
        // Composed: what an active address gets is not documented. The code is the only one of an activation. In the list
        // it is of a bounce whose type does not let its address be reactivated.
        if bounce["Inactive"] == false {
            return Err(refused(1003, "The bounce cannot be activated: its address is active."));
        }
        bounce["Inactive"] = Value::from(false);
        let bounce = bounce.clone();
        let text = |name: &str| bounce[name].as_str().unwrap_or_default();
        self.reactivate(text("MessageStream"), text("Email"), outbox, now);
        Ok(Reply::json(200, &json!({ "Message": "OK", "Bounce": bounce })))
    }

    /// Newest first.
    pub(super) fn bounces(&self, request: &Request) -> Reply {
        let Some((count, offset)) = page(request) else { return no_page(request) };
        let equal = |parameter: &str, held: &Value| {
            query(request, parameter).is_none_or(|wanted| {
                held.as_str().map_or_else(|| held.to_string(), str::to_owned).eq_ignore_ascii_case(&wanted)
            })
        };
        let date = |name: &str, end: bool| query(request, name).and_then(|text| parse_eastern(&text, end));
        let (from, to) = (date("fromdate", false), date("todate", true));
        let stream = query(request, "messagestream").unwrap_or_else(|| STREAMS[0].0.to_owned());
        // "Only bounces whose recipient address contains the provided string" (developer.postmarkapp.com).
        let part = query(request, "emailfilter").map(|part| part.to_lowercase());
        let passes = |bounce: &&Bounce| {
            let shown = &bounce.shown;
            let names =
                [("type", "Type"), ("inactive", "Inactive"), ("tag", "Tag"), ("messageid", "MessageID")];
            names.iter().all(|(parameter, member)| equal(parameter, &shown[*member]))
                && part.as_ref().is_none_or(|part| {
                    shown["Email"].as_str().is_some_and(|email| email.to_lowercase().contains(part))
                })
                && shown["MessageStream"] == stream.as_str()
                && from.is_none_or(|from| bounce.at >= from)
                && to.is_none_or(|to| bounce.at <= to)
        };
        let found: Vec<&Value> =
            self.bounces.values().rev().filter(passes).map(|bounce| &bounce.shown).collect();
        let shown: Vec<&&Value> = found.iter().skip(offset).take(count).collect();
        Reply::json(200, &json!({ "TotalCount": found.len(), "Bounces": shown }))
    }

    pub(super) fn delivery_statistics(&self) -> Reply {
        let inactive = self.bounces.values().filter(|bounce| bounce.shown["Inactive"] == true).count();
        let counts = [("All", None), ("Hard bounce", Some("HardBounce"))].map(|(name, kind)| {
            let mut metric = Map::new();
            metric.insert("Name".to_owned(), Value::from(name));
            metric.insert("Count".to_owned(), Value::from(self.bounces.len()));
            metric.extend(kind.map(|kind| ("Type".to_owned(), Value::from(kind))));
            metric
        });
        Reply::json(200, &json!({ "InactiveMails": inactive, "Bounces": counts }))
    }
}

pub(super) fn no_bounce() -> Reply {
    refused(1001, "The bounce was not found.")
}

/// Of a bounce that no message of the fake's led to.
const NO_MESSAGE: &str = "00000000-0000-0000-0000-000000000000";
