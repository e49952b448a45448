//! Metrics of a clean call, with their labels, made once for a client.
//!
//! The macros of `metrics` make the labels anew each time, on the heap, whether or not a recorder is installed. A clean
//! call may add two allocations in all, so its four metrics are kept ready; rare events (refusals, retries, dead
//! letters) go through the macros.

use std::time::Duration;

use steadfast_core::Reason;

use super::{ATTEMPT_SECONDS, ATTEMPTS, CALL_SECONDS, CALLS, DEAD_LETTERS, RECOVERED};
#[cfg(feature = "metrics")]
use super::{CONFLICTS, ENQUEUED, LOOKUPS, REFUSALS, REPLAYS, RETRY_SECONDS, outbox::REJECTIONS};

/// The metrics of a clean call to one vendor.
#[derive(Debug)]
pub(crate) struct Meters {
    pub calls_ok: Meter,
    pub call_seconds: Meter,
    pub attempts_done: Meter,
    pub attempt_seconds: Meter,
}

/// Reasons for which calls and dispatchers make dead letters. A person closes others, which pages no operator.
const LETTERS: [Reason; 5] =
    [Reason::Exhausted, Reason::Expired, Reason::Unknown, Reason::Elsewhere, Reason::Credentials];

/// A metric with its labels; nothing without the feature.
#[derive(Debug)]
pub(crate) struct Meter(#[cfg(feature = "metrics")] metrics::Key);

impl Meters {
    /// Counters of what an operator is paged for are there at zero from now on: a rate of a series that begins at one
    /// shows nothing of that one.
    pub(crate) fn new(vendor: &str) -> Meters {
        describe();
        for reason in LETTERS.map(Reason::name).into_iter().chain([super::REJECTED_ROW]) {
            Meter::new(DEAD_LETTERS, vendor, Some(("reason", reason))).register();
        }
        Meter::new(RECOVERED, vendor, Some(("outcome", "refused"))).register();
        Meters {
            calls_ok: Meter::new(CALLS, vendor, Some(("outcome", "ok"))),
            call_seconds: Meter::new(CALL_SECONDS, vendor, None),
            attempts_done: Meter::new(ATTEMPTS, vendor, Some(("verdict", "done"))),
            attempt_seconds: Meter::new(ATTEMPT_SECONDS, vendor, None),
        }
    }
}

/// Describes each metric to the recorder, in the words of a page of metrics.
#[cfg(feature = "metrics")]
fn describe() {
    use metrics::{KeyName, SharedString};

    metrics::with_recorder(|recorder| {
        for (name, help) in COUNTERS {
            recorder.describe_counter(KeyName::from_const_str(name), None, SharedString::const_str(help));
        }
        for (name, help) in HISTOGRAMS {
            let unit = Some(metrics::Unit::Seconds);
            recorder.describe_histogram(KeyName::from_const_str(name), unit, SharedString::const_str(help));
        }
        let held = SharedString::const_str("1 while the vendor refuses the account's credentials");
        recorder.describe_gauge(KeyName::from_const_str(super::credentials::HELD), None, held);
    });
}

#[cfg(not(feature = "metrics"))]
fn describe() {}

#[cfg(feature = "metrics")]
const COUNTERS: [(&str, &str); 10] = [
    (CALLS, "calls that ended, by outcome: ok or the code of the error"),
    (ENQUEUED, "calls left to recovery, by outcome"),
    (RECOVERED, "operations that recovery carried on, by outcome"),
    (ATTEMPTS, "requests sent to the vendor, by verdict"),
    (REPLAYS, "calls answered by an earlier send's outcome, from the record or by the vendor"),
    (CONFLICTS, "calls refused for their key: in progress, or of another request"),
    (REFUSALS, "refusals of the client's own gates"),
    (REJECTIONS, "rows of the outbox that cannot become operations, by code"),
    (LOOKUPS, "lookups at the vendor, by what they found"),
    (DEAD_LETTERS, "operations that gave up and wait for a person, by reason"),
];

#[cfg(feature = "metrics")]
const HISTOGRAMS: [(&str, &str); 3] = [
    (CALL_SECONDS, "from send() to its end, waits included"),
    (ATTEMPT_SECONDS, "from an attempt's admission to its answer"),
    (RETRY_SECONDS, "the wait decided on before a retry"),
];

#[cfg(feature = "metrics")]
impl Meter {
    fn new(name: &'static str, vendor: &str, label: Option<(&'static str, &'static str)>) -> Meter {
        let own = label.map(|(key, value)| metrics::Label::from_static_parts(key, value));
        let vendor = metrics::Label::new("vendor", vendor.to_owned());
        Meter(metrics::Key::from_parts(name, std::iter::once(vendor).chain(own).collect::<Vec<_>>()))
    }

    fn register(&self) {
        metrics::with_recorder(|recorder| drop(recorder.register_counter(&self.0, &METADATA)));
    }

    pub(super) fn count(&self) {
        metrics::with_recorder(|recorder| recorder.register_counter(&self.0, &METADATA).increment(1));
    }

    pub(super) fn observe(&self, duration: impl FnOnce() -> Duration) {
        metrics::with_recorder(|recorder| {
            recorder.register_histogram(&self.0, &METADATA).record(duration().as_secs_f64());
        });
    }
}

#[cfg(feature = "metrics")]
static METADATA: metrics::Metadata<'static> =
    metrics::Metadata::new("steadfast", metrics::Level::INFO, Some("steadfast::telemetry"));

#[cfg(not(feature = "metrics"))]
impl Meter {
    fn new(_: &'static str, _: &str, _: Option<(&'static str, &'static str)>) -> Meter {
        Meter()
    }

    #[allow(clippy::unused_self, reason = "as with the feature")]
    fn register(&self) {}

    #[allow(clippy::unused_self, reason = "as with the feature")]
    pub(super) fn count(&self) {}

    #[allow(clippy::unused_self, reason = "as with the feature")]
    pub(super) fn observe(&self, _: impl FnOnce() -> Duration) {}
}

#[cfg(feature = "metrics")]
pub(super) fn count(name: &'static str, vendor: &str, label: &'static str, value: &'static str) {
    metrics::counter!(name, "vendor" => vendor.to_owned(), label => value).increment(1);
}

#[cfg(feature = "metrics")]
pub(super) fn observe(name: &'static str, vendor: &str, duration: impl FnOnce() -> Duration) {
    metrics::histogram!(name, "vendor" => vendor.to_owned()).record(duration().as_secs_f64());
}

#[cfg(not(feature = "metrics"))]
pub(super) fn count(_: &'static str, _: &str, _: &'static str, _: &'static str) {}

#[cfg(not(feature = "metrics"))]
pub(super) fn observe(_: &'static str, _: &str, _: impl FnOnce() -> Duration) {}
