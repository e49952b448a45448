//! One operation, with all that is on record of it.

use http::Method;

use super::redrive::overwrites;
use super::select::{code, last_attempt};
use super::{DeadLetterError, DeadLetters, Safety, ShownBody, View};
use crate::answer::Answer;
use crate::attempt::AttemptReport;
use crate::clock::Timestamp;
use crate::operation::record::{Action, AuditEntry, Phase, Record, Resolution, State, Summary};
use crate::operation::{Key, OperationId, Scope};
use crate::request::Request;

/// An operation as it is shown. It has nothing that the [`View`] withholds.
///
/// ```
#[doc = include_str!("../docs/setup/dead_letters.md")]
/// use steadfast::dead_letter::{Safety, ShownBody, View};
///
/// let id = letters.find("order-41/receipt").await?;
/// let shown = letters.show(&id, &View::closed()).await?;
/// assert_eq!(shown.safety, Some(Safety::LookUp), "a redrive would look it up first");
/// let (look_ups, attempts): (Vec<_>, Vec<_>) = shown.attempts.iter().partition(|report| report.is_look_up());
/// assert_eq!((attempts.len(), look_ups.len()), (1, 3), "sent once, and looked up three times");
/// assert_eq!(shown.request.body, ShownBody::Withheld { why: "not asked for" });
#[doc = include_str!("../docs/setup/end.md")]
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Shown {
    /// The same as in a list.
    pub summary: Summary,
    /// The [`code`](crate::Error::code) of the error, if it is a dead letter.
    pub code: Option<&'static str>,
    /// Why a redrive would be safe, if it is a dead letter that is not resolved.
    pub safety: Option<Safety>,
    /// Whether a redrive overwrites what was written since: see [`Redrive::overwrite`](super::Redrive::overwrite).
    pub overwrites: bool,
    /// The key of the dead letter that it started over.
    pub predecessor: Option<Key>,
    /// The scope of its first claim, if it was [adopted](DeadLetters::adopt) since.
    pub first_scope: Option<Scope>,
    /// What was sent.
    pub request: ShownRequest,
    /// The answer on record.
    pub reply: Option<ShownReply>,
    /// Every attempt and lookup on the log, oldest first.
    pub attempts: Vec<AttemptReport>,
    /// What operators did, oldest first.
    pub audit: Vec<AuditEntry>,
    /// When it was shown, for ages.
    pub now: Timestamp,
}

/// A request as it is shown.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ShownRequest {
    /// The method.
    pub method: Method,
    /// The URL, without the values of its query unless they were asked for.
    pub url: String,
    /// The headers that are on record.
    pub headers: Vec<(String, String)>,
    /// The length of the body.
    pub body_bytes: usize,
    /// The body.
    pub body: ShownBody,
}

/// A reply as it is shown.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ShownReply {
    /// The status.
    pub status: u16,
    /// The headers.
    pub headers: Vec<(String, String)>,
    /// The length of the body on record.
    pub body_bytes: usize,
    /// The body.
    pub body: ShownBody,
    /// Whether the body went on beyond the limit and was cut.
    pub cut: bool,
}

impl DeadLetters {
    /// Shows an operation, in whichever phase. An opened view is written on the audit record first.
    ///
    /// # Errors
    ///
    /// [`DeadLetterError::Absent`]; [`DeadLetterError::Refused`] if an opened view has no name or no reason.
    pub async fn show(&self, id: &OperationId, view: &View) -> Result<Shown, DeadLetterError> {
        if let Some(signed) = &view.opened {
            self.get(id).await?.ok_or_else(|| DeadLetterError::Absent(id.to_string()))?;
            self.act(id, Action::Note, signed, None).await?;
        }
        let record = self.record(id).await?;
        let attempts = self.store.evidence(id).await.map_err(DeadLetterError::store("read the attempts"))?;
        let audit = self.audit(id).await?;
        let summary = record.summary();
        let view = &view.clone().redact(record.redact.names());
        let is_dead = matches!(summary.phase, Phase::Dead | Phase::Resolved);
        let said = record.resolved.as_ref().map(|said| &said.resolution);
        let may_be_redriven = is_dead && matches!(said, None | Some(Resolution::NotApplied));
        Ok(Shown {
            code: is_dead.then(|| code(&summary, last_attempt(&attempts))),
            overwrites: may_be_redriven && overwrites(&record.request),
            predecessor: record.predecessor.clone(),
            first_scope: record.first_scope.clone(),
            safety: may_be_redriven.then(|| self.safety(&record)),
            request: ShownRequest::new(&record.request, view),
            reply: answer(&record).map(|answer| ShownReply::new(answer, view)),
            summary,
            attempts,
            audit,
            now: self.now(),
        })
    }
}

impl ShownRequest {
    fn new(request: &Request, view: &View) -> ShownRequest {
        ShownRequest {
            method: request.method.clone(),
            url: view.url(&request.url),
            headers: view.headers(&request.headers),
            body_bytes: request.body.len(),
            body: view.body(&request.headers, &request.body),
        }
    }
}

impl ShownReply {
    fn new(answer: &Answer, view: &View) -> ShownReply {
        ShownReply {
            status: answer.status.as_u16(),
            headers: view.headers(&answer.headers),
            body_bytes: answer.body.len(),
            body: view.body(&answer.headers, &answer.body),
            cut: answer.cut,
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
