//! Capture of the crate's telemetry on this thread: spans, events and metrics, as they reach a subscriber.
//!
//! One subscriber and one recorder for the whole process, each writing to the thread's own list: scoped
//! subscribers race for tracing's cache of call sites when tests run beside each other.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::{Arc, Once};

use metrics::{
    Counter, CounterFn, Gauge, GaugeFn, Histogram, HistogramFn, Key, KeyName, Metadata, Recorder,
    SharedString, Unit,
};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Subscriber};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};
use tracing_subscriber::registry::LookupSpan;

pub type Fields = BTreeMap<String, String>;

/// The captured telemetry, oldest first.
#[derive(Clone, Debug, Default)]
pub struct Captured {
    /// Fields by span, with `name` for the span's own.
    pub spans: Vec<Fields>,
    /// Fields by event, `message` among them.
    pub events: Vec<Fields>,
    /// `name{label=value,…}` and each value.
    pub metrics: Vec<(String, f64)>,
    /// Index of the span of an id.
    ids: BTreeMap<u64, usize>,
}

thread_local! {
    static CAPTURED: RefCell<Captured> = RefCell::default();
}

/// Drops the earlier captures of this thread and starts a new one.
pub fn listen() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let subscriber = tracing_subscriber::registry().with(Listener);
        tracing::subscriber::set_global_default(subscriber).expect("the only subscriber");
        metrics::set_global_recorder(Listener).expect("the only recorder");
    });
    CAPTURED.take();
}

/// Returns the telemetry captured since [`listen`].
pub fn captured() -> Captured {
    CAPTURED.with_borrow(Clone::clone)
}

impl Captured {
    /// Returns the only event with this message.
    pub fn event(&self, message: &str) -> &Fields {
        let found = self.all(message);
        assert_eq!(found.len(), 1, "events {message:?} in {:#?}", self.events);
        found[0]
    }

    pub fn all(&self, message: &str) -> Vec<&Fields> {
        self.events.iter().filter(|event| event["message"] == message).collect()
    }

    /// Returns the sum over a metric's values, by the name with its labels.
    pub fn metric(&self, name: &str) -> f64 {
        self.metrics.iter().filter(|(captured, _)| captured == name).map(|(_, value)| value).sum()
    }

    /// Returns the captured metrics, each once.
    pub fn metric_names(&self) -> Vec<&str> {
        let mut names: Vec<_> = self.metrics.iter().map(|(name, _)| name.as_str()).collect();
        names.sort_unstable();
        names.dedup();
        names
    }
}

struct Listener;

struct Reader<'a>(&'a mut Fields);

impl Visit for Reader<'_> {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.insert(field.name().to_owned(), value.to_owned());
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.0.insert(field.name().to_owned(), format!("{value:?}"));
    }
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Listener {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, _: Context<'_, S>) {
        let mut fields = Fields::from([("name".to_owned(), attributes.metadata().name().to_owned())]);
        attributes.record(&mut Reader(&mut fields));
        CAPTURED.with_borrow_mut(|captured| {
            captured.ids.insert(id.into_u64(), captured.spans.len());
            captured.spans.push(fields);
        });
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, _: Context<'_, S>) {
        CAPTURED.with_borrow_mut(|captured| {
            if let Some(&index) = captured.ids.get(&id.into_u64()) {
                values.record(&mut Reader(&mut captured.spans[index]));
            }
        });
    }

    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let mut fields = Fields::from([
            ("level".to_owned(), event.metadata().level().to_string()),
            ("target".to_owned(), event.metadata().target().to_owned()),
        ]);
        event.record(&mut Reader(&mut fields));
        CAPTURED.with_borrow_mut(|captured| captured.events.push(fields));
    }
}

impl Recorder for Listener {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        Counter::from_arc(Arc::new(Series::of(key)))
    }

    fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::from_arc(Arc::new(Series::of(key)))
    }

    fn register_histogram(&self, key: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::from_arc(Arc::new(Series::of(key)))
    }
}

/// One metric with its labels.
struct Series(String);

impl Series {
    fn of(key: &Key) -> Series {
        let mut labels: Vec<_> =
            key.labels().map(|label| format!("{}={}", label.key(), label.value())).collect();
        labels.sort_unstable();
        Series(format!("{}{{{}}}", key.name(), labels.join(",")))
    }

    fn say(&self, value: f64) {
        CAPTURED.with_borrow_mut(|captured| captured.metrics.push((self.0.clone(), value)));
    }
}

impl CounterFn for Series {
    fn increment(&self, value: u64) {
        self.say(value as f64);
    }

    fn absolute(&self, value: u64) {
        self.say(value as f64);
    }
}

impl GaugeFn for Series {
    fn increment(&self, value: f64) {
        self.say(value);
    }

    fn decrement(&self, value: f64) {
        self.say(-value);
    }

    fn set(&self, value: f64) {
        self.say(value);
    }
}

impl HistogramFn for Series {
    fn record(&self, value: f64) {
        self.say(value);
    }
}
