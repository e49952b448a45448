//! All that is on record of one operation.

use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, Method};

use steadfast_core::clock::Timestamp;
use steadfast_core::operation::record::{
    Action, AuditEntry, Filter, Phase, Record, Resolution, State, Summary,
};
use steadfast_core::operation::{Key, OperationId, Scope};
use steadfast_core::transport::Answer;
use steadfast_core::{AttemptReport, Error, Input};

use super::redact::View;
use super::redrive::overwrites;
use super::select::{code, last_attempt};
use super::{AccountStatus, Change, DeadLetterError, DeadLetters, Safety};

/// An operation as [`DeadLetters::show`] or [`DeadLetters::open`] shows it. It has nothing that is withheld.
///
/// ```
#[doc = include_str!("../docs/setup/dead_letters.md")]
/// use steadfast::dead_letter::Safety;
///
/// let id = letters.find("order-41/receipt").await?;
/// let shown = letters.show(&id).await?;
/// assert_eq!(shown.safety, Some(Safety::Lookup), "a redrive would look it up first");
/// let (lookups, attempts): (Vec<_>, Vec<_>) = shown.attempts.iter().partition(|report| report.is_lookup());
/// assert_eq!((attempts.len(), lookups.len()), (1, 3), "sent once, and looked up three times");
/// assert_eq!(shown.request.body, Err("not asked for"));
#[doc = include_str!("../docs/setup/end.md")]
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Shown {
    /// Its row in a list, with the [code](Summary::code) if it is a dead letter.
    pub summary: Summary,
    /// Reason for which a redrive would be safe, or not; `None` unless it is a dead letter that is not resolved.
    pub safety: Option<Safety>,
    /// Whether a redrive overwrites what was written since: see [`Change::overwrite`](super::Change::overwrite).
    pub overwrites: bool,
    /// The key of the dead letter that it started over.
    pub predecessor: Option<Key>,
    /// The scope of its first claim, if it was [adopted](DeadLetters::adopt) since.
    pub first_scope: Option<Scope>,
    /// The process that holds it, or held it last, such as `web-7f9c/4711`: the name of its host and its process id.
    pub holder: Option<Arc<str>>,
    /// The method of the request.
    pub method: Method,
    /// Its URL. The values of its query are hidden unless it was opened.
    pub url: String,
    /// Request that was sent.
    pub request: Message,
    /// The answer on record. Its status is in the [summary](Summary::status).
    pub reply: Option<Message>,
    /// Codes of a failure, such as `card_declined`, and its sentences without a name, while its body is withheld.
    pub says: Vec<String>,
    /// Every attempt and lookup on the log, oldest first.
    pub attempts: Vec<AttemptReport>,
    /// Actions of operators, oldest first.
    pub audit: Vec<AuditEntry>,
    /// Time at which it was shown, for ages.
    pub now: Timestamp,
    /// Status of its account, if it is overdue and not behind another one of its sequence: the reason for which it
    /// still waits.
    pub account: Option<AccountStatus>,
}

impl Shown {
    /// Returns the time at which it began: the first claim, or the first attempt on the log if that is earlier. A
    /// redrive of an operation without effect begins with a claim of its own, and leaves the log.
    pub fn began_at(&self) -> Timestamp {
        let first = self.attempts.first().map(|report| report.started_at);
        first.map_or(self.summary.claimed_at, |first| first.min(self.summary.claimed_at))
    }
}

/// A request or an answer as it is shown.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Message {
    /// The headers that are on record.
    pub headers: Vec<(String, String)>,
    /// The length of the body on record.
    pub body_bytes: usize,
    /// The body as text, with what was named redacted. If it is withheld: why.
    pub body: Result<String, &'static str>,
    /// Whether the body of an answer went on beyond the limit and was cut.
    pub cut: bool,
}

impl DeadLetters {
    /// Shows an operation, in whichever phase. Bodies and the values of headers and of the query are withheld:
    /// [`open`](DeadLetters::open) shows them.
    ///
    /// # Errors
    ///
    /// [`DeadLetterError::Absent`], [`DeadLetterError::Store`].
    pub async fn show(&self, id: &OperationId) -> Result<Shown, DeadLetterError> {
        self.shown(id, false).await
    }

    /// Shows an operation with bodies and values. Name and reason of `how` are written on the audit record first.
    /// Credentials are withheld all the same, and so are the fields that this, the call or its client
    /// [redacts](DeadLetters::redact).
    ///
    /// ```
    #[doc = include_str!("../docs/setup/dead_letters.md")]
    /// use steadfast::dead_letter::Change;
    ///
    /// let id = letters.find("order-42/receipt").await?;
    /// let how = Change::by("ada").because("ticket 7");
    /// let opened = letters.redact(["To"]).open(&id, &how).await?;
    /// let body = opened.request.body.expect("it was asked for");
    /// assert!(body.contains("shop@example.com") && !body.contains("ann@example.com"));
    /// assert_eq!((&opened.audit[0].by[..], &opened.audit[0].why[..]), ("ada", "ticket 7"));
    #[doc = include_str!("../docs/setup/end.md")]
    /// ```
    ///
    /// # Errors
    ///
    /// [`DeadLetterError::Absent`]; [`DeadLetterError::Refused`] without a name or without a reason;
    /// [`DeadLetterError::Invalid`] for a dry run, which would leave no trace of what was seen.
    pub async fn open(&self, id: &OperationId, how: &Change) -> Result<Shown, DeadLetterError> {
        if how.dry_run {
            let problem = "it has no dry run: showing bodies is noted on the audit record";
            return Err(DeadLetterError::Invalid(Error::validation(Input::Other("opening"), problem)));
        }
        self.record(id).await?;
        self.act(id, Action::Note, how, None).await?;
        self.shown(id, true).await
    }

    async fn shown(&self, id: &OperationId, is_open: bool) -> Result<Shown, DeadLetterError> {
        let record = self.record(id).await?;
        let attempts = self.store.evidence(id).await.map_err(DeadLetterError::store("read the attempts"))?;
        let audit = self.audit(id).await?;
        let mut summary = record.summary();
        let view = &View::new(is_open, &self.redact, &record.redact);
        let is_dead = matches!(summary.phase, Phase::Dead | Phase::Resolved);
        let said = record.resolved.as_ref().map(|said| &said.resolution);
        let may_be_redriven = is_dead && matches!(said, None | Some(Resolution::NotApplied));
        let now = self.now();
        let is_due = Filter { due_before: Some(now), ..Filter::default() }.matches(&summary);
        let account = if is_due { self.account_of(&id.scope).await? } else { None };
        summary.code = is_dead.then(|| code(&summary, last_attempt(&attempts)));
        Ok(Shown {
            overwrites: may_be_redriven && overwrites(&record.request),
            predecessor: record.predecessor.clone(),
            first_scope: record.first_scope.clone(),
            holder: record.holder.clone(),
            safety: may_be_redriven.then(|| self.safety(&record)),
            method: record.request.method.clone(),
            url: view.url(&record.request.url),
            request: Message::new(&record.request.headers, &record.request.body, None, view),
            says: answer(&record)
                .filter(|answer| !answer.status.is_success())
                .map_or_else(Vec::new, |answer| view.says(&answer.body)),
            reply: answer(&record)
                .map(|answer| Message::new(&answer.headers, &answer.body, Some(answer.cut), view)),
            summary,
            attempts,
            audit,
            now,
            account,
        })
    }
}

impl Message {
    /// `cut` is of an answer.
    fn new(headers: &HeaderMap, body: &Bytes, cut: Option<bool>, view: &View<'_>) -> Message {
        Message {
            headers: view.headers(headers, cut.is_some()),
            body_bytes: body.len(),
            body: view.body(headers, body),
            cut: cut.unwrap_or_default(),
        }
    }
}

fn answer(record: &Record) -> Option<&Answer> {
    match &record.state {
        State::Succeeded { answer, .. } | State::Refused { answer, .. } => Some(answer),
        State::Dead { answer, .. } => answer.as_ref(),
        State::InProgress { .. } | State::Scheduled { .. } => None,
    }
}
