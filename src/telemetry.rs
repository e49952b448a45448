//! Telemetry of the crate: `tracing` spans and events, and with feature `metrics` counters and histograms through the
//! `metrics` facade.
//!
//! Attribute names are OpenTelemetry's for HTTP clients (`http.request.method`, `server.address`,
//! `http.response.status_code`, `http.request.resend_count`, `error.type`), and `steadfast.*` for facts that HTTP has
//! no word for. No query, no header's value, no body and no secret is ever among them; the one place that decides this
//! is here. `url.full` is left out because a query is part of it; `url.path` is there instead, below the adapter's base
//! and with nothing in it that could be a token.
//!
//! Each event has its call's names by itself, and not only by the span that it is in: recovery has no caller's span,
//! and not every subscriber prints spans.
//!
//! The names are public: `src/docs/observability.md` lists them, and a test holds the list to this file.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tracing::field::{Empty, display};
use tracing::{Level, Span, debug, error, info, info_span, warn};

use steadfast_core::clock::{Clock, Instant};
use steadfast_core::internal::error::Chain;
use steadfast_core::internal::vendor::{ShownOperation, ShownPath};
use steadfast_core::operation::OperationId;
use steadfast_core::operation::record::{Declined, Phase, Record};
use steadfast_core::transport::{Answer, Request, SendError};
use steadfast_core::vendor::{Vendor, Verdict};
use steadfast_core::{Effect, Error, Gate, Reason};

use crate::reply::{Obtained, Reply};

pub(crate) mod credentials;
mod meter;
mod panic;
pub(crate) mod recovery;

pub(crate) use meter::Meters;
use meter::{count, observe};
pub(crate) use panic::recovery_panicked;

/// Context of an event: its vendor, request and operation.
#[derive(Clone, Copy)]
pub(crate) struct Whose<'a> {
    pub vendor: &'a dyn Vendor,
    pub request: &'a Request,
    /// The operation's name and its wire key, once they are known.
    pub operation: Option<(&'a OperationId, &'a str)>,
}

impl<'a> Whose<'a> {
    /// The operation on record.
    pub(crate) fn of(vendor: &'a dyn Vendor, record: &'a Record) -> Whose<'a> {
        Whose { vendor, request: &record.request, operation: Some((&record.id, &record.wire_key)) }
    }

    fn name(&self) -> &'a str {
        self.vendor.name()
    }

    fn path(&self) -> ShownPath<'a> {
        ShownPath::of(self.vendor, &self.request.url)
    }

    fn key(&self) -> Option<&'a str> {
        self.operation.map(|(id, _)| id.key.as_str())
    }

    fn wire_key(&self) -> Option<&'a str> {
        self.operation.map(|(_, wire_key)| wire_key)
    }

    fn shown_operation(&self) -> Option<tracing::field::DisplayValue<ShownOperation<'a>>> {
        self.operation.map(|(id, _)| display(ShownOperation { vendor: self.vendor, id }))
    }
}

/// An event with whose it is.
macro_rules! event {
    ($level:ident, $whose:expr, $message:literal, { $($fields:tt)* }) => {
        $level!(
            steadfast.vendor = $whose.name(),
            http.request.method = %$whose.request.method,
            url.path = %$whose.path(),
            steadfast.key = $whose.key(),
            steadfast.wire_key = $whose.wire_key(),
            $($fields)*
            $message
        )
    };
}

// Behind the macro that it uses.
pub(crate) mod outbox;
pub(crate) mod stream;

/// The span around one call. Fields that are not known yet are filled in by [`named`] and [`ended`].
pub(crate) fn call_span(vendor: &dyn Vendor, request: &Request) -> Span {
    info_span!(
        "vendor_call",
        otel.name = %request.method,
        otel.kind = "client",
        steadfast.vendor = vendor.name(),
        http.request.method = %request.method,
        server.address = request.url.host_str().unwrap_or_default(),
        server.port = request.url.port_or_known_default(),
        url.path = %ShownPath::of(vendor, &request.url),
        http.response.status_code = Empty,
        error.type = Empty,
        steadfast.operation = Empty,
        steadfast.key = Empty,
        steadfast.wire_key = Empty,
        steadfast.attempts = Empty,
        steadfast.effect = Empty,
        steadfast.obtained = Empty,
    )
}

/// Says in the call's span which operation it is, before anything that happens to it is reported.
pub(crate) fn named(whose: Whose<'_>) {
    let span = Span::current();
    if !span.is_disabled() {
        span.record("steadfast.operation", whose.shown_operation());
        span.record("steadfast.key", whose.key());
        span.record("steadfast.wire_key", whose.wire_key());
    }
}

/// Fills in the call's span and counts the call.
pub(crate) fn ended(
    span: &Span,
    (vendor, meters): (&str, &Meters),
    result: &Result<Reply, Error>,
    clock: &dyn Clock,
    started: Instant,
) {
    if !span.is_disabled() {
        match result {
            Ok(reply) => describe_reply(span, reply),
            Err(error) => describe_error(span, error),
        }
    }
    match result {
        Ok(_) => meters.calls_ok.count(),
        Err(error) => count(CALLS, vendor, "outcome", error.code()),
    }
    meters.call_seconds.observe(|| clock.now().since(started));
    if let Err(error) = result
        && (error.is_key_reused() || error.is_in_progress())
    {
        count(CONFLICTS, vendor, "code", error.code());
    }
}

fn describe_reply(span: &Span, reply: &Reply) {
    span.record("http.response.status_code", reply.status().as_u16());
    span.record("steadfast.attempts", reply.attempts());
    span.record(
        "steadfast.obtained",
        match reply.obtained() {
            Obtained::Fresh => "fresh",
            Obtained::Replayed => "replayed",
            Obtained::Reconciled => "reconciled",
        },
    );
}

fn describe_error(span: &Span, error: &Error) {
    span.record("error.type", error.code());
    span.record("steadfast.effect", display(error.effect()));
    span.record("steadfast.attempts", error.attempts().len());
    if let Some(status) = error.status() {
        span.record("http.response.status_code", status.as_u16());
    }
}

/// Reports the end of an attempt.
pub(crate) fn attempted(
    (whose, meters): (Whose<'_>, &Meters),
    number: u32,
    outcome: &Result<Answer, SendError>,
    verdict: &Verdict,
    latency: Duration,
) {
    let failure = outcome.as_ref().err();
    event!(debug, whose, "attempt", {
        steadfast.attempt = number,
        http.request.resend_count = number.saturating_sub(1),
        http.response.status_code = outcome.as_ref().ok().map(status),
        error.type = failure.map(|failure| failure.kind().name()),
        steadfast.cause = failure.map(cause),
        steadfast.verdict = verdict.name(),
        steadfast.effect = effect_of(verdict),
        steadfast.latency_ms = latency.as_millis() as u64,
    });
    match verdict {
        Verdict::Done { .. } => meters.attempts_done.count(),
        _ => count(ATTEMPTS, whose.name(), "verdict", verdict.name()),
    }
    meters.attempt_seconds.observe(|| latency);
}

fn status(answer: &Answer) -> u16 {
    answer.status.as_u16()
}

/// Returns the reason for which there was no answer, with all its sources.
fn cause(failure: &SendError) -> tracing::field::DisplayValue<Chain<'_>> {
    display(Chain(failure))
}

/// Returns the effect of an attempt, as far as its verdict shows it.
const fn effect_of(verdict: &Verdict) -> &'static str {
    match verdict {
        Verdict::Done { .. } => "applied",
        Verdict::Refused { .. } | Verdict::Retry { effect: Effect::None, .. } => "none",
        Verdict::Retry { effect: Effect::Unknown, .. } | Verdict::Unknown => "unknown",
        Verdict::Retry { effect: Effect::Applied, .. } => "applied",
    }
}

/// A wait before the next attempt has been decided on. `answer` or `failure` is what the last one met.
pub(crate) fn waiting(
    whose: Whose<'_>,
    attempts: u32,
    wait: Duration,
    (answer, failure): (Option<&Answer>, Option<&SendError>),
) {
    event!(info, whose, "waiting to retry", {
        steadfast.attempt = attempts,
        steadfast.wait_ms = wait.as_millis() as u64,
        http.response.status_code = answer.map(status),
        error.type = failure.map(|failure| failure.kind().name()),
        steadfast.cause = failure.map(cause),
    });
    observe(RETRY_SECONDS, whose.name(), || wait);
}

/// Reports that one of our own gates ended a call.
pub(crate) fn refused(whose: Whose<'_>, gate: Gate) {
    event!(warn, whose, "refused", { steadfast.gate = gate.name(), });
    count(REFUSALS, whose.name(), "gate", gate.name());
}

/// Reports that one of our own gates refused for now, and that the call waits.
pub(crate) fn held_back(whose: Whose<'_>, gate: Gate, wait: Duration) {
    event!(debug, whose, "held back", {
        steadfast.gate = gate.name(),
        steadfast.wait_ms = wait.as_millis() as u64,
    });
    count(REFUSALS, whose.name(), "gate", gate.name());
}

/// An answer to an earlier send: `from` our own `record`, or the `vendor`'s.
pub(crate) fn replayed(whose: Whose<'_>, from: &'static str) {
    event!(debug, whose, "replayed", { steadfast.from = from, });
    count(REPLAYS, whose.name(), "from", from);
}

/// Counts a call that was to be enqueued.
pub(crate) fn accepted(vendor: &str, is_new: Result<bool, &Error>) {
    let outcome = is_new.map_or_else(Error::code, |is_new| if is_new { "new" } else { "on_record" });
    count(ENQUEUED, vendor, "outcome", outcome);
}

/// Recovery has carried an operation on, to its end or to a later time.
pub(crate) fn recovered(vendor: &str, outcome: &'static str) {
    count(RECOVERED, vendor, "outcome", outcome);
}

/// Another call holds the operation; this one waits for its outcome.
pub(crate) fn waiting_for_holder(whose: Whose<'_>, wait: Duration) {
    event!(debug, whose, "waiting for the outcome", { steadfast.wait_ms = wait.as_millis() as u64, });
}

/// Recovery carries on with an operation that was due: one that was enqueued, postponed or redriven.
pub(crate) fn delivering(vendor: &dyn Vendor, record: &Record) {
    let whose = Whose::of(vendor, record);
    event!(debug, whose, "delivering", {
        steadfast.operation = whose.shown_operation(),
        steadfast.attempt = record.attempts.saturating_add(1),
        steadfast.effect = %record.effect,
    });
}

/// An operation whose holder left it behind is now ours.
pub(crate) fn taken_over(vendor: &dyn Vendor, record: &Record) {
    let whose = Whose::of(vendor, record);
    event!(info, whose, "taken over", {
        steadfast.operation = whose.shown_operation(),
        steadfast.effect = %record.effect,
        steadfast.fence = record.fence,
    });
}

/// Reports a client that was built without a store. It is reported once in a process: a service has one reason for it,
/// however many clients. It only counts as reported if a subscriber listens: a client may be built before the
/// subscriber is there.
pub(crate) fn forgetful(vendor: &str) {
    static SAID: AtomicBool = AtomicBool::new(false);
    if tracing::enabled!(Level::WARN) && !SAID.swap(true, Ordering::Relaxed) {
        warn!(
            steadfast.vendor = vendor,
            "no store: operations are in memory only, and a crash of this process forgets them. Give the client a \
             store, such as Sqlite::open(\"vendor-calls.db\"), or `store = \"sqlite:vendor-calls.db\"` in the vendors \
             file; Memory::new() says that it is meant"
        );
    }
}

/// Reports a client that was built without a namespace. It is reported once in a process, as [`forgetful`] is.
pub(crate) fn nameless(vendor: &str) {
    static SAID: AtomicBool = AtomicBool::new(false);
    if tracing::enabled!(Level::WARN) && !SAID.swap(true, Ordering::Relaxed) {
        warn!(steadfast.vendor = vendor, "no namespace: {NAMELESS}");
    }
}

/// Consequence of a missing namespace, and its remedy.
pub(crate) const NAMELESS: &str = "a service or a developer with another store that calls the same account \
     under the same key is given this one's outcome as its own. Give each its own, with `.namespace(\"prod\")` or \
     `namespace = \"prod\"` in the vendors file. That renames every key, so carry what is on record on with `steadfast \
     adopt` before the service starts again; the namespace \"default\" says that it is meant";

/// Reports a client of a real vendor that was built on a store on unsafe ground. Each kind is reported once in a
/// process.
pub(crate) fn unsafe_footing(vendor: &str, warning: &str) {
    static SAID: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
    if tracing::enabled!(Level::WARN) && SAID.lock().insert(warning.to_owned()) {
        warn!(steadfast.vendor = vendor, reason = warning, "the store's file is unsafe");
    }
}

/// The dispatcher could not ask the store what there is to do, or remove what has expired.
pub(crate) fn recovery_failed(vendor: &str, error: &(dyn std::error::Error + 'static)) {
    warn!(steadfast.vendor = vendor, error = %Chain(error), "recovery failed");
}

/// Open operations on the store that no client of this process carries on with.
pub(crate) fn unreached(vendor: &str, account: &str, phase: Phase, count: u64) {
    warn!(
        steadfast.vendor = vendor,
        steadfast.account = account,
        steadfast.phase = phase.name(),
        steadfast.count = count,
        "no client carries on with these operations: was an account or a namespace renamed? `steadfast adopt` carries \
         them on under the new name, `steadfast cancel` ends one"
    );
}

/// Reports that this client's terms are not those that another service has registered for the account.
pub(crate) fn disagrees(vendor: &str, account: &str, error: &Error) {
    error!(
        steadfast.vendor = vendor,
        steadfast.account = account,
        error = %error,
        "nothing is recovered and keyed calls are refused, because the terms of the account are not those in the store"
    );
}

/// A write changed nothing because the operation is no longer ours.
pub(crate) fn declined(vendor: &dyn Vendor, record: &Record, doing: &str, declined: Declined) {
    let whose = Whose::of(vendor, record);
    event!(warn, whose, "the store declined a write", {
        steadfast.operation = whose.shown_operation(),
        steadfast.fence = record.fence,
        steadfast.doing = doing,
        steadfast.because = ?declined,
    });
}

/// A success came late, of an operation that was started over or carried on under another name.
pub(crate) fn may_have_happened_twice(vendor: &dyn Vendor, record: &Record) {
    let whose = Whose::of(vendor, record);
    let elsewhere = record.resolved.as_ref().map(|said| said.resolution.to_string()).unwrap_or_default();
    event!(error, whose, "may have taken effect twice", {
        steadfast.operation = whose.shown_operation(),
        steadfast.fence = record.fence,
        steadfast.because = elsewhere,
    });
}

/// A lookup has been made.
pub(crate) fn looked_up(whose: Whose<'_>, found: &'static str) {
    event!(info, whose, "looked up", { steadfast.found = found, });
    count(LOOKUPS, whose.name(), "found", found);
}

/// An operation became a dead letter. `answer` or `failure` is what its last attempt met.
pub(crate) fn dead_letter(
    vendor: &dyn Vendor,
    record: &Record,
    reason: Reason,
    (answer, failure): (Option<&Answer>, Option<&SendError>),
) {
    let whose = Whose::of(vendor, record);
    event!(warn, whose, "dead letter", {
        steadfast.operation = whose.shown_operation(),
        steadfast.attempts = record.attempts,
        steadfast.effect = %record.effect,
        steadfast.reason = %reason,
        http.response.status_code = answer.map(status),
        error.type = failure.map(|failure| failure.kind().name()),
        steadfast.cause = failure.map(cause),
    });
    count(DEAD_LETTERS, whose.name(), "reason", reason.name());
}

/// Calls ended, by `outcome` (`ok` or an error code).
const CALLS: &str = "steadfast_calls_total";
/// Calls enqueued, by `outcome` (`new`, `on_record` or an error code).
const ENQUEUED: &str = "steadfast_enqueued_total";
/// Operations that recovery carried on, by `outcome`.
const RECOVERED: &str = "steadfast_recovered_total";
/// Attempts made, by `verdict`.
const ATTEMPTS: &str = "steadfast_attempts_total";
/// Answers to an earlier send, by whose they were: `from` the `record` or the `vendor`.
const REPLAYS: &str = "steadfast_replays_total";
/// Keys reused or in progress, by `code`.
const CONFLICTS: &str = "steadfast_conflicts_total";
/// Refusals of our own, by `gate`.
const REFUSALS: &str = "steadfast_refusals_total";
/// Dead letters, by `reason`.
const DEAD_LETTERS: &str = "steadfast_dead_letters_total";
/// A row of the outbox that was rejected counts as one of them.
const REJECTED_ROW: &str = "rejected_row";
/// Lookups, by what they `found`.
const LOOKUPS: &str = "steadfast_lookups_total";
/// Time from an attempt's admission to its answer, in seconds.
const ATTEMPT_SECONDS: &str = "steadfast_attempt_duration_seconds";
/// Time from `send()` to its end, in seconds.
const CALL_SECONDS: &str = "steadfast_call_duration_seconds";
/// Waits decided on before retries, in seconds.
const RETRY_SECONDS: &str = "steadfast_retry_delay_seconds";
