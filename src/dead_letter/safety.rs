//! The risk of a second effect by a redrive, by the vendor's own rules.
//!
//! The engine asks the same rule when it sends, and may find a window closed by then. It is asked here too because an
//! operator must know before, and because only a person may take the risk.

use std::borrow::Cow;
use std::fmt;

use steadfast_core::Effect;
use steadfast_core::clock::Timestamp;
use steadfast_core::internal::ext::RecordResendExt;
use steadfast_core::internal::operation::{
    Facts, Lookup, Repeat, Ruling, Sent, Why, Window, may_send, window,
};
use steadfast_core::operation::Scope;
use steadfast_core::operation::record::{Record, Resolution};
use steadfast_core::transport::Request;
use steadfast_core::vendor::Subject;

use super::DeadLetters;
use crate::client::Client;

/// Reason for which a redrive is safe, or is not.
///
/// ```
#[doc = include_str!("../docs/setup/dead_letters.md")]
/// use steadfast::dead_letter::Safety;
///
/// let id = letters.find("order-42/receipt").await?;
/// let shown = letters.show(&id).await?;
/// // Postmark answered 429: no mail was sent.
/// assert_eq!(shown.safety, Some(Safety::NotApplied));
/// assert!(Safety::NotApplied.is_safe() && !Safety::Unsafe.is_safe());
#[doc = include_str!("../docs/setup/end.md")]
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Safety {
    /// No attempt took effect, or a person says so.
    NotApplied,
    /// The vendor lets the request be repeated: another send is no second effect. It may still undo what was written since: see
    /// [`Change::overwrite`](super::Change::overwrite).
    Repeatable,
    /// The vendor still answers the key from its own record.
    WindowOpen {
        /// End of the replay window.
        until: Timestamp,
    },
    /// The operation is looked up before anything is sent. Where the lookup cannot prove an absence, such as
    /// Postmark's, it ends dead again and nothing is sent.
    Lookup,
    /// No rule makes it safe.
    Unsafe,
    /// The vendor's rules are not known.
    NoRules,
}

impl Safety {
    /// A stable text for programs.
    pub const fn name(self) -> &'static str {
        match self {
            Safety::NotApplied => "not_applied",
            Safety::Repeatable => "repeatable",
            Safety::WindowOpen { .. } => "window_open",
            Safety::Lookup => "lookup",
            Safety::Unsafe => "unsafe",
            Safety::NoRules => "no_rules",
        }
    }

    /// Whether a redrive needs no force.
    pub const fn is_safe(self) -> bool {
        !matches!(self, Safety::Unsafe | Safety::NoRules)
    }
}

impl fmt::Display for Safety {
    /// Writes the reason for people: why it is safe, or which condition is missing.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Safety::NotApplied => f.write_str("it did not take effect"),
            Safety::Repeatable => f.write_str("its method is idempotent: a repeat is no second effect"),
            Safety::WindowOpen { until } => write!(f, "the vendor replays its key until {until}"),
            Safety::Lookup => f.write_str(
                "it is looked up first, and sent only if that proves that it did not take effect; else it is dead again",
            ),
            Safety::Unsafe => f.write_str("whether it took effect is not known"),
            Safety::NoRules => f.write_str("the vendor's rules are not known; name a vendors file with this operation's namespace, vendor and account"),
        }
    }
}

impl DeadLetters {
    pub(super) fn safety(&self, record: &Record) -> Safety {
        let said_not_applied =
            record.resolved.as_ref().is_some_and(|said| said.resolution == Resolution::NotApplied);
        let client = self.rules(record);
        let ruling = may_send(&Facts {
            effect: if said_not_applied { Effect::None } else { record.effect },
            repeat: repeat(record, client),
            window: client.map_or(Window::None, |client| self.window(record, client)),
            lookup: client.map_or(Lookup::None, |client| lookup(record, client)),
            // Whether a person takes the risk is asked next.
            resends_left: 0,
        });
        match ruling {
            Ruling::Send(Why::NotApplied | Why::ProvenAbsent) => Safety::NotApplied,
            Ruling::Send(Why::Repeatable) => Safety::Repeatable,
            Ruling::Send(Why::WindowOpen { until }) => Safety::WindowOpen { until },
            Ruling::LookupFirst => Safety::Lookup,
            Ruling::SendAtRisk | Ruling::Stop(_) if client.is_none() => Safety::NoRules,
            Ruling::SendAtRisk | Ruling::Stop(_) => Safety::Unsafe,
        }
    }

    /// Returns the window as the client's engine will find it that sends the letter: its longest attempt counts.
    fn window(&self, record: &Record, client: &Client) -> Window {
        let attempt_max = client.policy().timeout.attempt.max(record.attempt_max);
        let sent = Sent { attempt_max, ..record.sent(self.now(), None) };
        window(client.engine.vendor.replay_window(&as_sent(record, client)), &sent)
    }

    /// Whether the client whose vendor this is would not send it, because it was recorded for another host.
    pub(super) fn is_elsewhere(&self, record: &Record) -> bool {
        self.rules(record).is_some_and(|client| client.engine.address(&record.request.url).is_none())
    }

    /// The client whose vendor this is: the one that would name the request as it is named on record. Else it is the
    /// only one of that namespace and vendor that calls this address. The account may not be known to it. An adapter may
    /// learn a part of it from a secret, which is not there when only rules are asked for. With two accounts there is
    /// nothing to choose by.
    pub(super) fn rules(&self, record: &Record) -> Option<&Client> {
        let request = &record.request;
        let scope = |client: &Client, account: &str| {
            let engine = &client.engine;
            let route = engine.vendor.operation_path(request.url.path());
            Scope::new(&engine.namespace, engine.vendor.name(), account, &request.method, &route)
        };
        let account = |client: &Client| client.engine.vendor.account(&request.headers).into_owned();
        if let Some(exact) =
            self.clients.iter().find(|client| scope(client, &account(client)) == record.id.scope)
        {
            return Some(exact);
        }
        let on_record = record.id.scope.account()?;
        let mut of_vendor = self.clients.iter().filter(|client| {
            scope(client, &on_record) == record.id.scope && client.engine.reaches(&request.url)
        });
        of_vendor.next().filter(|_| of_vendor.next().is_none())
    }
}

/// The request as this client would send it: the vendor may have moved since it was recorded.
fn as_sent<'a>(record: &'a Record, client: &Client) -> Cow<'a, Request> {
    match client.engine.address(&record.request.url) {
        Some(Cow::Owned(url)) => {
            let mut request = Request::clone(&record.request);
            request.url = url;
            Cow::Owned(request)
        }
        _ => Cow::Borrowed(&record.request),
    }
}

/// Returns the safety of a resend; without the vendor's rules it is HTTP's. The engine that sends it asks its adapter.
fn repeat(record: &Record, client: Option<&Client>) -> Repeat {
    let by_http = steadfast_core::vendor::is_idempotent(&record.request.method);
    let is_idempotent =
        client.map_or(by_http, |client| client.engine.vendor.is_idempotent(&as_sent(record, client)));
    Repeat::chosen(&record.request.method, is_idempotent, record.on_unknown)
}

/// Returns the state of lookups: a redrive looks up again, also after lookups that came to no answer.
fn lookup(record: &Record, client: &Client) -> Lookup {
    let request = as_sent(record, client);
    let subject = Subject::new(&request, &record.wire_key, record.claimed_at);
    match client.engine.vendor.lookup(&subject) {
        Some(_) if client.policy().lookups_max > 0 => Lookup::NotAsked,
        _ => Lookup::None,
    }
}
