//! What the crate says while it works: `tracing` spans and events, and with feature `metrics` counters and
//! histograms through the `metrics` facade.
//!
//! Attribute names are OpenTelemetry's for HTTP clients (`http.request.method`, `server.address`,
//! `http.response.status_code`, `http.request.resend_count`, `error.type`), and `steadfast.*` for what HTTP
//! has no word for. No query, no header's value, no body and no secret is ever among them; the one place that
//! decides this is here. `url.full` is left out because a query is part of it; `url.path` is there instead.
//!
//! The names are public: `src/docs/observability.md` lists them, and a test holds the list to this file.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tracing::field::{Empty, display};
use tracing::{Span, debug, info, info_span, warn};

use crate::answer::Answer;
use crate::clock::{Clock, Instant};
use crate::error::{Effect, Error, Gate, Reason};
use crate::operation::OperationId;
use crate::operation::record::{Declined, Record};
use crate::reply::{Obtained, Reply};
use crate::request::Request;
use crate::transport::SendError;
use crate::vendor::Verdict;

mod meter;

pub(crate) use meter::Meters;

/// The span around one call. Fields that are not known yet are filled in by [`named`] and [`ended`].
pub(crate) fn call_span(vendor: &str, request: &Request) -> Span {
    info_span!(
        "vendor_call",
        otel.name = %request.method,
        otel.kind = "client",
        steadfast.vendor = vendor,
        http.request.method = %request.method,
        server.address = request.url.host_str().unwrap_or_default(),
        server.port = request.url.port_or_known_default(),
        url.path = request.url.path(),
        http.response.status_code = Empty,
        error.type = Empty,
        steadfast.operation = Empty,
        steadfast.wire_key = Empty,
        steadfast.attempts = Empty,
        steadfast.effect = Empty,
        steadfast.obtained = Empty,
    )
}

/// Says in the call's span which operation it is, before anything that happens to it is reported.
pub(crate) fn named(id: &OperationId, wire_key: &str) {
    let span = Span::current();
    if !span.is_disabled() {
        span.record("steadfast.operation", display(id));
        span.record("steadfast.wire_key", wire_key);
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

/// One attempt is over.
pub(crate) fn attempted(
    (vendor, meters): (&str, &Meters),
    wire_key: Option<&str>,
    number: u32,
    outcome: &Result<Answer, SendError>,
    verdict: &Verdict,
    latency: Duration,
) {
    let status = outcome.as_ref().ok().map(|answer| answer.status.as_u16());
    let failure = outcome.as_ref().err().map(|error| error.kind().name());
    debug!(
        steadfast.vendor = vendor,
        steadfast.wire_key = wire_key,
        steadfast.attempt = number,
        http.request.resend_count = number.saturating_sub(1),
        http.response.status_code = status,
        error.type = failure,
        steadfast.verdict = verdict.name(),
        steadfast.effect = effect_of(verdict),
        steadfast.latency_ms = latency.as_millis() as u64,
        "attempt"
    );
    match verdict {
        Verdict::Done { .. } => meters.attempts_done.count(),
        _ => count(ATTEMPTS, vendor, "verdict", verdict.name()),
    }
    meters.attempt_seconds.observe(|| latency);
}

/// What an attempt did, as far as its verdict tells.
const fn effect_of(verdict: &Verdict) -> &'static str {
    match verdict {
        Verdict::Done { .. } => "applied",
        Verdict::Refused(_) | Verdict::Retry { effect: Effect::None, .. } => "none",
        Verdict::Retry { effect: Effect::Unknown, .. } | Verdict::Unknown => "unknown",
    }
}

/// A wait before the next attempt has been decided on.
pub(crate) fn waiting(vendor: &str, attempts: u32, wait: Duration) {
    info!(
        steadfast.vendor = vendor,
        steadfast.attempt = attempts,
        steadfast.wait_ms = wait.as_millis() as u64,
        "waiting to retry"
    );
    observe(RETRY_SECONDS, vendor, || wait);
}

/// One of our own gates ended a call.
pub(crate) fn refused(vendor: &str, gate: Gate) {
    warn!(steadfast.vendor = vendor, steadfast.gate = gate.name(), "refused");
    count(REFUSALS, vendor, "gate", gate.name());
}

/// One of our own gates refused for now; the call waits.
pub(crate) fn held_back(vendor: &str, gate: Gate, wait: Duration) {
    debug!(
        steadfast.vendor = vendor,
        steadfast.gate = gate.name(),
        steadfast.wait_ms = wait.as_millis() as u64,
        "held back"
    );
    count(REFUSALS, vendor, "gate", gate.name());
}

/// An answer to an earlier send: `from` our own `record`, or the `vendor`'s.
pub(crate) fn replayed(vendor: &str, from: &'static str) {
    debug!(steadfast.vendor = vendor, steadfast.from = from, "replayed");
    count(REPLAYS, vendor, "from", from);
}

/// An operation that somebody else had begun is now ours.
pub(crate) fn taken_over(record: &Record) {
    info!(
        steadfast.operation = %record.id,
        steadfast.wire_key = record.wire_key,
        steadfast.effect = %record.effect,
        steadfast.fence = record.fence,
        "taken over"
    );
}

/// A client was built without a store. Said once in a process: a service has one reason for it, however many clients.
pub(crate) fn forgetful(vendor: &str) {
    static SAID: AtomicBool = AtomicBool::new(false);
    if !SAID.swap(true, Ordering::Relaxed) {
        warn!(
            steadfast.vendor = vendor,
            "no store: operations are in memory only, and a crash of this process forgets them. Give the client a \
             store, such as Sqlite::open(\"vendor-calls.db\"), or `store = \"sqlite:vendor-calls.db\"` in the vendors \
             file; Memory::new() says that it is meant"
        );
    }
}

/// The dispatcher could not ask the store what there is to do, or remove what has expired.
pub(crate) fn recovery_failed(vendor: &str, error: &dyn std::error::Error) {
    warn!(steadfast.vendor = vendor, error = %error, "recovery failed");
}

/// A write changed nothing because the operation is no longer ours.
pub(crate) fn declined(record: &Record, doing: &str, declined: Declined) {
    warn!(
        steadfast.operation = %record.id,
        steadfast.fence = record.fence,
        steadfast.doing = doing,
        steadfast.because = ?declined,
        "the store declined a write"
    );
}

/// A look-up has been answered.
pub(crate) fn looked_up(vendor: &str, found: &'static str) {
    info!(steadfast.vendor = vendor, steadfast.found = found, "looked up");
    count(LOOK_UPS, vendor, "found", found);
}

/// An operation became a dead letter.
pub(crate) fn dead_letter(record: &Record, vendor: &str, reason: Reason) {
    warn!(
        steadfast.vendor = vendor,
        steadfast.operation = %record.id,
        steadfast.wire_key = record.wire_key,
        steadfast.attempts = record.attempts,
        steadfast.effect = %record.effect,
        steadfast.reason = %reason,
        "dead letter"
    );
    count(
        DEAD_LETTERS,
        vendor,
        "reason",
        match reason {
            Reason::Exhausted => "exhausted",
            Reason::Expired => "expired",
            Reason::Unknown => "unknown",
        },
    );
}

/// Calls ended, by `outcome` (`ok` or an error code).
const CALLS: &str = "steadfast_calls_total";
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
/// Look-ups, by what they `found`.
const LOOK_UPS: &str = "steadfast_look_ups_total";
/// From an attempt's admission to its answer, in seconds.
const ATTEMPT_SECONDS: &str = "steadfast_attempt_duration_seconds";
/// From `send()` to its end, in seconds.
const CALL_SECONDS: &str = "steadfast_call_duration_seconds";
/// Waits decided on before retries, in seconds.
const RETRY_SECONDS: &str = "steadfast_retry_delay_seconds";

#[cfg(feature = "metrics")]
fn count(name: &'static str, vendor: &str, label: &'static str, value: &'static str) {
    metrics::counter!(name, "vendor" => vendor.to_owned(), label => value).increment(1);
}

#[cfg(feature = "metrics")]
fn observe(name: &'static str, vendor: &str, duration: impl FnOnce() -> Duration) {
    metrics::histogram!(name, "vendor" => vendor.to_owned()).record(duration().as_secs_f64());
}

#[cfg(not(feature = "metrics"))]
fn count(_: &'static str, _: &str, _: &'static str, _: &'static str) {}

#[cfg(not(feature = "metrics"))]
fn observe(_: &'static str, _: &str, _: impl FnOnce() -> Duration) {}
