//! History of one operation: its attempts, and operators' actions.

use std::io;
use std::time::Duration;

use humantime_serde::re::humantime::format_duration;

use steadfast::clock::Timestamp;
use steadfast::dead_letter::Shown;
use steadfast::operation::record::{Action, AuditEntry};
use steadfast::{AttemptReport, Effect};

use crate::text::{self, Out, millis, plain, wrapped};

/// Returns the number of sends, and how many of these are steps of the ladder, if not all are. The steps show
/// how far away a dead letter is. A redrive begins to count anew; the log keeps the earlier attempts.
pub(crate) fn attempts(shown: &Shown) -> String {
    let redriven = shown.audit.iter().filter(|entry| is_redrive(entry)).map(|entry| entry.at).max();
    let since = if redriven.is_some() { " since the redrive" } else { "" };
    let is_of_now =
        |report: &&AttemptReport| !report.is_lookup() && redriven.is_none_or(|at| report.started_at >= at);
    let steps = shown.summary.attempts;
    match u32::try_from(shown.attempts.iter().filter(is_of_now).count()) {
        Ok(sent) if sent > steps => {
            let s = if steps == 1 { "" } else { "s" };
            format!("{}{since}, {steps} step{s} of the ladder", text::attempts(sent))
        }
        _ => format!("{}{since}", text::attempts(steps)),
    }
}

/// Prints attempts and operators' actions in the order of their time, so that a redrive stands between the
/// attempts before it and after it.
pub(crate) fn lines(shown: &Shown, out: Out<'_>) -> io::Result<()> {
    writeln!(out)?;
    let mut acts = shown.audit.iter().peekable();
    let mut sent = 0;
    for (report, is_step) in shown.attempts.iter().zip(are_steps(shown)) {
        while let Some(entry) = acts.next_if(|entry| entry.at <= report.started_at) {
            act(entry, out)?;
        }
        let status = report.status.map(|status| status.to_string());
        let outcome = [status, report.failure.clone()].into_iter().flatten().collect::<Vec<_>>().join(", ");
        let took = format_duration(Duration::from_millis(millis(report.latency)));
        if report.is_lookup() {
            writeln!(out, "lookup at {}, {took}", report.started_at)?;
            let found = match report.effect {
                Effect::Applied => "it took effect",
                Effect::None => "it did not take effect",
                _ => "it cannot tell",
            };
            writeln!(out, "{}", wrapped(&format!("{}; {found}", plain(&outcome)), "    "))?;
            continue;
        }
        // Numbered here: an attempt that is no step has the same number as the next one.
        sent += 1;
        writeln!(out, "attempt {sent} at {}, {took}", report.started_at)?;
        let no_step = if is_step { "" } else { "; no step of the ladder" };
        let outcome = format!("{}; {}, effect {}{no_step}", plain(&outcome), report.verdict, report.effect);
        writeln!(out, "{}", wrapped(&outcome, "    "))?;
    }
    acts.try_for_each(|entry| act(entry, out))
}

/// Returns for each line of the log if it is a step of the ladder.
fn are_steps(shown: &Shown) -> Vec<bool> {
    let redriven = |from: Timestamp, to: Option<Timestamp>| {
        let is_between = |entry: &AuditEntry| entry.at > from && to.is_none_or(|to| entry.at <= to);
        shown.audit.iter().any(|entry| is_redrive(entry) && is_between(entry))
    };
    let following = shown.attempts.iter().skip(1).map(|report| Some(report.started_at)).chain([None]);
    let lines = shown.attempts.iter().zip(following).map(|(report, next)| LogLine {
        number: (!report.is_lookup()).then_some(report.number),
        then_redriven: redriven(report.started_at, next),
    });
    steps(&lines.collect::<Vec<_>>(), shown.summary.attempts)
}

struct LogLine {
    /// The attempt's number. `None` for a lookup.
    number: Option<u32>,
    then_redriven: bool,
}

/// Returns for each line if it is a step. An attempt that is no step has the number of the next one, and the
/// record does not count it.
fn steps(lines: &[LogLine], counted: u32) -> Vec<bool> {
    let mut counted = counted;
    let mut steps: Vec<bool> = Vec::with_capacity(lines.len());
    for LogLine { number, then_redriven } in lines.iter().rev() {
        if *then_redriven {
            // The count before a redrive is not on record.
            counted = u32::MAX;
        }
        steps.push(number.is_none_or(|number| number <= counted));
        if let Some(number) = number {
            counted = counted.min(number.saturating_sub(1));
        }
    }
    steps.reverse();
    steps
}

fn is_redrive(entry: &AuditEntry) -> bool {
    matches!(entry.action, Action::Redrive { .. })
}

fn act(entry: &AuditEntry, out: Out<'_>) -> io::Result<()> {
    let (action, by) = (plain(&entry.action.to_string()), plain(&entry.by));
    let why = if entry.why.is_empty() { String::new() } else { format!(": {}", plain(&entry.why)) };
    writeln!(out, "{}, {} to {}, by {by}", entry.at, entry.before, entry.after)?;
    writeln!(out, "{}", wrapped(&format!("{action}{why}"), "    "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_attempt_with_a_repeated_or_uncounted_number_is_no_step() {
        let of = |numbers: &[u32], redriven_after: Option<usize>, counted| {
            let lines = numbers.iter().enumerate().map(|(nth, number)| LogLine {
                number: (*number > 0).then_some(*number),
                then_redriven: Some(nth) == redriven_after,
            });
            steps(&lines.collect::<Vec<_>>(), counted)
        };
        assert_eq!(of(&[1, 2, 3], None, 3), [true, true, true]);
        assert_eq!(of(&[1, 2, 3, 4, 3], None, 2), [true, true, false, false, false]);
        assert_eq!(of(&[1, 2, 2, 3], None, 3), [true, false, true, true]);
        // 0 stands for a lookup.
        assert_eq!(of(&[1, 0, 1, 2], None, 2), [false, true, true, true]);
        // A redrive begins to count anew, and the count does not cover earlier attempts.
        assert_eq!(of(&[1, 2, 3, 1, 2], Some(2), 2), [true; 5]);
        assert_eq!(of(&[1, 2, 3], Some(2), 0), [true; 3]);
        assert_eq!(of(&[1, 1, 1], Some(1), 0), [false, true, false]);
    }
}
