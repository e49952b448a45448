//! The life of one operation as pure functions: state and command in, state or refusal out.
//!
//! A store carries these transitions out atomically and cannot invent semantics of its own. Four functions hold all
//! of them. [`claim`] decides what a caller who wants to send finds. [`Record::apply`] decides what a holder's later
//! write does, [`Record::take`] what a dispatcher may take, and [`Record::act`] what an operator may do.
//!
//! Why a fence and not a lock: the holder of an expired lease may still be alive and slow. A takeover moves the fence,
//! and every write names the fence that its holder got, so the slow holder's write changes nothing. The one exception
//! is an answer: a true success from a fenced-out holder settles the operation. It does so also if another process
//! holds it, and if it is scheduled or a dead letter of unknown effect. It is proof, and saves a second send. The new
//! holder renews the lease before each send, and learns then that the operation is settled.
//!
//! A key has several lives, one after the other: a record expires, and the key is used again. Fences go on from
//! life to life and never back, so that no holder of one life can be taken for a holder of the next.

use std::sync::Arc;
use std::time::Duration;

use easy_ext::ext;

use crate::answer::Answer;
use crate::attempt::AttemptReport;
use crate::clock::Timestamp;
use crate::effect::Effect;
use crate::error::{Disposition, Obstacle, Reason, Refusal};
use crate::guard::Guard;
use crate::operation::OnUnknown;
use crate::operation::record::place::RecordPlaceExt;
use crate::operation::record::rename::RecordNameExt;
use crate::operation::{Fingerprint, Key, OperationId, RedactedFields, Scope, Sequence};
use crate::request::Request;

pub(crate) mod act;
pub(crate) mod forbidden;
pub(crate) mod form;
pub(crate) mod notes;
pub(crate) mod place;
pub(crate) mod rebased;
pub(crate) mod rename;
pub(crate) mod resend;
pub(crate) mod successor;
pub(crate) mod take;
pub(crate) mod view;
pub(crate) mod wanted;

pub use act::{Act, Action, AuditEntry, Resolution, Resolved};
pub use forbidden::Forbidden;
pub use notes::{DOUBTED_FOR, Notes};
pub use place::{Ahead, Place, turn};
use rebased::moved;
pub use successor::supersede;
pub use take::Takeover;
use take::Taker;
pub use view::{Filter, Page, Phase, Summary, Tally, is_final};
pub use wanted::{Part, Wanted};

/// All that is kept of an operation. Holds the request as it is sent, without its secrets.
///
/// `Debug` shows neither headers' values nor bodies.
#[derive(Clone, Debug, PartialEq)]
pub struct Record {
    /// The operation's name.
    pub id: OperationId,
    /// Fingerprint of the request under this key.
    pub fingerprint: Fingerprint,
    /// The key that the vendor sees, in the form that the adapter gave it.
    pub wire_key: String,
    /// The request as it is sent, less the secrets that the adapter adds each time. Shared with the call that sends it.
    pub request: Arc<Request>,
    /// State of the operation: in progress, scheduled, settled or dead.
    pub state: State,
    /// Moves by one at each claim and each takeover. It goes on from one life of the key to the next, and
    /// never goes back, also not after a purge.
    pub fence: u64,
    /// The fence that this life of the key began with. A write of an earlier life's holder has an earlier fence, and no
    /// bearing on this life.
    pub first_fence: u64,
    /// Attempts made since the operation was recorded or last redriven, as far as they were recorded: its place on the
    /// ladder. Not among them are those that recovery made while the vendor's circuit was not closed, and that failed.
    /// The log has them all.
    pub attempts: u32,
    /// Effect of all attempts so far, as far as it is known. [`Effect::Applied`] in [`State::Succeeded`], and nowhere
    /// else.
    pub effect: Effect,
    /// While [`effect`](Record::effect) is unknown: the latest moment at which a send of unknown effect can have
    /// ended. A lookup's settle time counts from here, in every process. So does the day after which lookups that
    /// come to no answer end.
    pub unknown_since: Option<Timestamp>,
    /// Number of lookups that were answered since then. One that failed is not a lookup.
    pub lookups: u32,
    /// Number of sends that may still be made although each may be a second effect. A holder who uses one up writes
    /// that down before it sends.
    pub resends_left: u32,
    /// The longest exchange of the holder, or of the last one. For so long after its lease a dead holder's request
    /// may still be on its way.
    pub attempt_max: Duration,
    /// The vendor's clock less that of [`claimed_at`](Record::claimed_at), in milliseconds; `None` if it was not
    /// known.
    pub vendor_clock_ms: Option<i64>,
    /// The process that holds it, or held it last, as it [names itself](Claim::holder); `None` if that is not known. An
    /// operator reads it, and no rule does.
    pub holder: Option<Arc<str>>,
    /// The first claim: no first byte left earlier, so the vendor's replay window is counted from here.
    ///
    /// A first claim that lies in the future was made by a clock that was wrong. The next write then sets this to one
    /// retention ago, which no replay window reaches back to.
    pub claimed_at: Timestamp,
    /// The last transition.
    pub updated_at: Timestamp,
    /// Retention: how long the record is kept once it is settled.
    pub keep: Duration,
    /// Choice of the caller for an effect that stays unknown. It is on record, so recovery after a crash does what the
    /// caller chose.
    pub on_unknown: OnUnknown,
    /// Fields that are redacted in logs and in the CLI. Set by the first claim.
    pub redact: RedactedFields,
    /// A person's word on what became of it. Only a dead letter has one, and what ended otherwise once another key or name
    /// has [taken its place](Resolution::is_final).
    pub resolved: Option<Resolved>,
    /// The key of the operation that this one starts over, in the same scope.
    pub predecessor: Option<Key>,
    /// The scope of its first claim, if it was adopted since. Fingerprint and wire key are of that scope.
    pub first_scope: Option<Scope>,
    /// Its place in a sequence, if it was enqueued into one.
    pub sequence: Option<Box<Place>>,
}

/// State of an operation.
#[derive(Clone, Debug, PartialEq)]
pub enum State {
    /// A process holds it until `lease_until`, and may be sending.
    InProgress {
        /// Time from which another process may take the operation.
        lease_until: Timestamp,
    },
    /// No process holds it; it is due at `at`.
    Scheduled {
        /// Time at which the next attempt is due.
        at: Timestamp,
    },
    /// The operation took effect exactly once.
    Succeeded {
        /// The vendor's answer.
        answer: Answer,
        /// Whether the answer came from a lookup instead of the call.
        reconciled: bool,
    },
    /// The vendor refused it: no effect.
    Refused {
        /// Kind of the refusal.
        refusal: Refusal,
        /// The vendor's answer.
        answer: Answer,
    },
    /// A dead letter.
    Dead {
        /// Reason of the dead letter.
        reason: Reason,
        /// The vendor's last answer, if there was one.
        answer: Option<Answer>,
    },
}

/// Claim of a caller who wants to send.
#[derive(Clone, Debug)]
pub struct Claim {
    /// The operation's name.
    pub id: OperationId,
    /// Fingerprint of the request under this key.
    pub fingerprint: Fingerprint,
    /// The key that the vendor sees.
    pub wire_key: String,
    /// The request, without secrets. Shared with the call that claims, which keeps it for its sends.
    pub request: Arc<Request>,
    /// Time in the store, as far as the caller can tell; see [`Store::time`](crate::store::Store::time). The command's
    /// other times count from here.
    pub now: Timestamp,
    /// Length of the lease: after it, another process may take the operation.
    pub lease: Duration,
    /// Time from which a dispatcher may send; `None` if the caller sends now. Such a claim holds nothing, and takes
    /// nothing over.
    pub due: Option<Timestamp>,
    /// Retention: how long the record is kept once it is settled.
    pub keep: Duration,
    /// Choice of the caller for an effect that stays unknown. [`OnUnknown::Resend`] is one more send.
    pub on_unknown: OnUnknown,
    /// The caller's longest exchange.
    pub attempt_max: Duration,
    /// The vendor's clock less the caller's, in milliseconds, if it is known.
    pub vendor_clock_ms: Option<i64>,
    /// Process that claims, such as `web-7f9c/4711`. A claim that is [due](Claim::due) later leaves none on record.
    pub holder: Option<Arc<str>>,
    /// Fields that are redacted in logs and in the CLI. Those of the first claim stay on record.
    pub redact: RedactedFields,
    /// The key of the operation that this one starts over, in the same scope. See [`supersede`].
    pub predecessor: Option<Key>,
    /// The sequence that it is enqueued into. Means nothing without [`due`](Claim::due). A fresh operation gets the next
    /// position of its sequence in the commit of its claim, or that of its predecessor if both are of one sequence. One
    /// that is on record stays where it is.
    pub sequence: Option<Sequence>,
}

impl Claim {
    /// Moves the claim's times to `now`, the store's own clock.
    #[must_use]
    pub fn rebased(mut self, now: Timestamp) -> Claim {
        self.due = self.due.map(|due| moved(due, self.now, now));
        self.now = now;
        self
    }
}

/// Outcome of a claim.
#[derive(Clone, Debug, PartialEq)]
pub enum Claimed {
    /// The claim is the first of this life of the key: nothing was sent in it. Either the key is new, or its
    /// record had expired.
    Fresh(Record),
    /// The operation is now the caller's, and something may have been sent before: its lease had run out, or
    /// it was scheduled and is due. [`Record::effect`] says what is known.
    TakenOver(Record),
    /// The operation is now the caller's: credentials that were refused had ended it, and left its key free.
    /// [`Record::effect`] says what is known of what was sent before.
    Freed(Record),
    /// The operation is settled (succeeded, refused or dead), as in this record.
    Settled(Record),
    /// Another process holds the operation, or it is scheduled for later.
    Busy {
        /// Time at which to ask again.
        frees_at: Timestamp,
    },
    /// The key belongs to a request with this other fingerprint.
    Mismatch {
        /// The fingerprint on record.
        held: Fingerprint,
        /// Effect of the request that has the key, as far as it is known.
        effect: Effect,
        /// Fate of that request.
        next: Disposition,
    },
    /// The claim would be the first, and its predecessor stands in the way. Nothing was written.
    InTheWay {
        /// Reason for which the predecessor cannot be started over.
        obstacle: Obstacle,
        /// Effect of the predecessor, as far as it is known.
        effect: Effect,
    },
}

/// Write of a holder: the state that its operation moves to, with its fence and its evidence.
#[derive(Clone, Debug, PartialEq)]
pub struct Transition {
    /// The fence that the holder was given.
    pub fence: u64,
    /// Time in the store, as for [`Claim::now`].
    pub now: Timestamp,
    /// Attempts made so far.
    pub attempts: u32,
    /// Effect of all attempts so far, as far as it is known.
    pub effect: Effect,
    /// Start of the unknown effect, as in [`Record::unknown_since`]. With an effect that is unknown, `None` is now;
    /// with an effect that is none, it is not kept.
    pub unknown_since: Option<Timestamp>,
    /// Number of answered lookups, as in [`Record::lookups`].
    pub lookups: u32,
    /// Number of sends at risk that are left, as in [`Record::resends_left`]. No holder can raise it.
    pub resends_left: u32,
    /// State that the operation moves to. [`State::InProgress`] renews the lease, [`State::Scheduled`] releases it
    /// until then. A dead letter needs a person or a redrive.
    pub to: State,
    /// Reports of the attempts since the last write. They go on the operation's log in the same commit, under whatever
    /// fence and even if the transition is declined: they are evidence and not a decision.
    pub reports: Vec<AttemptReport>,
}

impl Transition {
    /// Moves the transition's times to `now`, the store's own clock.
    #[must_use]
    pub fn rebased(mut self, now: Timestamp) -> Transition {
        let moved = |time: Timestamp| moved(time, self.now, now);
        match &mut self.to {
            State::InProgress { lease_until: at } | State::Scheduled { at } => *at = moved(*at),
            State::Succeeded { .. } | State::Refused { .. } | State::Dead { .. } => {}
        }
        self.unknown_since = self.unknown_since.map(moved);
        self.now = now;
        self
    }
}

/// Reason for which a transition changed nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Declined {
    /// The operation does not exist.
    Absent,
    /// Another process has taken the operation since.
    Fenced,
    /// The operation is settled already, or its holder has released it until a later attempt.
    Settled,
}

/// Decides a claim: returns the record to write, if any, and the caller's answer.
///
/// `notes` are the store's, which have [seen](Notes::saw) the claim's time. They give the fence above which a new key
/// starts, and the time by which records have expired: the claim's own clock alone does not.
///
/// A lease that ends exactly now has run out: its holder stops before that moment, on a monotonic clock. A record
/// that expires exactly now has expired: a store answers the same whether or not a purge came first.
pub fn claim(existing: Option<&Record>, claim: Claim, notes: &Notes) -> (Option<Record>, Claimed) {
    let claimed = claimed(existing, claim, notes);
    (claimed.changes().cloned(), claimed)
}

/// Decides a claim as [`claim`] does, where the record to write [is in](Claimed::changes) the answer.
pub(crate) fn claimed(existing: Option<&Record>, claim: Claim, notes: &Notes) -> Claimed {
    let lease = claim.lease;
    let mut first = Record::first(claim);
    match existing {
        None => {
            first.begin_after(Guard::FenceAfterPurge.keeps(notes.purged));
            Claimed::Fresh(first)
        }
        Some(held) => held.claim(&first, lease, notes),
    }
}

/// Methods that only the crates of this workspace call.
#[ext(ClaimedExt)]
impl Claimed {
    /// The record that a store must write for this to be true.
    pub fn changes(&self) -> Option<&Record> {
        match self {
            Claimed::Fresh(record) | Claimed::TakenOver(record) | Claimed::Freed(record) => Some(record),
            Claimed::Settled(_)
            | Claimed::Busy { .. }
            | Claimed::Mismatch { .. }
            | Claimed::InTheWay { .. } => None,
        }
    }
}

/// Limits the due time of an operation that was tried to a day from now, or to the retention if that is longer. No
/// policy has longer waits, so that a later time came of a wrong number or a wrong clock, and would strand the
/// operation. An operation that its caller wanted late was claimed so, and moves by no attempt.
fn within_reach(to: State, now: Timestamp, keep: Duration) -> State {
    match to {
        State::Scheduled { at } if Guard::ScheduleInReach.holds() => {
            State::Scheduled { at: at.min(now.plus(keep.max(DAY))) }
        }
        other => other,
    }
}

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

impl Record {
    fn begin_after(&mut self, fence: u64) {
        self.fence = fence.saturating_add(1);
        self.first_fence = self.fence;
    }

    /// The record after `transition`, or why it changes nothing.
    ///
    /// # Errors
    ///
    /// [`Declined`], and the record stays as it is.
    pub fn apply(&self, transition: Transition) -> Result<Record, Declined> {
        let mut record = self.clone();
        record.apply_here(transition)?;
        Ok(record)
    }

    /// Applies a transition in place, as [`apply`](Record::apply) does to a copy: a record is large. A declined one
    /// changes nothing.
    pub(crate) fn apply_here(&mut self, transition: Transition) -> Result<(), Declined> {
        let Transition { fence, now, attempts, effect, to, .. } = transition;
        let holds =
            (fence == self.fence || Guard::Fence.is_out()) && matches!(self.state, State::InProgress { .. });
        if !holds {
            return match to {
                State::Succeeded { .. } if self.believes(fence) => {
                    self.settle_by_proof(to, now);
                    Ok(())
                }
                _ if fence != self.fence => Err(Declined::Fenced),
                _ => Err(Declined::Settled),
            };
        }
        self.move_to(within_reach(to, now, self.keep), now);
        self.attempts = attempts;
        // Known by the state, also where the holder says otherwise.
        let succeeded = matches!(self.state, State::Succeeded { .. });
        self.effect = if succeeded { Effect::Applied } else { effect };
        self.resends_left = transition.resends_left.min(self.resends_left);
        (self.unknown_since, self.lookups) = (None, 0);
        if self.effect == Effect::Unknown {
            self.unknown_since = transition.unknown_since.or(Some(now));
            self.lookups = transition.lookups;
        }
        Ok(())
    }

    /// Returns true if a success that is brought under `fence` settles the operation, although its holder was fenced
    /// out or has released it. It is proof, whatever was concluded without it, so no process may send it again. A
    /// person who undid the effect has the last word.
    fn believes(&self, fence: u64) -> bool {
        let of_this_life = (Guard::LivesApart.keeps(self.first_fence)..=self.fence).contains(&fence);
        of_this_life && self.is_open_to_proof()
    }

    fn is_open_to_proof(&self) -> bool {
        let is_unsettled = match self.state {
            State::InProgress { .. } | State::Scheduled { .. } => true,
            State::Dead { .. } if self.effect == Effect::Unknown => true,
            State::Dead { .. } | State::Refused { .. } => Guard::LateSuccessIsProof.holds(),
            State::Succeeded { .. } => false,
        };
        is_unsettled && !Guard::UndoneStays.keeps(self.is_compensated())
    }

    fn settle_by_proof(&mut self, success: State, now: Timestamp) {
        // Another key, or another name, may have had the effect too: that stays known.
        let elsewhere = self.resolved.take().filter(|resolved| resolved.resolution.is_final());
        self.move_to(success, now);
        self.resolved = elsewhere;
        self.effect = Effect::Applied;
        (self.unknown_since, self.lookups) = (None, 0);
    }

    /// Whether the record's time is over at `now`: a claim of the key then starts a new life of it.
    pub fn has_expired(&self, now: Timestamp) -> bool {
        self.expires_at().is_some_and(|at| at <= now)
    }

    /// Returns the time from which the record may be purged. Only a settled operation that needs no operator expires: a
    /// dead letter stays until it is resolved.
    pub fn expires_at(&self) -> Option<Timestamp> {
        match self.state {
            State::Succeeded { .. } | State::Refused { .. } => Some(self.updated_at.plus(self.keep)),
            State::Dead { .. } if self.resolved.is_some() || Guard::DeadLetterStays.is_out() => {
                Some(self.updated_at.plus(self.keep))
            }
            State::InProgress { .. } | State::Scheduled { .. } | State::Dead { .. } => None,
        }
    }

    /// Returns a copy in another state.
    fn moved(&self, state: State, now: Timestamp) -> Record {
        let mut record = self.clone();
        record.move_to(state, now);
        record
    }

    /// Into another state. A person's word is on the state it was given on: it does not outlast that.
    fn move_to(&mut self, state: State, now: Timestamp) {
        let ended_at = self.ended_at(now);
        (self.state, self.updated_at, self.resolved) = (state, now, None);
        if self.expires_at().is_some() {
            self.updated_at = ended_at;
        }
        if Guard::ClaimInFuture.keeps(self.claimed_at > now.plus(CLOCKS_DIFFER_MAX)) {
            self.claimed_at = now.minus(self.keep);
        }
    }

    /// Returns the time from which the retention of a record counts that ends at `now`. Of a clock that is far behind
    /// what is on record, one of the two was wrong. It is then kept from the later one: a clock that was set back by
    /// more than the retention would else end the record's time at once.
    fn ended_at(&self, now: Timestamp) -> Timestamp {
        let latest = self.updated_at.max(self.claimed_at);
        if latest > now.plus(CLOCKS_DIFFER_MAX) { latest } else { now }
    }

    /// Whether a person undid the effect. The operation then did not succeed, also if the vendor answered that it did.
    fn is_compensated(&self) -> bool {
        self.resolved.as_ref().is_some_and(|resolved| resolved.resolution == Resolution::Compensated)
    }
}

/// Methods that only the crates of this workspace call.
#[ext(RecordExt)]
impl Record {
    /// A life of a key begins with the fence after `fence`.
    pub fn after_fence(mut self, fence: u64) -> Record {
        self.begin_after(fence);
        self
    }

    /// Decides a claim that is not the first. `first` is the record that the claim would start with.
    pub fn claim(&self, first: &Record, lease: Duration, notes: &Notes) -> Claimed {
        let now = first.claimed_at;
        if Guard::ExpiryAtClaim.keeps(self.has_expired(notes.now(now))) {
            return Claimed::Fresh(first.clone().after_fence(self.fence));
        }
        if Guard::OneRequest.keeps(self.fingerprint != first.fingerprint) {
            let (held, effect, next) = (self.fingerprint, self.effect_known_to_others(), self.disposition());
            return Claimed::Mismatch { held, effect, next };
        }
        let (attempt_max, vendor_clock_ms) = (first.attempt_max, first.vendor_clock_ms);
        let taker = Taker { now, lease, attempt_max, vendor_clock_ms, holder: first.holder.as_ref() };
        let is_left = matches!(first.state, State::Scheduled { .. });
        match &self.state {
            State::InProgress { lease_until: until } | State::Scheduled { at: until }
                if Guard::EnqueueHoldsNothing.keeps(is_left) =>
            {
                Claimed::Busy { frees_at: *until }
            }
            State::InProgress { lease_until: until } | State::Scheduled { at: until } => {
                match self.left_to(taker) {
                    Some(record) => Claimed::TakenOver(record),
                    None => Claimed::Busy { frees_at: self.turn_at(now).unwrap_or(*until) },
                }
            }
            State::Refused { refusal: Refusal::Unauthorized, .. }
                if !is_left && self.waits_for().is_some() =>
            {
                Claimed::Busy { frees_at: self.turn_at(now).unwrap_or(now) }
            }
            State::Refused { refusal: Refusal::Unauthorized, .. } => {
                // Nothing was tried on the merits. Once the credentials are mended, the key is free again. Its
                // window starts anew because the vendor stored nothing under it, unless an attempt before the
                // refused one may have got through: then the vendor's window has been running since.
                let mut record = self.taken(taker, self.effect);
                if self.effect == Effect::None || Guard::WindowRunsOn.is_out() {
                    (record.claimed_at, record.vendor_clock_ms) = (now, first.vendor_clock_ms);
                    record.attempts = 0;
                }
                if is_left {
                    record.state = first.state.clone();
                }
                Claimed::Freed(record)
            }
            State::Succeeded { .. } | State::Refused { .. } | State::Dead { .. } => {
                Claimed::Settled(self.clone())
            }
        }
    }

    /// Returns the fate of the operation without its caller.
    pub fn disposition(&self) -> Disposition {
        match &self.state {
            State::InProgress { lease_until: at } | State::Scheduled { at } => {
                Disposition::Continues { at: Some(*at) }
            }
            State::Dead { reason, answer } if self.is_adopted() => match (reason, answer) {
                (Reason::Closed, None) => Disposition::Continues { at: None },
                // Its credentials were refused: the key is free under the new name.
                (Reason::Closed, Some(_)) => Disposition::Ended,
                _ => Disposition::AwaitsOperator,
            },
            State::Dead { .. } if self.resolved.is_none() => Disposition::AwaitsOperator,
            State::Dead { .. } | State::Succeeded { .. } | State::Refused { .. } => Disposition::Ended,
        }
    }

    /// Returns the effect as far as a process can know it that does not hold the operation: the holder may be sending.
    pub fn effect_known_to_others(&self) -> Effect {
        match &self.state {
            State::InProgress { .. } => Effect::Unknown,
            State::Succeeded { .. } => Effect::Applied,
            _ => self.effect,
        }
    }

    /// Returns the record of a first claim, in a store that has purged nothing.
    pub fn first(claim: Claim) -> Record {
        let held = State::InProgress { lease_until: claim.now.plus(claim.lease) };
        Record {
            id: claim.id,
            fingerprint: claim.fingerprint,
            wire_key: claim.wire_key,
            request: claim.request,
            state: claim.due.map_or(held, |at| State::Scheduled { at }),
            fence: 1,
            first_fence: 1,
            attempts: 0,
            effect: Effect::None,
            unknown_since: None,
            lookups: 0,
            resends_left: u32::from(claim.on_unknown == OnUnknown::Resend),
            attempt_max: claim.attempt_max,
            vendor_clock_ms: claim.vendor_clock_ms,
            holder: claim.holder.filter(|_| claim.due.is_none()),
            claimed_at: claim.now,
            updated_at: claim.now,
            keep: claim.keep,
            on_unknown: claim.on_unknown,
            redact: claim.redact,
            resolved: None,
            predecessor: claim.predecessor,
            first_scope: None,
            sequence: claim
                .due
                .and(claim.sequence)
                .map(|sequence| Box::new(Place { sequence, position: 0, behind: None })),
        }
    }

    /// Whether it succeeded, and was started over or carried on under another name before that was known: the effect may
    /// have been made twice.
    pub fn may_have_happened_twice(&self) -> bool {
        matches!(self.state, State::Succeeded { .. }) && self.resolved.is_some()
    }
}

impl State {
    /// The state's name in lists, logs and stores.
    pub const fn name(&self) -> &'static str {
        match self {
            State::InProgress { .. } => "in_progress",
            State::Scheduled { .. } => "scheduled",
            State::Succeeded { .. } => "succeeded",
            State::Refused { .. } | State::Dead { .. } => "failed",
        }
    }
}

/// Methods that only the crates of this workspace call.
#[ext(StateExt)]
impl State {
    /// The vendor's answer, if the operation ended with one.
    pub fn answer_mut(&mut self) -> Option<&mut Answer> {
        match self {
            State::Succeeded { answer, .. } | State::Refused { answer, .. } => Some(answer),
            State::Dead { answer, .. } => answer.as_mut(),
            State::InProgress { .. } | State::Scheduled { .. } => None,
        }
    }
}

/// The most by which a time on record may lie ahead of the clock that reads it. Beyond that, the clock that wrote it
/// was wrong. Hosts that keep time differ by less than a second. Kerberos allows five minutes (RFC 4120, section 1.3).
/// That is less than any lease or window that a mistake here could shorten.
pub const CLOCKS_DIFFER_MAX: Duration = Duration::from_secs(5 * 60);

#[cfg(test)]
mod tests;
