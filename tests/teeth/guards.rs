//! Guards of the engine and the stores, each with a way to take it out.
//!
//! A proof that has never failed proves little: it may be blind to the very fault that it is there for. So each
//! rule that keeps an effect from happening twice can be removed here, one at a time, and the proof must then
//! fail. Nothing in the crate can be switched off; the guards are removed from outside, by a [`Store`] and a
//! [`Vendor`] that lie about exactly one thing. They use the public interface alone.

use std::borrow::Cow;
use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use http::{HeaderMap, HeaderValue};
use parking_lot::Mutex;
use steadfast::operation::record::{
    Act, Action, Claim, Claimed, Declined, Forbidden, Phase, Record, State, Takeover, Transition,
};
use steadfast::operation::{OperationId, WireKey};
use steadfast::store::{Store, StoreError, Wrapper};
use steadfast::transport::{Answer, Request};
use steadfast::vendor::{Attempt, Finding, Subject, Vendor, Verdict};
use steadfast::{Effect, Error, Reason};
use url::Url;

/// A rule, by what it keeps from happening.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Guard {
    /// An error never deletes a record. Without it: an operation that is postponed or dies is forgotten, and
    /// its next claim is fresh.
    KeepOnError,
    /// What a dead holder left may have taken effect. Without it: it is handed over as if nothing had been sent.
    LapsedIsUnknown,
    /// A lookup is believed only after the settle time. Without it: at once.
    SettleTime,
    /// A resend counts on the vendor's record only within its window. Without it: for ever.
    Window,
    /// Every send carries the operation's one key. Without it: each send after the first carries another.
    OneKey,
}

/// A store without one guard. For a guard that is not a store's it does what `inner` does.
#[derive(Debug)]
pub struct StoreWithout {
    pub guard: Option<Guard>,
    pub inner: Arc<dyn Store>,
    /// What was forgotten, for [`Guard::KeepOnError`].
    pub forgotten: Mutex<HashSet<OperationId>>,
}

impl StoreWithout {
    pub fn new(guard: Option<Guard>, inner: Arc<dyn Store>) -> StoreWithout {
        StoreWithout { guard, inner, forgotten: Mutex::default() }
    }

    fn has_forgotten(&self, id: &OperationId) -> bool {
        self.forgotten.lock().contains(id)
    }

    fn remember(&self, id: &OperationId) -> bool {
        self.forgotten.lock().remove(id)
    }

    /// The claim of what was forgotten. On file it is a dead letter, and is brought back under its next fence.
    async fn claim_forgotten(&self, claim: Claim) -> Result<Claimed, StoreError> {
        let (id, now) = (claim.id.clone(), claim.now);
        let action = Action::Redrive { forced: false };
        let act = Act { action, by: "nobody".to_owned(), why: String::new(), now, fence: None };
        // Declined if a late answer has made it a success meanwhile: then it is one.
        let _ = self.inner.act(&id, act).await?;
        Ok(match self.inner.claim(claim).await? {
            Claimed::TakenOver(record) => Claimed::Fresh(as_if_never_sent(record)),
            other => other,
        })
    }
}

/// The record as it was before anything was sent.
fn as_if_never_sent(mut record: Record) -> Record {
    record.effect = Effect::None;
    record.attempts = 0;
    record
}

#[async_trait]
impl Wrapper for StoreWithout {
    fn inner(&self) -> &dyn Store {
        &self.inner
    }

    async fn claim(&self, claim: Claim) -> Result<Claimed, StoreError> {
        match self.guard {
            Some(Guard::KeepOnError) if self.remember(&claim.id) => self.claim_forgotten(claim).await,
            Some(Guard::LapsedIsUnknown) => {
                let held = self.inner.get(&claim.id).await?.map(|record| record.state);
                Ok(match self.inner.claim(claim).await? {
                    Claimed::TakenOver(record) if matches!(held, Some(State::InProgress { .. })) => {
                        Claimed::TakenOver(as_if_never_sent(record))
                    }
                    other => other,
                })
            }
            _ => self.inner.claim(claim).await,
        }
    }

    async fn transition(
        &self,
        record: &Record,
        mut transition: Transition,
    ) -> Result<Result<Record, Declined>, StoreError> {
        if self.guard == Some(Guard::KeepOnError)
            && matches!(transition.to, State::Scheduled { .. } | State::Dead { .. })
        {
            transition.to = State::Dead { reason: Reason::Exhausted, answer: None };
            transition.effect = Effect::None;
            let buried = self.inner.transition(record, transition).await?;
            if buried.is_ok() {
                self.forgotten.lock().insert(record.id.clone());
            }
            return Ok(buried);
        }
        self.inner.transition(record, transition).await
    }

    async fn take(&self, take: Takeover) -> Result<Vec<Record>, StoreError> {
        let lapsed = take.phase == Phase::InProgress;
        let taken = self.inner.take(take).await?;
        Ok(match self.guard {
            Some(Guard::LapsedIsUnknown) if lapsed => taken.into_iter().map(as_if_never_sent).collect(),
            _ => taken,
        })
    }

    async fn act(&self, id: &OperationId, act: Act) -> Result<Result<Record, Forbidden>, StoreError> {
        if self.has_forgotten(id) { Ok(Err(Forbidden::Absent)) } else { self.inner.act(id, act).await }
    }

    async fn get(&self, id: &OperationId) -> Result<Option<Record>, StoreError> {
        if self.has_forgotten(id) { Ok(None) } else { self.inner.get(id).await }
    }
}

/// A vendor's rules without one guard. For a guard that is not a vendor's they are those of `inner`.
#[derive(Debug)]
pub struct VendorWithout {
    pub guard: Option<Guard>,
    pub inner: Box<dyn Vendor>,
    /// Requests authorised so far, over all clients that share it: what makes each key another.
    pub sends: Arc<AtomicU64>,
}

impl VendorWithout {
    pub fn new(guard: Option<Guard>, inner: impl Vendor, sends: &Arc<AtomicU64>) -> VendorWithout {
        VendorWithout { guard, inner: Box::new(inner), sends: Arc::clone(sends) }
    }
}

impl Vendor for VendorWithout {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn base_url(&self) -> &Url {
        self.inner.base_url()
    }

    fn check(&self) -> Result<(), Error> {
        self.inner.check()
    }

    fn account(&self, headers: &HeaderMap) -> Cow<'_, str> {
        self.inner.account(headers)
    }

    fn stamp(&self, wire_key: WireKey, request: &mut Request) -> Result<String, Error> {
        self.inner.stamp(wire_key, request)
    }

    fn authorize(&self, request: &mut Request) {
        self.inner.authorize(request);
        if self.guard != Some(Guard::OneKey) {
            return;
        }
        let Some(key) = request.headers.get("idempotency-key").and_then(|key| key.to_str().ok()) else {
            return;
        };
        // The operation's own key stays in front, so that an audit can tell whose effect it was.
        let another = format!("{key}~{}", self.sends.fetch_add(1, Ordering::Relaxed));
        if let Ok(another) = HeaderValue::from_str(&another) {
            request.headers.insert("idempotency-key", another);
        }
    }

    fn replay_window(&self, request: &Request) -> Option<Duration> {
        let window = self.inner.replay_window(request);
        if self.guard == Some(Guard::Window) { window.map(|_| Duration::MAX) } else { window }
    }

    fn classify(&self, attempt: &Attempt<'_>) -> Verdict {
        self.inner.classify(attempt)
    }

    fn settle_time(&self) -> Duration {
        if self.guard == Some(Guard::SettleTime) { Duration::ZERO } else { self.inner.settle_time() }
    }

    fn look_up(&self, subject: &Subject<'_>) -> Option<Request> {
        self.inner.look_up(subject)
    }

    fn read_look_up(&self, subject: &Subject<'_>, asked: &Request, answer: &Answer) -> Finding {
        self.inner.read_look_up(subject, asked, answer)
    }
}
