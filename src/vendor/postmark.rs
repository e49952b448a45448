//! Postmark: no key of its own, so every accepted POST is another e-mail.
//!
//! The operation's key travels as message metadata, by which Postmark's search can filter. It also travels as
//! `Message-ID`, by which a recipient's mail client may thread a duplicate. An unknown outcome is looked up. A hit
//! with the recipients, the sender and the subject that were sent is proof. A miss is not, because how long a message
//! takes to become searchable is not documented. The operation then ends as a dead letter of unknown effect, unless the
//! caller says that a second e-mail is better than none.

use std::borrow::Cow;
use std::time::Duration;

use http::header::{ACCEPT, HeaderName, HeaderValue};
use http::{HeaderMap, Method};
use secrecy::SecretString;
use serde_json::Value;
use url::Url;

use steadfast_core::internal::ext::InputErrorExt;
use steadfast_core::internal::vendor::account::check_account;
use steadfast_core::internal::vendor::body::is_text;
use steadfast_core::internal::vendor::{NextPage, check_settle_time};
use steadfast_core::operation::WireKey;
use steadfast_core::transport::{Answer, Request};
use steadfast_core::vendor::rules::{asked, by_status, is_page, lacks_form, no_answer, refused};
use steadfast_core::vendor::{Attempt, BaseUrl, Credential, Finding, SpeaksFor, Subject, Vendor, Verdict};
use steadfast_core::{Effect, Error, Input, Refusal};

mod lookup;
mod pages;
mod same;
mod stamp;

/// Postmark's rules. Built with a server token.
///
/// `Debug` does not show the token. The token `POSTMARK_API_TEST` validates and sends nothing.
///
/// A batch that Postmark took with status 200 is done even if some of its messages were refused.
/// [`Postmark::failed_items`] says which, and only those may be sent again, under a new key.
///
/// ```
/// # #[cfg(feature = "testkit")]
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let fake = steadfast::testkit::fakes::PostmarkFake::builder().in_process();
/// use serde_json::json;
/// use steadfast::Client;
/// use steadfast::vendor::Postmark;
///
/// let postmark = Client::builder(Postmark::new("a-server-token"))
/// #   .transport(fake.transport())
///     .build()?;
/// let message = |to: &str| json!({"From": "me@example.com", "To": to, "TextBody": "Paid."});
/// let batch = [message("ann@example.com"), message("nobody")];
/// let reply = postmark.post("/email/batch").key("day-7/receipts").json(&batch).send().await?;
///
/// // Postmark took the batch and refused its second message.
/// assert_eq!(Postmark::failed_items(reply.answer()), [1]);
#[doc = include_str!("../docs/setup/end.md")]
/// ```
#[derive(Clone, Debug)]
pub struct Postmark {
    base: BaseUrl,
    credential: Credential,
    token_header: HeaderName,
    account: String,
    message_id: MessageId,
    settle_time: Duration,
}

/// Part after the `@` in the `Message-ID` that carries the key.
#[derive(Clone, Debug, PartialEq, Eq)]
enum MessageId {
    SenderDomain,
    Domain(String),
    Off,
}

impl Postmark {
    /// Postmark at `https://api.postmarkapp.com`. An empty token is refused by [`Vendor::check`].
    pub fn new(server_token: impl Into<SecretString>) -> Postmark {
        Postmark {
            base: BaseUrl::new("https://api.postmarkapp.com"),
            credential: Credential::new("", server_token),
            token_header: SERVER_TOKEN,
            account: "default".into(),
            message_id: MessageId::SenderDomain,
            settle_time: SETTLE_TIME,
        }
    }

    /// Postmark's Account API, which manages servers, domains and senders. It takes the account's own token, and sends no
    /// mail: a call that would is refused before anything is sent. A POST whose answer is lost ends as *unknown*, as it has
    /// no key and no lookup. Its [account](Postmark::account) is `account` unless it is named.
    pub fn account_api(account_token: impl Into<SecretString>) -> Postmark {
        let server = Postmark::new(account_token);
        Postmark { token_header: ACCOUNT_TOKEN, account: "account".into(), ..server }
    }

    /// Sets another base URL, such as a fake's. A text that is not a URL is refused by [`Vendor::check`].
    #[must_use]
    pub fn base_url(mut self, url: impl AsRef<str>) -> Postmark {
        self.base = BaseUrl::new(url.as_ref());
        self
    }

    /// Names the Postmark server that the token belongs to. Two servers that share a store then never share a key. It
    /// is a name in scopes only. Default: `default`.
    #[must_use]
    pub fn account(mut self, account: impl Into<String>) -> Postmark {
        self.account = account.into();
        self
    }

    /// The domain of the `Message-ID` that carries the key, or `None` for no such header.
    ///
    /// Default: the domain of the message's `From`. Postmark documents `X-PM-KeepID` for SMTP; whether the
    /// REST API needs or honours it is not documented, and lookups do not depend on it. A message that brings
    /// its own `Message-ID` keeps it.
    #[must_use]
    pub fn message_id_domain(mut self, domain: Option<&str>) -> Postmark {
        self.message_id = domain.map_or(MessageId::Off, |domain| MessageId::Domain(domain.into()));
        self
    }

    /// Sets the time after an unknown outcome at which a message is looked up. Default: 10 s.
    ///
    /// Postmark documents no lag; messages usually show within seconds. The figure trades waiting against
    /// dead letters only: a lookup that comes too early finds nothing and decides nothing. Zero and over
    /// a day are refused by [`Vendor::check`].
    #[must_use]
    pub fn settle_time(mut self, time: Duration) -> Postmark {
        self.settle_time = time;
        self
    }

    /// The places, counted from 0, of the messages that a batch's answer refuses. Empty for a batch that went
    /// through and for an answer that is no batch's.
    pub fn failed_items(answer: &Answer) -> Vec<usize> {
        let Some(Value::Array(items)) = answer.json() else { return Vec::new() };
        let refused = |item: &Value| item.get("ErrorCode").is_some_and(|code| *code != 0);
        items.iter().enumerate().filter(|(_, item)| refused(item)).map(|(index, _)| index).collect()
    }

    fn kind(&self, request: &Request) -> Option<Kind> {
        if request.method != Method::POST {
            return None;
        }
        known(self.base.route(&request.url)).map(|(_, kind)| kind)
    }
}

/// A route that sends mail. Postmark takes a trailing slash, which one client library writes, and any case of letters.
fn known(route: &str) -> Option<(&'static str, Kind)> {
    let route = route.trim_end_matches('/');
    ROUTES.iter().find(|(known, _)| route.eq_ignore_ascii_case(known)).copied()
}

/// The shape of a sending request's body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// A single message.
    Single,
    /// An array of messages.
    Batch,
    /// An object with an array of messages in `Messages`.
    TemplateBatch,
}

impl Vendor for Postmark {
    fn name(&self) -> &str {
        "postmark"
    }

    fn base_url(&self) -> &Url {
        self.base.url()
    }

    fn check(&self) -> Result<(), Error> {
        self.credential.check()?;
        self.base.check()?;
        check_account(&self.account)?;
        check_settle_time(self.settle_time)?;
        match &self.message_id {
            MessageId::Domain(domain) if !stamp::is_domain(domain) => {
                let problem = "Message-ID: the domain is not one";
                Err(Error::invalid(Input::Header, problem).set_by("message_id_domain"))
            }
            _ => Ok(()),
        }
    }

    fn account(&self, _headers: &HeaderMap) -> Cow<'_, str> {
        Cow::Borrowed(&self.account)
    }

    fn stamp(&self, wire_key: WireKey, request: &mut Request) -> Result<String, Error> {
        let key = wire_key.to_string();
        if let Some(kind) = self.kind(request) {
            if self.token_header == ACCOUNT_TOKEN {
                let problem = "mail is sent with a server's token, and this is the account's";
                return Err(Error::validation(Input::Path, problem));
            }
            request.body = stamp::stamp(kind, &self.message_id, &request.body, &key)?;
        }
        Ok(key)
    }

    fn authorize(&self, request: &mut Request) {
        self.credential.put(self.token_header.clone(), &mut request.headers);
        request.headers.entry(ACCEPT).or_insert(HeaderValue::from_static("application/json"));
    }

    fn secret_headers(&self) -> Vec<HeaderName> {
        vec![SERVER_TOKEN, ACCOUNT_TOKEN]
    }

    /// None: Postmark executes every request that it accepts.
    fn replay_window(&self, _request: &Request) -> Option<Duration> {
        None
    }

    fn classify(&self, attempt: &Attempt<'_>) -> Verdict {
        let answer = match attempt.outcome {
            Ok(answer) => answer,
            Err(error) => return no_answer(error),
        };
        if answer.status.is_success() && !attempt.request.method.is_safe() {
            return match self.kind(attempt.request) {
                Some(kind) => sent(attempt, kind, answer),
                None => written(attempt, answer),
            };
        }
        // 500 is ambiguous: "in most cases the message is lost", so in some it is sent. Of 503 (maintenance)
        // Postmark does not say at which point it answers so. Both stay unknown; 429 is not accepted.
        let says = is_own_error(answer.json().as_ref()).then_some(SpeaksFor::ThisAttempt);
        by_status(attempt, answer.status, says, asked(attempt, answer))
    }

    fn settle_time(&self) -> Duration {
        self.settle_time
    }

    fn lookup(&self, subject: &Subject<'_>) -> Option<Request> {
        lookup::request(&self.base, self.kind(subject.request)?, subject)
    }

    fn read_lookup(&self, subject: &Subject<'_>, _asked: &Request, answer: &Answer) -> Finding {
        match self.kind(subject.request) {
            Some(kind) => lookup::read(kind, subject, answer),
            None => Finding::CannotTell,
        }
    }

    fn next_page(&self, asked: &Request, answer: &Answer) -> NextPage {
        pages::next(asked, answer)
    }
}

/// A sending request's 2xx. Without `ErrorCode` it is accepted and delayed. A batch is done whatever its items
/// say: each has its own result, and the good ones must not be sent again.
fn sent(attempt: &Attempt<'_>, kind: Kind, answer: &Answer) -> Verdict {
    match answer.json() {
        Some(Value::Array(results)) if is_of_batch(attempt.request, kind, &results) => {
            Verdict::Done { replayed: false }
        }
        Some(Value::Object(body)) => match body.get("ErrorCode") {
            Some(code) if code.is_number() && *code != 0 => {
                refused(attempt, Refusal::Rejected, Some(SpeaksFor::ThisAttempt), asked(attempt, answer))
            }
            _ if kind != Kind::Single || lacks_form(answer, &SUCCESS_MEMBERS) => Verdict::Unknown,
            _ => Verdict::Done { replayed: false },
        },
        // Of a page it is known whose it is, also where it was cut off.
        _ if answer.cut && !is_page(answer) => Verdict::Done { replayed: false },
        // Not Postmark's words: a proxy may have answered before or after the message was taken.
        _ => Verdict::Unknown,
    }
}

/// Whether a batch's answer has a result of Postmark's for each of its messages (Postmark, "Send batch emails").
fn is_of_batch(request: &Request, kind: Kind, results: &[Value]) -> bool {
    let is_result = |result: &Value| SUCCESS_MEMBERS.iter().any(|member| !result[*member].is_null());
    !results.is_empty()
        && results.iter().all(is_result)
        && (kind == Kind::Single
            || lookup::messages(kind, request).is_none_or(|messages| messages.len() == results.len()))
}

/// The 2xx of a write that sends no mail, such as a template's. It is in no batch, so that an `ErrorCode` is of the whole.
fn written(attempt: &Attempt<'_>, answer: &Answer) -> Verdict {
    let not_before = asked(attempt, answer);
    if is_page(answer) || is_text(answer) && !answer.body.is_empty() {
        return Verdict::Retry { effect: Effect::Unknown, not_before };
    }
    match answer.json().as_ref().and_then(|body| body.get("ErrorCode")) {
        Some(code) if code.is_number() && *code != 0 => {
            refused(attempt, Refusal::Rejected, Some(SpeaksFor::ThisAttempt), not_before)
        }
        _ => Verdict::Done { replayed: false },
    }
}

/// Whether a failure's body is in the shape of Postmark's own, an object with a number as `ErrorCode`. No other mark
/// distinguishes its answers from a proxy's.
fn is_own_error(body: Option<&Value>) -> bool {
    body.and_then(|body| body.get("ErrorCode")).is_some_and(Value::is_number)
}

/// The routes that send.
const ROUTES: [(&str, Kind); 4] = [
    ("/email", Kind::Single),
    ("/email/withTemplate", Kind::Single),
    ("/email/batch", Kind::Batch),
    ("/email/batchWithTemplates", Kind::TemplateBatch),
];
/// Postmark's other API takes this one; it opens every server of the account.
const ACCOUNT_TOKEN: HeaderName = HeaderName::from_static("x-postmark-account-token");
/// Members of a send's answer, that of a message which is accepted and delayed included.
const SUCCESS_MEMBERS: [&str; 3] = ["ErrorCode", "MessageID", "SubmittedAt"];
const SERVER_TOKEN: HeaderName = HeaderName::from_static("x-postmark-server-token");
/// Long enough for a message to be processed and indexed in all but rare cases; see
/// [`Postmark::settle_time`].
const SETTLE_TIME: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests;
