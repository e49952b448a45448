//! Suppressions: the addresses that a stream sends nothing to
//! (<https://postmarkapp.com/developer/api/suppressions-api>).
//!
//! Each is of one message stream: by another stream a message to the same address goes out. A hard bounce suppresses,
//! and so does a request. At Postmark a request can take a minute (the wiki of ActiveCampaign/postmark-php); here it is
//! done at once.
//!
//! The answer to each address is as in the tests of Postmark's library for .NET: `ClientSuppressionTests.cs` of
//! github.com/ActiveCampaign/postmark-dotnet. An address that is not suppressed is `Deleted` there too.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use serde_json::{Value, json};
use wiremock::Request;

use steadfast_core::clock::Timestamp;
use steadfast_testkit::conformance::rfc3339;

use super::super::calendar::{eastern, parse_eastern};
use super::super::fixture::Reply;
use super::super::webhooks::Outbox;
use super::server::{SERVER, STREAMS, Server, refused, shaped};
use super::validation::is_address;
use super::{query, shapes};

#[derive(Debug, Default)]
pub(super) struct Suppressions {
    /// By stream, and by the address in lower case.
    held: BTreeMap<String, BTreeMap<String, Suppression>>,
    /// How many were added or removed.
    pub(super) changes: u64,
}

#[derive(Debug)]
struct Suppression {
    address: String,
    reason: &'static str,
    origin: &'static str,
    at: Timestamp,
}

impl Suppression {
    fn shown(&self) -> Value {
        // In the examples of this page a time has no fraction.
        let at = eastern(self.at);
        let (seconds, rest) = at.split_once('.').unwrap_or((at.as_str(), ""));
        let zone = rest.trim_start_matches(|letter: char| letter.is_ascii_digit());
        json!({
            "EmailAddress": self.address, "SuppressionReason": self.reason, "Origin": self.origin,
            "CreatedAt": format!("{seconds}{zone}"),
        })
    }
}

impl Suppressions {
    /// Whether a stream sends nothing to this address.
    pub(super) fn has(&self, stream: &str, address: &str) -> bool {
        self.held.get(stream).is_some_and(|of| of.contains_key(&address.to_lowercase()))
    }

    /// After a hard bounce. `false` if the address was suppressed before.
    pub(super) fn bounce(&mut self, stream: &str, address: &str, at: Timestamp) -> bool {
        self.add(stream, address, "HardBounce", "Recipient", at)
    }

    fn add(
        &mut self,
        stream: &str,
        address: &str,
        reason: &'static str,
        origin: &'static str,
        at: Timestamp,
    ) -> bool {
        match self.held.entry(stream.to_owned()).or_default().entry(address.to_lowercase()) {
            Entry::Occupied(_) => false,
            Entry::Vacant(free) => {
                free.insert(Suppression { address: address.to_owned(), reason, origin, at });
                self.changes += 1;
                true
            }
        }
    }

    /// `false` if the address was not suppressed.
    fn remove(&mut self, stream: &str, address: &str) -> bool {
        let removed = self.held.get_mut(stream).and_then(|of| of.remove(&address.to_lowercase()));
        self.changes += u64::from(removed.is_some());
        removed.is_some()
    }

    /// All of a stream that pass the filters. The words about a filter are those of the list of error codes
    /// (<https://postmarkapp.com/developer/api/overview#error-codes>). Those about a page are composed.
    fn dump(&self, stream: &str, request: &Request) -> Result<Reply, Reply> {
        let one_of = |name: &str, words: &[&str], code: u64| {
            let given = query(request, name);
            let is_known = |text: &String| words.iter().any(|word| word.eq_ignore_ascii_case(text));
            if given.as_ref().is_none_or(is_known) {
                Ok(given)
            } else {
                Err(refused(code, &format!("Parameter `{name}` is invalid.")))
            }
        };
        let reason = one_of("SuppressionReason", &REASONS, 1404)?;
        let origin = one_of("Origin", &ORIGINS, 1405)?;
        let address = query(request, "EmailAddress");
        let date = |name: &str, end: bool| query(request, name).and_then(|text| parse_eastern(&text, end));
        let (from, to) = (date("fromdate", false), date("todate", true));
        let is = |wanted: &Option<String>, held: &str| {
            wanted.as_ref().is_none_or(|wanted| wanted.eq_ignore_ascii_case(held))
        };
        let passes = |one: &&Suppression| {
            is(&reason, one.reason)
                && is(&origin, one.origin)
                && is(&address, &one.address)
                && from.is_none_or(|from| one.at >= from)
                && to.is_none_or(|to| one.at <= to)
        };
        let all = self.held.get(stream).into_iter().flat_map(BTreeMap::values);
        let shown: Vec<Value> = all.filter(passes).map(Suppression::shown).collect();
        // Postmark's library for JavaScript asks for a page. The documentation has none: only a page of all is known.
        let number = |name: &str| query(request, name).and_then(|text| text.parse::<usize>().ok());
        if number("count").is_some_and(|count| count < shown.len()) {
            let message = "Parameter `count` is less than there are: the fake gives no page of this list.";
            return Err(refused(1400, message));
        }
        if number("offset").is_some_and(|offset| offset > 0) {
            let message = "Parameter `offset` is not 0: the fake gives no page of this list.";
            return Err(refused(1402, message));
        }
        Ok(Reply::json(200, &json!({ "Suppressions": shown })))
    }
}

impl Server {
    /// The answer on a route below a stream's suppressions, `what`; `None` if there is no such route.
    pub(super) fn suppressions(
        &mut self,
        request: &Request,
        (stream, what): (&str, &str),
        body: Option<&Value>,
        outbox: &Outbox,
        now: Timestamp,
    ) -> Option<Reply> {
        let told = match (request.method.as_str(), what) {
            ("GET", "dump") => has_list(stream).and_then(|()| self.suppressed.dump(stream, request)),
            ("POST", "" | "delete") => has_list(stream).and_then(|()| {
                let deletes = what == "delete";
                self.change_suppressions(stream, deletes, body, outbox, now)
            }),
            _ => return None,
        };
        Some(told.unwrap_or_else(|refusal| refusal))
    }

    fn change_suppressions(
        &mut self,
        stream: &str,
        deletes: bool,
        body: Option<&Value>,
        outbox: &Outbox,
        now: Timestamp,
    ) -> Result<Reply, Reply> {
        let no_body = || refused(1409, "A proper request body must be provided.");
        let body = body.ok_or_else(no_body)?;
        shaped(shapes::SUPPRESSIONS, body)?;
        let mut told: Vec<Value> = Vec::new();
        let listed = body["Suppressions"].as_array().ok_or_else(no_body)?;
        if listed.len() > CHANGES_MAX {
            let message = "You cannot provide more than the maximum number of suppressions for this request.";
            return Err(refused(1410, message));
        }
        for one in listed {
            let address = one["EmailAddress"].as_str().unwrap_or_default();
            // With a name before it, it is no address.
            let (status, message) = if !is_address(address) || address.contains(['<', ' ']) {
                ("Failed", Some("An invalid email address was provided."))
            } else if deletes {
                self.delete_suppression(stream, address, outbox, now);
                ("Deleted", None)
            } else {
                if self.suppressed.add(stream, address, "ManualSuppression", "Customer", now) {
                    self.tell(outbox, &by_request(stream, address, Some("ManualSuppression"), now));
                }
                ("Suppressed", None)
            };
            told.push(json!({ "EmailAddress": address, "Status": status, "Message": message }));
        }
        Ok(Reply::json(200, &json!({ "Suppressions": told })))
    }

    /// "Deleting a HardBounce suppression is the equivalent of reactivating the associated Bounce."
    fn delete_suppression(&mut self, stream: &str, address: &str, outbox: &Outbox, now: Timestamp) {
        self.reactivate(stream, address, outbox, now);
        for bounce in self.bounces.values_mut() {
            let email = bounce.shown["Email"].as_str();
            let is_to = email.is_some_and(|email| email.eq_ignore_ascii_case(address));
            if is_to && bounce.shown["MessageStream"] == stream {
                bounce.shown["Inactive"] = Value::from(false);
            }
        }
    }

    /// Lets an address take mail of a stream again.
    pub(super) fn reactivate(&mut self, stream: &str, address: &str, outbox: &Outbox, now: Timestamp) {
        if self.suppressed.remove(stream, address) {
            self.tell(outbox, &by_request(stream, address, None, now));
        }
    }
}

/// The event that a webhook is told of an address that a hard bounce suppressed, from what it is told of the bounce
/// (<https://postmarkapp.com/developer/webhooks/subscription-change-webhook>).
pub(super) fn by_bounce(bounce: &Value, at: Timestamp) -> Value {
    json!({
        "RecordType": "SubscriptionChange", "MessageID": bounce["MessageID"], "ServerID": SERVER,
        "MessageStream": bounce["MessageStream"], "ChangedAt": rfc3339(at), "Recipient": bounce["Email"],
        "Origin": "Recipient", "SuppressSending": true, "SuppressionReason": "HardBounce", "Tag": bounce["Tag"],
        "Metadata": bounce["Metadata"],
    })
}

/// The same after a request: without a reason the address takes mail again. There is no message to tell of. The tag and
/// the metadata of a manual suppression, and the origin of a reactivation, are not documented.
fn by_request(stream: &str, address: &str, reason: Option<&str>, at: Timestamp) -> Value {
    json!({
        "RecordType": "SubscriptionChange", "MessageID": null, "ServerID": SERVER, "MessageStream": stream,
        "ChangedAt": rfc3339(at), "Recipient": address, "Origin": "Customer", "SuppressSending": reason.is_some(),
        "SuppressionReason": reason, "Tag": null, "Metadata": {},
    })
}

/// The stream of a route, and what of its suppressions the route names.
pub(super) fn of_route(route: &str) -> Option<(&str, &str)> {
    let parts: Vec<&str> = route.split('/').skip(1).collect();
    match parts[..] {
        ["message-streams", stream, "suppressions"] => Some((stream, "")),
        ["message-streams", stream, "suppressions", what] => Some((stream, what)),
        _ => None,
    }
}

/// The refusal of a stream that takes no mail, in the words of an unknown one.
fn has_list(stream: &str) -> Result<(), Reply> {
    if STREAMS.iter().any(|(known, kind)| *known == stream && *kind != "Inbound") {
        return Ok(());
    }
    Err(refused(1226, "The message stream for the provided 'ID' was not found."))
}

/// Addresses in a request (<https://postmarkapp.com/developer/api/suppressions-api>).
const CHANGES_MAX: usize = 50;

/// The filters' values, as the page lists them.
const REASONS: [&str; 3] = ["HardBounce", "SpamComplaint", "ManualSuppression"];
const ORIGINS: [&str; 3] = ["Recipient", "Customer", "Admin"];
