//! The result of a call that does not get to send: what is on record of its operation.
//!
//! A gate that refuses, or a deadline of zero, knows nothing of the operation. A caller that is told "effect none"
//! falls back on another way to pay. So the error says *none* only after a look at the record. A store that cannot
//! answer makes it *unknown*.

use std::time::Duration;

use steadfast_core::clock::{Instant, Timestamp};
use steadfast_core::internal::decision::STORE_GRACE;
use steadfast_core::internal::decision::claim::{ClaimFailure, claim_failure};
use steadfast_core::internal::error::Kind;
use steadfast_core::internal::ext::{ErrorExt, RecordExt, RecordPlaceExt, RecordTakeExt};
use steadfast_core::internal::guard::Guard;
use steadfast_core::operation::OperationId;
use steadfast_core::operation::record::{Phase as OnRecord, Record, State};
use steadfast_core::store::StoreError;
use steadfast_core::{Disposition, Effect, Error, Refusal};

use super::Engine;
use super::claim::{Keyed, Offered, key_reused};
use super::entry::Stop;
use super::records::{Found, IN_OUTBOX};
use crate::reply::Reply;

/// The state of a key's record, as a call sees it.
pub(super) enum Standing {
    /// Nothing: there is no record.
    Absent,
    /// The operation has ended under this fence, or the key is another request's: this is what the call is told. Where
    /// its time is over by our own clock, a claim, which the store judges, may find the key free.
    Final { outcome: Box<Result<Reply, Error>>, fence: u64, is_over: bool },
    /// Its credentials were refused, with this error: the key is free again.
    Free(Error),
    /// A process holds it, or it waits for its next attempt.
    Open(Open),
    /// The store failed, or did not answer in time.
    CannotSay,
}

/// An operation that has not ended, as on record.
pub(super) struct Open {
    effect: Effect,
    /// The end of the lease, or the time that it is scheduled for.
    until: Timestamp,
    /// When it makes sense to ask again.
    expected: Timestamp,
    /// When it is due, if no process holds it.
    pub(super) due: Option<Timestamp>,
    /// When its holder's lease ends.
    lapses_at: Option<Timestamp>,
    /// Whether a claim would get it now.
    pub(super) is_free: bool,
    /// Whether it waits in a sequence for a person to deal with a dead letter.
    is_held: bool,
}

impl Open {
    /// In how long it may be free though no process moves it: no look at its phase and fence shows that. Where it should be by
    /// now and is not, a little later.
    pub(super) fn free_in(&self, now: Timestamp) -> Option<Duration> {
        let left = self.due.or(self.lapses_at)?.since(now);
        Some(if left.is_zero() { LATE } else { left })
    }

    fn disposition(&self) -> Disposition {
        let at = Some(self.until).filter(|_| !self.is_held);
        Disposition::Continues { at }
    }
}

impl Standing {
    /// The effect as on record, and what happens next without the caller.
    fn word(&self) -> (Effect, Disposition) {
        match self {
            Standing::Absent => (Effect::None, Disposition::Ended),
            Standing::Free(refused) => (refused.effect(), refused.disposition()),
            // A call of the earlier life may ask too: the effect of that life is its own.
            Standing::Final { is_over: true, .. } => (Effect::Unknown, Disposition::Ended),
            Standing::Open(open) => (open.effect, open.disposition()),
            Standing::CannotSay => (Effect::Unknown, Disposition::Continues { at: None }),
            Standing::Final { outcome, .. } => match &**outcome {
                Ok(_) => (Effect::Applied, Disposition::Ended),
                Err(error) => (error.effect(), error.disposition()),
            },
        }
    }
}

impl Engine {
    /// Looks at the record, until the deadline or for [`STORE_GRACE`], whichever is later: a call without time is told
    /// the truth too. Writes nothing.
    pub(super) async fn standing(&self, offered: Offered<'_>) -> Standing {
        let until = offered.deadline.max(self.clock.now().plus(STORE_GRACE));
        match self.record_of(offered.id, until).await {
            Ok(Some(record)) => self.standing_for(offered, record, until).await,
            Ok(None) => Standing::Absent,
            Err(_) => Standing::CannotSay,
        }
    }

    /// The same of whatever request has the name.
    pub(super) async fn standing_by_name(&self, offered: Offered<'_>) -> Standing {
        let until = offered.deadline.max(self.clock.now().plus(STORE_GRACE));
        match self.record_of(offered.id, until).await {
            Ok(Some(record)) => self.standing_of(record, until).await,
            Ok(None) => Standing::Absent,
            Err(_) => Standing::CannotSay,
        }
    }

    /// The same, and the word for it. A row of the outbox is no record, and goes on without the caller all the same.
    async fn standing_and_word(&self, offered: Offered<'_>) -> (Standing, (Effect, Disposition)) {
        let until = offered.deadline.max(self.clock.now().plus(STORE_GRACE));
        let standing = match self.record_or_row(offered.id, until).await {
            Ok(Found::Record(record)) => self.standing_for(offered, *record, until).await,
            Ok(Found::Row(_)) => return (Standing::Absent, IN_OUTBOX),
            Ok(Found::Nothing) => Standing::Absent,
            Err(_) => Standing::CannotSay,
        };
        let (effect, mut next) = standing.word();
        // A row may begin the key anew.
        if matches!(standing, Standing::Final { is_over: true, .. })
            && self.is_in_outbox(offered.id, until).await != Some(false)
        {
            next = IN_OUTBOX.1;
        }
        (standing, (effect, next))
    }

    /// How an operation stands for a call, of its record.
    async fn standing_for(&self, offered: Offered<'_>, record: Record, until: Instant) -> Standing {
        let id = offered.id;
        if Guard::ReplayOfSameRequest.holds()
            && record.fingerprint != offered.fingerprint
            && !self.is_of_first_scope(record.fingerprint, offered, record.first_scope.as_ref())
        {
            let word = (record.effect_known_to_others(), record.disposition());
            let reused = key_reused(record.fingerprint, offered.fingerprint, word);
            let reused = self.in_context(reused, &record.request, Some((id, None)));
            let is_over = self.is_over(&record, until).await;
            return Standing::Final { outcome: Box::new(Err(reused)), fence: record.fence, is_over };
        }
        self.standing_of(record, until).await
    }

    /// A refusal of a call's request, with the effect of the operation that has its key on record and what becomes of it.
    pub(super) async fn as_on_record(&self, refused: Error, id: &OperationId, deadline: Instant) -> Error {
        let until = deadline.max(self.clock.now().plus(STORE_GRACE));
        let (effect, next) = match self.record_or_row(id, until).await {
            Ok(Found::Record(record)) if !self.is_over(&record, until).await => {
                (record.effect_known_to_others(), record.disposition())
            }
            // A row may begin the key anew.
            Ok(Found::Record(_)) if self.is_in_outbox(id, until).await != Some(false) => {
                (Effect::Unknown, IN_OUTBOX.1)
            }
            Ok(Found::Record(_)) => (Effect::Unknown, Disposition::Ended),
            Ok(Found::Row(_)) => IN_OUTBOX,
            Ok(Found::Nothing) => Standing::Absent.word(),
            Err(_) => Standing::CannotSay.word(),
        };
        refused.with_effect(effect).with_disposition(next)
    }

    /// How an operation stands, of a record that was read, whatever request it is of.
    pub(super) async fn standing_of(&self, record: Record, until: Instant) -> Standing {
        let (now, fence) = (self.wall(), record.fence);
        let is_over = self.is_over(&record, until).await;
        let (id, is_free) = (record.id.clone(), record.is_free(now));
        match record.state {
            // Its holder may be sending, or have died while it did.
            State::InProgress { lease_until: until } => Standing::Open(Open {
                effect: Effect::Unknown,
                until,
                expected: self.expected_end(&record, until, now),
                due: None,
                lapses_at: Some(until),
                is_free,
                is_held: false,
            }),
            State::Scheduled { at } => {
                let turn = record.turn_at(now);
                let until = turn.unwrap_or(at);
                Standing::Open(Open {
                    effect: record.effect,
                    until,
                    expected: until,
                    // Nobody knows when its turn comes: it may be sent as soon as that and its own time are there.
                    due: Some(at).filter(|at| turn.is_none() || *at > now),
                    lapses_at: None,
                    is_free,
                    is_held: record.waits_for().is_some_and(|ahead| ahead.phase == OnRecord::Dead),
                })
            }
            State::Refused { refusal: Refusal::Unauthorized, .. } => {
                let effect = record.effect;
                match self.replay(record) {
                    Err(refused) => {
                        let refused = refused.with_effect(effect);
                        // A row may take over the key that is free.
                        let waits = Box::pin(self.is_in_outbox(&id, until)).await != Some(false);
                        // Or has taken it over since it was read.
                        if !waits
                            && let Ok(Some(now)) = self.read_again(&id, until).await
                            && now.fence != fence
                        {
                            return Box::pin(self.standing_of(now, until)).await;
                        }
                        Standing::Free(if waits { refused.with_disposition(IN_OUTBOX.1) } else { refused })
                    }
                    outcome => Standing::Final { outcome: Box::new(outcome), fence, is_over },
                }
            }
            State::Succeeded { .. } | State::Refused { .. } | State::Dead { .. } => {
                let ended = self.replay(record);
                let outcome = Box::new(self.with_cause_on_record(ended, &id, until).await);
                Standing::Final { outcome, fence, is_over }
            }
        }
    }

    /// When the holder is expected to have ended: the first of three guesses that is not over yet.
    ///
    /// - As long after its attempt began as this client's own answers have taken lately.
    /// - At the end of the longest attempt, which is on record.
    /// - At the end of its lease, when another process may take the operation.
    ///
    /// A holder asks for a lease of what it waits first, the attempt, and the margin. So the attempt begins no earlier
    /// than the last two before the lease's end. The margin is this client's own: a holder with a longer one is
    /// expected too late, never after its lease.
    fn expected_end(&self, record: &Record, lease_until: Timestamp, now: Timestamp) -> Timestamp {
        let longest = record.attempt_max.saturating_sub(self.queue_max(self.vendor.base_url()));
        let after_wait = longest.saturating_add(self.policy.lease_margin);
        let begins = record.updated_at.max(lease_until.minus(after_wait));
        let guesses = [self.latency.expected(), Some(longest)];
        let ends = guesses.into_iter().flatten().map(|lasts| begins.plus(lasts)).find(|end| *end > now);
        ends.map_or(lease_until, |end| end.min(lease_until))
    }

    /// The result of a call that was refused before its claim: what became of the operation if it has ended, else the
    /// refusal with the effect as on record. The outcome of a life that is over is not this call's.
    pub(super) async fn refused_before_claim(&self, refused: Error, call: Keyed<'_>) -> Result<Reply, Stop> {
        let (standing, (effect, disposition)) = self.standing_and_word(call.offered).await;
        let effect = Guard::EffectFromRecord.or(effect, Effect::None);
        let refused = refused.with_effect(effect).with_disposition(disposition);
        match standing {
            Standing::Final { outcome, is_over: false, .. } if Guard::ReplayBehindGates.holds() => {
                Ok((*outcome)?)
            }
            // Earlier than that, the key would only be in progress.
            Standing::Open(open) => Err(self.busy_or_wait(refused.not_before(open.expected), &open, call)),
            _ => Err(refused.into()),
        }
    }

    /// The result of a call that the record alone decides; `None` if it has to be claimed.
    pub(super) async fn answer_from_record(&self, call: Keyed<'_>) -> Option<Result<Reply, Stop>> {
        match self.standing(call.offered).await {
            Standing::Final { outcome, is_over: false, .. } => Some((*outcome).map_err(Stop::from)),
            Standing::Open(open) if !open.is_free => Some(Err(self.held(&open, call))),
            _ => None,
        }
    }

    /// The result of a call whose claim failed, or was not answered in time.
    pub(super) async fn not_claimed(
        &self,
        failure: Option<StoreError>,
        call: Keyed<'_>,
    ) -> Result<Reply, Stop> {
        let named = |error| self.named(error, call.offered);
        let until = call.due.unwrap_or_else(|| self.wall().plus(self.lease(call.work)));
        let meaning = claim_failure(failure.as_ref());
        Err(match (meaning, failure) {
            (ClaimFailure::Displaced, Some(source)) => return self.displaced(source, call).await,
            // An earlier call's record may be there all the same.
            (ClaimFailure::WroteNothing | ClaimFailure::NotHeld, Some(source)) => {
                let failed = Error::new(Kind::Store { doing: CLAIM }, Effect::None).with_source(source);
                return self.refused_before_claim(named(failed), call).await;
            }
            (_, Some(source)) => named(perhaps_claimed(CLAIM, until).with_source(source)).into(),
            (_, None) => named(perhaps_claimed("claim the operation in time", until)).into(),
        })
    }

    /// The result of a call from a store that may be a copy. An ended operation is replayed. Whatever the
    /// original has done with anything else since, or does now, is not known.
    async fn displaced(&self, source: StoreError, call: Keyed<'_>) -> Result<Reply, Stop> {
        if let Standing::Final { outcome, is_over: false, .. } = self.standing(call.offered).await {
            return Ok((*outcome)?);
        }
        let failed = Error::new(Kind::Store { doing: CLAIM }, Effect::Unknown).with_source(source);
        Err(self.named(failed.with_disposition(Disposition::Continues { at: None }), call.offered).into())
    }

    /// The result of a call whose claim met another caller's, which frees at `frees_at` at the latest.
    pub(super) async fn busy(&self, call: Keyed<'_>, frees_at: Timestamp) -> Result<Reply, Stop> {
        match self.standing(call.offered).await {
            Standing::Final { outcome, .. } => Ok((*outcome)?),
            Standing::Open(open) => Err(self.held(&open, call)),
            // It ended so just now: this call came while it was under way.
            Standing::Free(refused) => Err(refused.into()),
            Standing::Absent | Standing::CannotSay => {
                let told = Error::new(Kind::InProgress, Effect::Unknown).with_retry_at(Some(frees_at));
                Err(Stop::Held(self.named(told, call.offered)))
            }
        }
    }

    /// The result of a call that was fenced out, or whose write failed or was not answered in time, as `failed` says.
    /// The operation may have succeeded on record by another's hand, or have ended by a write of its own that was taken
    /// for lost: under its own fence. Then that is what became of the call. Else the call is told who has it now.
    pub(super) async fn unless_overtaken(
        &self,
        failed: Error,
        offered: Offered<'_>,
        fence: u64,
    ) -> Result<Reply, Error> {
        let standing = self.standing(offered).await;
        let (_, disposition) = standing.word();
        match standing {
            Standing::Final { outcome, fence: held, .. } if outcome.is_ok() || held == fence => {
                outcome.map_err(|error| error.with_attempts(failed.attempts().to_vec()))
            }
            Standing::CannotSay => Err(failed),
            // What this holder sent, the record need not know of.
            _ => Err(failed.with_disposition(disposition)),
        }
    }

    fn held(&self, open: &Open, call: Keyed<'_>) -> Stop {
        self.busy_or_wait(self.named(in_progress(open), call.offered), open, call)
    }

    /// A call may wait for what can end in its time.
    fn busy_or_wait(&self, told: Error, open: &Open, call: Keyed<'_>) -> Stop {
        let is_worth_it = !open.is_free && self.may_end_in_time(open, call);
        if is_worth_it { Stop::Held(told) } else { Stop::With(told) }
    }
}

/// Between two reads of a record that should be free by now: as long as between two looks.
const LATE: Duration = Duration::from_millis(500);

/// A claim that failed and may be on file all the same. Then it is carried out without its caller, once the lease
/// that it asked for is over or it is due.
///
/// Why it is not withdrawn: a claim whose answer was lost gives no fence to withdraw it under. A claim that is found on file
/// may be another caller's claim of the same key, from the same millisecond, whose request is on its way. And a slow
/// store may still write what is not found. So a withdrawal could only be certain with a claimant's name on record,
/// and could end another call's operation without one. Not withdrawn, the operation is recovered and is carried out
/// once; the caller sends the same key again and learns of it.
fn perhaps_claimed(doing: &'static str, until: Timestamp) -> Error {
    Error::new(Kind::Store { doing }, Effect::Unknown)
        .with_retry_at(Some(until))
        .with_disposition(Disposition::Continues { at: Some(until) })
}

pub(super) fn in_progress(open: &Open) -> Error {
    Error::new(Kind::InProgress, open.effect)
        .with_retry_at(Some(open.expected))
        .with_disposition(open.disposition())
}

const CLAIM: &str = "claim the operation";
