//! A way through the states as a reader can follow it.

use std::time::Duration;

use stateright::Path;
use steadfast::operation::record::State as OnRecord;

use crate::states::state::State;
use crate::states::steps::Action;

/// One line for each step: when, what happened, and what stood afterwards.
pub fn of(path: Path<State, Action>) -> String {
    let mut lines = Vec::new();
    let steps = path.into_vec();
    for (index, (state, action)) in steps.iter().enumerate() {
        if index == 0 {
            let [one, other] = &state.hosts;
            lines.push(format!("  host 0 is {} ms ahead, host 1 is {} ms ahead", one.off_ms, other.off_ms));
        }
        let Some(action) = action else { continue };
        let after = &steps[index + 1].0;
        lines.push(format!("  {:>12} {action:?} -> {}", at(state.now_ms), summary(after)));
    }
    lines.join("\n")
}

fn at(ms: u64) -> String {
    format!("{:?}", Duration::from_millis(ms))
}

fn summary(state: &State) -> String {
    let record = state.record.as_ref().map_or_else(
        || "no record".to_owned(),
        |record| {
            let what = match &record.state {
                OnRecord::Dead { reason, .. } => format!("dead ({reason:?})"),
                OnRecord::Refused { .. } => "refused".to_owned(),
                other => other.name().to_owned(),
            };
            let unknown = record.unknown_since.map(|at| format!(" since {at}")).unwrap_or_default();
            let until = record.until().map(|at| format!(" until {at}")).unwrap_or_default();
            format!("{what}{until}, fence {}, effect {}{unknown}", record.fence, record.effect)
        },
    );
    let effects = state.ledger.iter().filter(|entry| !entry.refused).count();
    let under_way = state.flights.iter().filter(|flight| flight.arrived.is_none()).count();
    let mut text = format!("{record}; {effects} effects, {under_way} under way");
    for (number, host) in state.hosts.iter().enumerate() {
        if let Some(run) = &host.run {
            let waits = match &run.exchange {
                Some((_, request)) => format!("{} {}", request.method, request.url.path()),
                None => "its alarm".to_owned(),
            };
            text.push_str(&format!("; host {number} waits for {waits}"));
        }
    }
    if let Some(breach) = state.breach {
        text.push_str(&format!("; BROKEN: {}", breach.name(state.clocks_apart)));
    }
    text
}
