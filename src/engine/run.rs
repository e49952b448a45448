//! A call under way: its facts, its progress, and what the driver has in hand.

use std::borrow::Cow;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::mem;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use steadfast_core::clock::Instant;
use steadfast_core::internal::decision::{Context, Now, Progress, Recorded};
use steadfast_core::internal::ext::ErrorExt;
use steadfast_core::internal::guard::Guard;
use steadfast_core::internal::operation::Repeat;
use steadfast_core::internal::policy::{Admission, Waiting};
use steadfast_core::transport::{Answer, Request, SendError};
use steadfast_core::vendor::Subject;
use steadfast_core::{AttemptReport, Error};

use super::aside::Aside;
use super::hold::Hold;
use super::leaving::Shutdown;
use super::{Engine, Work};
use crate::telemetry::Whose;

/// One call under way.
pub(super) struct Run<'a> {
    pub(super) engine: &'a Engine,
    /// As it is on record, for an operation.
    pub(super) request: &'a Request,
    pub(super) context: Context<'a>,
    pub(super) progress: Progress,
    /// `None` for a call without a key. Boxed: a record is large.
    pub(super) hold: Option<Box<Hold<'a>>>,
    pub(super) log: AttemptLog,
    pub(super) in_hand: InHand<'a>,
    /// Whether the deadline goes out in `X-Request-Timeout`.
    pub(super) pass_deadline_on: bool,
    /// Says when the process stops that took the operation over.
    pub(super) leaving: Option<Shutdown>,
    /// For a call whose reply is streamed.
    pub(super) aside: Option<Box<Aside<'a>>>,
    /// Tells a call without a key from all others once it has failed.
    number: Option<u64>,
    /// The tape of a test that records.
    #[cfg(feature = "testkit")]
    pub(super) tape: Option<usize>,
}

/// The things that pass from one step to a later one.
#[derive(Default)]
pub(super) struct InHand<'a> {
    /// The gates' leave for the next send or lookup.
    pub admission: Option<Admission<'a>>,
    /// The place among those of recovery that wait for the rate.
    pub turn: Option<Waiting<'a>>,
    /// The last answer: to an attempt, or as a lookup found it.
    pub answer: Option<Answer>,
    /// The last attempt's failure.
    pub failure: Option<SendError>,
    /// The next page of a lookup. Boxed: nearly no call has one.
    pub question: Option<Box<Request>>,
    /// The line of the last lookup, until it is known what it proves.
    pub line: Option<Box<AttemptReport>>,
    /// Beginning and end of the last exchange.
    pub exchanged: Option<(Instant, Instant)>,
    /// The failure that ends the call.
    pub error: Option<Error>,
}

impl<'a> Run<'a> {
    pub(super) fn new(
        engine: &'a Engine,
        work: &'a Work,
        request: &'a Request,
        hold: Option<Box<Hold<'a>>>,
        started: Instant,
        deadline: Instant,
    ) -> Run<'a> {
        let (policy, vendor) = (&engine.policy, &engine.vendor);
        let record = hold.as_ref().map(|hold| &hold.record);
        let on_unknown = record.map_or(work.on_unknown, |record| record.on_unknown);
        let by_http = steadfast_core::vendor::is_idempotent(&request.method);
        let is_idempotent = Guard::RepeatByVendor.or(vendor.is_idempotent(request), by_http);
        let context = Context {
            recorded: hold.as_ref().map(|hold| {
                let record = &hold.record;
                Recorded {
                    claimed_at: record.claimed_at,
                    attempt_max: record.attempt_max,
                    is_first_hold: record.fence == record.first_fence,
                    is_first_take: record.fence == record.first_fence.saturating_add(1)
                        && record.attempts == 0,
                    is_accepted: hold.is_accepted,
                }
            }),
            is_recovery: work.recovered,
            started,
            deadline,
            retries_allowed: work.retries_allowed,
            backoff: Cow::Borrowed(work.backoff(policy)),
            attempt_max: work.timeout(policy).attempt,
            pause_max: policy.pause_max,
            retention: policy.retention,
            lookups_max: policy.lookups_max,
            repeat: Repeat::chosen(&request.method, is_idempotent, on_unknown),
            is_safe: request.method.is_safe(),
            replay_window: vendor.replay_window(request),
            settle_time: vendor.settle_time(),
            lists_deleted: vendor.lists_deleted(request),
            queue_max: engine.queue_max(&request.url),
        };
        let progress = match &hold {
            Some(hold) => Progress::of_record(&hold.record, hold.lease, hold.settling),
            None => Progress::of_call(on_unknown),
        };
        Run {
            engine,
            request,
            context,
            progress,
            hold,
            log: AttemptLog::default(),
            in_hand: InHand::default(),
            pass_deadline_on: work.pass_deadline_on,
            leaving: None,
            aside: None,
            number: None,
            #[cfg(feature = "testkit")]
            tape: None,
        }
    }

    /// Both clocks, now.
    pub(super) fn now(&self) -> Now {
        Now { wall: self.engine.wall(), at: self.engine.clock.now() }
    }

    /// Whether the vendor asks to be left alone. It is not asked for a call without a key, which leaves at once.
    pub(super) fn is_paused(&self) -> bool {
        self.hold.is_some() && self.engine.gates.pause().until(self.engine.clock.now()).is_some()
    }

    /// Whether the operation is to be let go of as soon as nothing of it is under way.
    pub(super) fn is_leaving(&self) -> bool {
        self.leaving().is_some_and(Shutdown::is_now)
    }

    /// The word of the process, for an operation that it took over.
    pub(super) fn leaving(&self) -> Option<&Shutdown> {
        Guard::LetGoOnStop.keeps(self.leaving.as_ref())
    }

    /// The call's identity for its events.
    pub(super) fn whose(&self) -> Whose<'_> {
        let record = self.hold.as_ref().map(|hold| &hold.record);
        Whose {
            vendor: &**self.engine.vendor,
            request: self.request,
            operation: record.map(|record| (&record.id, record.wire_key.as_str())),
        }
    }

    /// The vendor's lookup for the operation: its first page.
    pub(super) fn first_question(&self) -> Option<Request> {
        self.engine.vendor.lookup(&self.subject()?)
    }

    /// The operation that a lookup asks about.
    pub(super) fn subject(&self) -> Option<Subject<'_>> {
        let record = &self.hold.as_ref()?.record;
        // As it is sent now: the vendor may have moved since it was recorded.
        let subject = Subject::new(self.request, &record.wire_key, record.claimed_at);
        Some(subject.with_vendor_clock(record.vendor_clock_ms))
    }

    /// The number that tells this call from all others, so that its failures count once: an operation's is the same when
    /// it comes back from the record.
    pub(super) fn number(&mut self) -> u64 {
        let Some(hold) = &self.hold else {
            return *self.number.get_or_insert_with(|| PLAIN_CALLS.fetch_add(1, Ordering::Relaxed));
        };
        let mut hasher = DefaultHasher::new();
        hold.record.id.hash(&mut hasher);
        hasher.finish() | OPERATION
    }

    /// The number of a call without a key that has failed.
    pub(super) const fn failed_number(&self) -> Option<u64> {
        self.number
    }

    /// The same error, with what the call knows of it.
    pub(super) fn in_context(&mut self, error: Error) -> Error {
        let operation = self.hold.as_ref().map(|hold| (&hold.record.id, Some(hold.record.wire_key.as_str())));
        let error = error.with_attempts(self.log.take_attempts()).with_waited(self.progress.waited());
        self.engine.in_context(error, self.request, operation)
    }
}

/// The lines of one call, of which a part is on record.
#[derive(Debug, Default)]
pub(super) struct AttemptLog {
    lines: Vec<AttemptReport>,
    /// How many of them went with a write to the record.
    written: usize,
}

impl AttemptLog {
    /// Adds a line.
    pub(super) fn push(&mut self, line: AttemptReport) {
        // Most calls have one attempt, and `push` alone makes room for four.
        self.lines.reserve_exact(1);
        self.lines.push(line);
    }

    /// Notes the wait after the last attempt, unless it is noted.
    pub(super) fn note_wait(&mut self, wait: Duration) {
        if let Some(line) = self.lines.iter_mut().rev().find(|line| !line.is_lookup()) {
            line.wait.get_or_insert(wait);
        }
    }

    /// The lines that are not on record yet.
    pub(super) fn unwritten(&self) -> &[AttemptReport] {
        self.lines.get(self.written..).unwrap_or_default()
    }

    /// All lines are on record.
    pub(super) fn mark_written(&mut self) {
        self.written = self.lines.len();
    }

    /// The attempts. A caller's attempts are what it sent; lookups are on the operation's log.
    pub(super) fn take_attempts(&mut self) -> Vec<AttemptReport> {
        let mut lines = mem::take(&mut self.lines);
        lines.retain(|line| !line.is_lookup());
        lines
    }
}

/// Calls without a key that have failed in this process.
static PLAIN_CALLS: AtomicU64 = AtomicU64::new(0);

/// Keeps the numbers of operations apart from those of plain calls.
const OPERATION: u64 = 1 << 63;
