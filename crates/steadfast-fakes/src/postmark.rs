//! Postmark: the vendor that deduplicates nothing.
//!
//! Every accepted POST is another message to the customer, whatever its `Message-ID` header or metadata say (the
//! documentation knows no key: <https://postmarkapp.com/developer/api/email-api>). All that a client can do is search,
//! and search lags by a time that Postmark does not document. Set it with [`FakeBuilder::search_lag`] to
//! prove that a miss is not taken for proof.

use std::sync::Arc;
use std::time::Duration;

use self::machine::Machine;
pub(super) use self::settings::PostmarkSettings;
use super::builder::FakeBuilder;
use super::serve::Served;
use super::shared::shared_by_fakes;

mod account;
mod answers;
mod bounces;
mod dns;
mod hooks;
mod machine;
mod messages;
mod questions;
mod search;
mod server;
mod settings;
mod shapes;
mod suppressions;
mod template;
mod validation;
mod words;

pub use answers::{PostmarkAnswer, SecondFilter};

/// A Postmark that counts the messages it accepted.
///
/// ```
/// use serde_json::json;
/// use steadfast::Client;
/// use steadfast::testkit::{Fault, TestClock, fakes::PostmarkFake};
/// use steadfast::vendor::Postmark;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), steadfast::Error> {
/// let clock = TestClock::auto();
/// let fake = PostmarkFake::builder().test_clock(&clock).start().await;
/// fake.plan().next(Fault::Error500After); // Accepted, and said to have failed.
///
/// // The code under test, with a client of the fake.
/// let vendor = Postmark::new("a-token").base_url(fake.url());
/// let postmark = Client::builder(vendor).clock(clock).build()?;
/// let receipt = json!({"From": "me@example.com", "To": "ann@example.com", "TextBody": "Paid."});
/// postmark.post("/email").key("order-42/receipt").json(&receipt).send().await?;
///
/// assert_eq!((fake.plan().pending(), fake.ledger().count()), (0, 1));
/// # Ok(())
/// # }
/// ```
///
/// - `POST /email`, `/email/withTemplate`, `/email/batch`, `/email/batchWithTemplates`: each accepted message is one
///   [`Effect`](super::Effect), under the wire key in its `Metadata.steadfast_key`; in a batch, with its position.
/// - `GET /messages/outbound` searches what is older than the lag, newest first, by `metadata_{name}`,
///   `recipient`, `fromemail`, `tag`, `subject`, `status`, `messagestream` (default `outbound`), `fromdate` and `todate`
///   (US Eastern), within 45 days.
/// - An address that bounced takes no more mail of that message stream. It still takes mail of the other streams. Each
///   stream's list is at `/message-streams/{id}/suppressions`, to be read, added to and taken from.
/// - `/messages/outbound/{id}/details`, `/templates`, `/server`, `/message-streams`, `/webhooks`, `/bounces` and
///   `/deliverystats` are as the vendor's own client libraries call them. The server begins with one template, number 1
///   and `receipt`. Any other route is a 404.
/// - `/servers`, `/domains` and `/senders` are the account API, by any non-empty `X-Postmark-Account-Token` unless
///   [`FakeBuilder::account_token`] names one. Each of its writes is one [`Effect`](super::Effect). The server 1 is the one
///   that sends; every server token leads to it. Templates are not pushed, and data is not removed: a 404.
/// - Webhooks have the triggers `Delivery`, `Bounce` and `SubscriptionChange`, and tell of them at once. Every other
///   trigger is refused: the fake does not send it.
/// - A template has values of its model, and may be within a layout. Sections and all else of Mustachio are refused when
///   it is made or edited. A server's own hooks are not called, and cannot be set.
/// - A parameter or a member that is not documented for its route is refused, and so is one of another kind.
/// - Any non-empty `X-Postmark-Server-Token` is valid unless [`FakeBuilder::token`] names one. The token
///   `POSTMARK_API_TEST` validates and sends nothing.
#[derive(Debug)]
pub struct PostmarkFake {
    served: Served,
    machine: Arc<Machine>,
}

impl PostmarkFake {
    /// The base URL, `http://127.0.0.1:{port}`.
    pub fn url(&self) -> String {
        self.served.url()
    }

    /// Marks an address as inactive, as a hard bounce of the newest message to it does. It is inactive in that message's
    /// stream alone, or in `outbound` if there is no message. Tells the webhooks with the trigger `Bounce` or
    /// `SubscriptionChange`.
    pub fn deactivate(&self, address: &str) -> &PostmarkFake {
        let at = self.machine.clock.wall();
        let mut state = self.machine.state.lock();
        let message = state.messages.newest_to(address);
        if let Some(bounce) = state.server.bounce(address, message.as_ref(), at) {
            state.server.tell(&self.machine.outbox, &bounce);
            state.server.tell(&self.machine.outbox, &suppressions::by_bounce(&bounce, at));
        }
        drop(state);
        self
    }
}

impl FakeBuilder<PostmarkFake> {
    /// How long an accepted message stays out of the search. Default: zero.
    pub fn search_lag(mut self, lag: Duration) -> Self {
        self.settings.postmark.search_lag = lag;
        self
    }

    /// Sets the answer that a second `metadata_` filter meets: the documentation allows one and does not say what
    /// happens. Default: [`SecondFilter::Ignore`].
    pub fn second_filter(mut self, second_filter: SecondFilter) -> Self {
        self.settings.postmark.second_filter = second_filter;
        self
    }

    /// Keeps the `Message-ID` header of a message that also has `X-PM-KeepID: true`: the message's dump shows it. That is
    /// documented for SMTP, and for this API it is not. Default: each message goes out with one of Postmark's own.
    pub fn keep_message_ids(mut self) -> Self {
        self.settings.postmark.keep_message_ids = true;
        self
    }

    /// The only valid server token. Default: any.
    pub fn token(mut self, token: impl Into<String>) -> Self {
        self.settings.postmark.token = Some(token.into());
        self
    }

    /// The only valid account token. Default: any.
    pub fn account_token(mut self, token: impl Into<String>) -> Self {
        self.settings.postmark.account_token = Some(token.into());
        self
    }

    /// Confirms each new sender signature at once, as if the owner of its address had followed the link. Default: it is
    /// not confirmed.
    pub fn confirm_senders(mut self) -> Self {
        self.settings.postmark.confirm_senders = true;
        self
    }

    /// Finds the records of every domain in its DNS, so that its DKIM key and its Return-Path can be verified. Default:
    /// none is there, and what is asked to be verified is not.
    pub fn dns_records_published(mut self) -> Self {
        self.settings.postmark.dns_records_published = true;
        self
    }

    /// Lets servers be deleted, which Postmark's support allows to an account that asks for it. The server 1 stays.
    /// Default: refused with ErrorCode 604.
    pub fn delete_servers(mut self) -> Self {
        self.settings.postmark.delete_servers = true;
        self
    }
}

/// A query parameter's decoded value. Client libraries write the names in either case.
fn query(request: &wiremock::Request, name: &str) -> Option<String> {
    let mut pairs = request.url.query_pairs();
    pairs.find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value.into_owned())
}

shared_by_fakes!(PostmarkFake, PostmarkAnswer, postmark, messages);
