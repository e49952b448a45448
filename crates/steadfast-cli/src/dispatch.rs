//! A process of its own that delivers operations that services enqueued.

use std::io::{self, Write};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};
use serde_json::json;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tracing::{Level, info, warn};
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::{Layer as _, SubscriberExt as _};
use tracing_subscriber::registry;

use steadfast::Client;
use steadfast::dead_letter::{DeadLetters, visible};
use steadfast::dispatcher::Dispatcher;

use crate::failure::{DONE, Failure};
use crate::output::Output;
use crate::place::StorePlace;
use crate::signals::Signals;

mod gauges;
mod page;

use gauges::Gauges;
use page::Page;

#[derive(Args, Debug)]
pub(crate) struct DispatchArguments {
    /// The vendors file; without it, that of --vendors or STEADFAST_VENDORS
    pub file: Option<PathBuf>,
    /// Serves GET /health and GET /metrics on this address, such as 127.0.0.1:9464
    #[arg(long, value_name = "ADDRESS")]
    pub listen: Option<SocketAddr>,
    /// How long sends in flight may take to end after SIGTERM or SIGINT; a second signal ends it at once
    #[arg(long, value_name = "TIME", default_value = "31s", value_parser = time)]
    pub stop_within: Duration,
    /// Longest time until an operation that another process enqueued is found
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = period)]
    pub look_every: Duration,
    /// The form of the log on the standard error
    #[arg(long, value_name = "FORM", default_value = "text")]
    pub log: LogFormat,
    /// The most detailed level that is logged: error, warn, info, debug or trace
    #[arg(long, value_name = "LEVEL", default_value = "info")]
    pub log_level: Level,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum LogFormat {
    /// A line of text for each event
    Text,
    /// A JSON object on a line for each event
    Json,
}

/// Delivers until a signal asks to stop.
pub(crate) async fn dispatch(
    place: &StorePlace,
    arguments: DispatchArguments,
    output: &mut Output<'_>,
) -> Result<u8, Failure> {
    log_to_stderr(arguments.log, arguments.log_level);
    // Before the clients are built: their metrics start with the first call.
    let counted = arguments.listen.map(|_| count());
    let (clients, store) = place.open_clients(arguments.file.as_ref())?;
    let gauges = Gauges::new(DeadLetters::new(store), &clients);
    let listener = match arguments.listen.zip(counted) {
        Some((address, counted)) => Some((listen(address).await?, counted)),
        None => None,
    };
    let mut signals = Signals::new()?;
    let dispatcher = Dispatcher::over(&clients).period(arguments.look_every).start();
    let vendors: Vec<&str> = clients.iter().map(Client::vendor).collect();
    info!(vendors = vendors.join(", "), "dispatching");
    let page = listener.map(|(listener, counted)| {
        let at = listener.local_addr().map(|at| at.to_string()).unwrap_or_default();
        info!(address = at, "listening");
        tokio::spawn(page::serve(listener, Page { health: dispatcher.health(), counted, gauges }))
    });

    let signal = signals.next().await;
    info!(signal, "stopping");
    let cut_off = tokio::select! {
        cut_off = dispatcher.stop(arguments.stop_within) => Some(cut_off),
        signal = signals.next() => {
            warn!(signal, "sends in flight are cut off");
            None
        }
    };
    // Until here the page reports that it is stopping.
    page.inspect(JoinHandle::abort);
    info!(cut_off, "stopped");
    output.put(DONE, &json!({ "cut_off": cut_off }), |_, out| match cut_off {
        Some(0) => writeln!(out, "stopped"),
        Some(count) => writeln!(out, "stopped; cut off: {count}, until their leases expire"),
        None => writeln!(out, "stopped; sends in flight are cut off, until their leases expire"),
    })
}

/// Installs a recorder for the metrics of all clients of the process, for the page.
fn count() -> PrometheusHandle {
    let builder = PrometheusBuilder::new().set_buckets(&BOUNDS).expect("there are bounds");
    let recorder = builder.build_recorder();
    let counted = recorder.handle();
    // Refused where one is installed already: a program has one.
    let _ = metrics::set_global_recorder(recorder);
    counted
}

/// Upper bounds of a histogram's buckets, in seconds: from a call on the same host to the longest that a call
/// may take.
const BOUNDS: [f64; 14] = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0];

async fn listen(address: SocketAddr) -> Result<TcpListener, Failure> {
    TcpListener::bind(address).await.map_err(|error| Failure::Listen(address, error))
}

/// Sets up the log. Other crates log only warnings: their messages about requests may have any content. A
/// second subscriber is not possible, and there is no first one.
fn log_to_stderr(form: LogFormat, level: Level) {
    let targets = Targets::new().with_target("steadfast", level).with_default(level.min(Level::WARN));
    let layer = tracing_subscriber::fmt::layer().with_writer(|| Lines(io::stderr())).with_ansi(false);
    let _ = match form {
        LogFormat::Text => {
            tracing::subscriber::set_global_default(registry().with(layer.with_filter(targets)))
        }
        LogFormat::Json => {
            tracing::subscriber::set_global_default(registry().with(layer.json().with_filter(targets)))
        }
    };
}

/// A writer that puts each event on one line, whatever text of a vendor or a caller is in it: the subscriber
/// writes an event at once.
struct Lines<W>(W);

impl<W: Write> Write for Lines<W> {
    fn write(&mut self, event: &[u8]) -> io::Result<usize> {
        let text = String::from_utf8_lossy(event);
        self.0.write_all(format!("{}\n", visible(text.trim_end_matches('\n'))).as_bytes())?;
        Ok(event.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

fn time(text: &str) -> Result<Duration, String> {
    humantime_serde::re::humantime::parse_duration(text)
        .map_err(|error| format!("{error}; a time has a unit, such as 500ms, 30s or 2m"))
}

fn period(text: &str) -> Result<Duration, String> {
    let period = time(text)?;
    if period < PERIOD_MIN {
        return Err(format!("it would look more often than every {PERIOD_MIN:?}, the least that is allowed"));
    }
    Ok(period)
}

/// Shortest period: a hundred looks a second. More only costs the store.
const PERIOD_MIN: Duration = Duration::from_millis(10);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_one_line_with_any_content() {
        let mut lines = Lines(Vec::new());
        lines.write_all(b"INFO failed cause=a\n2026 INFO forged\xe2\x80\xae\n").expect("writes");
        assert_eq!(
            String::from_utf8(lines.0).expect("text"),
            "INFO failed cause=a\\n2026 INFO forged\\u202e\n"
        );
    }
}
