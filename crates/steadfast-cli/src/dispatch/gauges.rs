//! Gauges: what waits in the store, and which gates keep this process from delivering it. They are read at each
//! scrape, so that none is older than it claims.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

use steadfast::Client;
use steadfast::clock::{Clock as _, SystemClock};
use steadfast::dead_letter::{AccountStatus, DeadLetters, Status, visible};
use steadfast::policy::{BreakerState, Mode};

/// Source of the gauges.
#[derive(Clone)]
pub(super) struct Gauges {
    letters: DeadLetters,
    clients: Vec<Client>,
}

impl Gauges {
    /// Creates the gauges of the store of these letters, and of the gates of these clients.
    pub(super) fn new(letters: DeadLetters, clients: &[Client]) -> Gauges {
        Gauges { letters, clients: clients.to_vec() }
    }

    /// Returns all gauges, by name. If the store does not answer within `limit`, its gauges are missing, and
    /// `/health` reports it.
    pub(super) async fn text(&self, limit: Duration) -> String {
        let clock = SystemClock::new();
        let over = clock.sleep_until(clock.now().plus(limit));
        let status = tokio::select! {
            biased;
            status = self.letters.status() => status.ok(),
            () = over => None,
        };
        let mut text = String::new();
        if let Some(status) = &status {
            of_store(status, &mut text);
        }
        self.of_gates(status.as_ref(), &mut text);
        text
    }

    /// Writes each gate of each client at all times: an alert on a missing gauge never fires.
    fn of_gates(&self, status: Option<&Status>, text: &mut String) {
        // Two accounts of one vendor have the same labels: if one is closed, the gauge is.
        let (mut gates, mut pauses) = (BTreeMap::new(), BTreeMap::new());
        for client in &self.clients {
            let is_open = match (client.breaker_mode(), client.breaker_state()) {
                (Some(Mode::ForcedOpen), _) => true,
                (Some(Mode::Normal), state) => !matches!(state, Some(BreakerState::Closed) | None),
                _ => false,
            };
            let pause = client.pause_left();
            for (gate, is_closed) in [
                ("circuit", is_open),
                ("pause", pause.is_some()),
                ("kill_switch", client.kill_switch_is_engaged()),
            ] {
                *gates.entry((client.vendor(), gate)).or_insert(false) |= is_closed;
            }
            let longest: &mut f64 = pauses.entry(client.vendor()).or_default();
            *longest = longest.max(pause.unwrap_or_default().as_secs_f64());
        }
        header(text, "steadfast_gate_closed", "1 if this gate keeps this process from delivering, else 0");
        for ((vendor, gate), is_closed) in gates {
            let (vendor, value) = (escaped(vendor), u8::from(is_closed));
            let _ = writeln!(text, "steadfast_gate_closed{{gate=\"{gate}\",vendor=\"{vendor}\"}} {value}");
        }
        header(text, "steadfast_pause_seconds", "for how much longer the vendor asked to be left alone");
        for (vendor, left) in pauses {
            let _ = writeln!(text, "steadfast_pause_seconds{{vendor=\"{}\"}} {left}", escaped(vendor));
        }
        let Some(status) = status else { return };
        header(
            text,
            "steadfast_dispatchers_stopped",
            "how many dispatchers of all processes this gate keeps from delivering",
        );
        for account in &status.accounts {
            for closed in &account.closed {
                let route = closed.route.as_deref().map(escaped).unwrap_or_default();
                let labels =
                    labels(account, &format!(",gate=\"{}\",route=\"{route}\"", escaped(&closed.gate)));
                let _ = writeln!(text, "steadfast_dispatchers_stopped{labels} {}", closed.dispatchers);
            }
        }
    }
}

/// A function that reads a gauge.
type ReadGauge<'a> = dyn Fn(&AccountStatus) -> f64 + 'a;

fn of_store(status: &Status, text: &mut String) {
    let age = |account: &AccountStatus| match account.next_due {
        Some(due) if account.overdue > 0 => status.now.since(due).as_secs_f64(),
        _ => 0.0,
    };
    let gauges: [(&str, &str, &ReadGauge<'_>); 8] = [
        ("steadfast_waiting", "operations that wait for their next attempt", &|it| it.waiting as f64),
        ("steadfast_overdue", "operations whose time has come", &|it| it.overdue as f64),
        ("steadfast_oldest_due_seconds", "for how long the oldest of them has been due", &age),
        ("steadfast_late", "operations that were sent and are due in more than a day", &|it| it.late as f64),
        ("steadfast_under_way", "operations that a process holds, or that a dead one left", &|it| {
            it.under_way as f64
        }),
        ("steadfast_dead_letters", "dead letters that wait for a person", &|it| it.dead as f64),
        ("steadfast_in_outbox", "rows of the outbox that are no operations yet", &|it| it.in_outbox as f64),
        ("steadfast_dispatchers", "dispatchers that say that they deliver", &|it| f64::from(it.dispatchers)),
    ];
    for (name, help, of) in gauges {
        header(text, name, help);
        for account in &status.accounts {
            let _ = writeln!(text, "{name}{} {}", labels(account, ""), of(account));
        }
    }
    header(text, "steadfast_outbox_rejected_rows", "rows of the outbox that cannot become operations");
    let _ = writeln!(text, "steadfast_outbox_rejected_rows {}", status.rejected_rows);
}

fn labels(account: &AccountStatus, more: &str) -> String {
    let vendor = account.account.split('/').nth(1).unwrap_or_default();
    format!("{{account=\"{}\",vendor=\"{}\"{more}}}", escaped(&account.account), escaped(vendor))
}

fn header(text: &mut String, name: &str, help: &str) {
    let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} gauge");
}

/// Escapes a label: a vendor's name may be any text.
fn escaped(value: &str) -> String {
    visible(&value.replace('\\', "\\\\").replace('"', "\\\"")).into_owned()
}
