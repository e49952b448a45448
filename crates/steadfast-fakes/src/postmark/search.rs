//! The filters of a search of messages, beside their metadata.

use wiremock::Request;

use steadfast_core::clock::Timestamp;

use super::super::calendar::parse_eastern;
use super::super::fixture::parsed;
use super::super::table::Term;
use super::messages::{Message, SENT};
use super::query;
use super::words::{Word, Words};

/// The filters of a search.
pub(super) struct Asked {
    stream: Word,
    tag: Option<Word>,
    subject: Option<Word>,
    from_email: Option<Word>,
    status: Option<String>,
    recipient: Option<String>,
    from: Option<Timestamp>,
    to: Option<Timestamp>,
    /// The term that all messages that pass are found under.
    pub(super) term: Option<Term>,
}

impl Asked {
    pub(super) fn of(request: &Request, words: &Words) -> Asked {
        let text = |name: &str| query(request, name);
        let word = |name: &str| text(name).map(|text| words.find(&text));
        let recipient = text("recipient").map(|address| address.to_ascii_lowercase());
        let under = |name: &str| text(name).map(|text| Term::new(name, text));
        Asked {
            stream: word("messagestream").unwrap_or_else(|| words.find("outbound")),
            tag: word("tag"),
            subject: word("subject"),
            from_email: word("fromemail"),
            status: text("status"),
            from: text("fromdate").and_then(|text| parse_eastern(&text, false)),
            to: text("todate").and_then(|text| parse_eastern(&text, true)),
            term: recipient
                .as_ref()
                .map(|address| Term::new("recipient", address))
                .or_else(|| under("tag"))
                .or_else(|| under("subject")),
            recipient,
        }
    }

    /// Whether a message passes the filters.
    pub(super) fn matches(&self, message: &Message, metadata: Option<&(String, String)>) -> bool {
        let held = &message.filtered;
        let equal = |wanted: Option<Word>, held: Word| wanted.is_none_or(|wanted| wanted == held);
        self.stream == held.stream
            && equal(self.tag, held.tag)
            && equal(self.subject, held.subject)
            && equal(self.from_email, held.from)
            && self.status.as_ref().is_none_or(|wanted| wanted.eq_ignore_ascii_case(SENT))
            && self
                .recipient
                .as_ref()
                .is_none_or(|wanted| held.recipients.iter().any(|held| held.eq_ignore_ascii_case(wanted)))
            && self.from.is_none_or(|from| message.accepted >= from)
            && self.to.is_none_or(|to| message.accepted <= to)
            && metadata
                .is_none_or(|(name, wanted)| parsed(&message.shown)["Metadata"][name] == wanted.as_str())
    }
}
