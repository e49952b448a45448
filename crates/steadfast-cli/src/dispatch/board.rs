//! What was counted, in the text format of Prometheus.
//!
//! The crate counts few things, so that this is a map behind a lock. An exporter of its own would bring a server and
//! its dependencies, which `steadfast dispatch` already has.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use metrics::{Counter, Gauge, Histogram, HistogramFn, Key, KeyName, Metadata, Recorder, SharedString, Unit};

use steadfast::dead_letter::visible;

/// Where everything is counted.
#[derive(Default)]
pub(super) struct Board {
    series: Mutex<Series>,
}

/// By name, then by labels as they are written.
#[derive(Default)]
struct Series {
    counters: BTreeMap<String, BTreeMap<String, Arc<AtomicU64>>>,
    histograms: BTreeMap<String, BTreeMap<String, Arc<Buckets>>>,
    /// What each is, by name.
    help: BTreeMap<String, String>,
}

impl Board {
    fn series(&self) -> MutexGuard<'_, Series> {
        // Whoever panicked left a map that is whole.
        self.series.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// All of it, by name.
    pub(super) fn text(&self) -> String {
        let series = self.series();
        let mut text = String::new();
        for (name, by_labels) in &series.counters {
            series.head(name, "counter", &mut text);
            for (labels, count) in by_labels {
                let _ = writeln!(text, "{name}{} {}", braced(labels), count.load(Ordering::Relaxed));
            }
        }
        for (name, by_labels) in &series.histograms {
            series.head(name, "histogram", &mut text);
            for (labels, buckets) in by_labels {
                buckets.write(name, labels, &mut text);
            }
        }
        text
    }
}

impl Series {
    fn head(&self, name: &str, kind: &str, text: &mut String) {
        if let Some(help) = self.help.get(name) {
            let _ = writeln!(text, "# HELP {name} {}", visible(&help.replace('\\', "\\\\")));
        }
        let _ = writeln!(text, "# TYPE {name} {kind}");
    }
}

impl Recorder for Board {
    fn describe_counter(&self, name: KeyName, _: Option<Unit>, help: SharedString) {
        self.series().help.insert(name.as_str().to_owned(), help.into_owned());
    }

    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn describe_histogram(&self, name: KeyName, _: Option<Unit>, help: SharedString) {
        self.series().help.insert(name.as_str().to_owned(), help.into_owned());
    }

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        let mut series = self.series();
        let by_labels = series.counters.entry(key.name().to_owned()).or_default();
        Counter::from_arc(Arc::clone(by_labels.entry(labels(key)).or_default()))
    }

    /// The page asks for its gauges when it is read, the library's own among them.
    fn register_gauge(&self, _: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::noop()
    }

    fn register_histogram(&self, key: &Key, _: &Metadata<'_>) -> Histogram {
        let mut series = self.series();
        let by_labels = series.histograms.entry(key.name().to_owned()).or_default();
        Histogram::from_arc(Arc::clone(by_labels.entry(labels(key)).or_default()))
    }
}

/// How many observations there were up to each bound, and their sum.
#[derive(Default)]
struct Buckets {
    /// Each counts what is above the bound before it; the last, what is above all bounds.
    counts: [AtomicU64; BOUNDS.len() + 1],
    sum_micros: AtomicU64,
}

impl HistogramFn for Buckets {
    fn record(&self, seconds: f64) {
        let bucket = BOUNDS.iter().position(|bound| seconds <= *bound).unwrap_or(BOUNDS.len());
        self.counts[bucket].fetch_add(1, Ordering::Relaxed);
        self.sum_micros.fetch_add((seconds * 1e6) as u64, Ordering::Relaxed);
    }
}

impl Buckets {
    fn write(&self, name: &str, labels: &str, text: &mut String) {
        let separator = if labels.is_empty() { "" } else { "," };
        let mut count = 0;
        for (bucket, own) in self.counts.iter().enumerate() {
            count += own.load(Ordering::Relaxed);
            let bound = BOUNDS.get(bucket).map_or("+Inf".to_owned(), f64::to_string);
            let _ = writeln!(text, "{name}_bucket{{{labels}{separator}le=\"{bound}\"}} {count}");
        }
        let sum = self.sum_micros.load(Ordering::Relaxed) as f64 / 1e6;
        let _ = writeln!(text, "{name}_sum{} {sum}", braced(labels));
        let _ = writeln!(text, "{name}_count{} {count}", braced(labels));
    }
}

fn labels(key: &Key) -> String {
    let mut labels: Vec<String> =
        key.labels().map(|label| format!("{}=\"{}\"", label.key(), escaped(label.value()))).collect();
    labels.sort();
    labels.join(",")
}

fn braced(labels: &str) -> String {
    if labels.is_empty() { String::new() } else { format!("{{{labels}}}") }
}

/// A vendor's name may be any text.
pub(super) fn escaped(value: &str) -> String {
    visible(&value.replace('\\', "\\\\").replace('"', "\\\"")).into_owned()
}

/// In seconds: from a call on the same host to the longest that a call may take.
const BOUNDS: [f64; 14] = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0];

#[cfg(test)]
mod tests {
    use metrics::{Label, Level};

    use super::*;

    const METADATA: Metadata<'static> = Metadata::new("test", Level::INFO, None);

    #[test]
    fn counts_and_times_are_written_as_prometheus_reads_them() {
        let board = Board::default();
        board.describe_counter(KeyName::from_const_str("calls_total"), None, "calls\nthat ended".into());
        let key = |name: &'static str, outcome: &'static str| {
            let labels = vec![Label::new("vendor", "a\"b\\c"), Label::new("outcome", outcome)];
            Key::from_parts(name, labels)
        };
        for outcome in ["ok", "ok", "failed"] {
            board.register_counter(&key("calls_total", outcome), &METADATA).increment(1);
        }
        for seconds in [0.01, 0.0101, 3.0, 500.0] {
            board.register_histogram(&Key::from_name("seconds"), &METADATA).record(seconds);
        }
        let text = board.text();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], r"# HELP calls_total calls\nthat ended");
        assert_eq!(lines[1], "# TYPE calls_total counter");
        assert_eq!(lines[2], r#"calls_total{outcome="failed",vendor="a\"b\\c"} 1"#);
        assert_eq!(lines[3], r#"calls_total{outcome="ok",vendor="a\"b\\c"} 2"#);
        for line in [
            "# TYPE seconds histogram",
            r#"seconds_bucket{le="0.005"} 0"#,
            r#"seconds_bucket{le="0.01"} 1"#,
            r#"seconds_bucket{le="0.025"} 2"#,
            r#"seconds_bucket{le="1"} 2"#,
            r#"seconds_bucket{le="5"} 3"#,
            r#"seconds_bucket{le="+Inf"} 4"#,
            "seconds_sum 503.0201",
            "seconds_count 4",
        ] {
            assert!(lines.contains(&line), "{line}\n{text}");
        }
    }
}
