//! For people. Programs read `--json`, so that this may change.

use std::io::{self, Write};
use std::time::Duration;

use humantime_serde::re::humantime::format_duration;
use serde_json::Value;
use steadfast::clock::Timestamp;
use steadfast::dead_letter::{Edited, Group, Letter, Redriven, Shown, ShownBody, Stats};

type Out<'a> = &'a mut (dyn Write + Send);

/// The members of an object, a line each.
pub(crate) fn fields(value: &Value, out: Out<'_>) -> io::Result<()> {
    let Some(members) = value.as_object() else { return writeln!(out, "{value}") };
    for (name, member) in members {
        match member {
            Value::String(text) => writeln!(out, "{name}: {}", plain(text))?,
            other => writeln!(out, "{name}: {other}")?,
        }
    }
    Ok(())
}

pub(crate) fn letters(letters: &[Letter], next: Option<&str>, out: Out<'_>) -> io::Result<()> {
    if letters.is_empty() {
        writeln!(out, "no dead letter matches")?;
    }
    for Letter { summary, code, .. } in letters {
        let reason = summary.reason.map(|reason| reason.to_string()).unwrap_or_default();
        let status = summary.status.map_or("no answer".to_owned(), |status| status.to_string());
        writeln!(out, "{}", plain(&summary.id.to_string()))?;
        writeln!(
            out,
            "    {reason}, effect {}, {status}, {code}, {} attempts, {}, since {}",
            summary.effect, summary.attempts, summary.phase, summary.updated_at
        )?;
    }
    match next {
        Some(next) => writeln!(out, "more: --after {next}"),
        None => Ok(()),
    }
}

pub(crate) fn groups(groups: &Vec<Group>, out: Out<'_>) -> io::Result<()> {
    if groups.is_empty() {
        writeln!(out, "no dead letter matches")?;
    }
    for group in groups {
        let failure = &group.failure;
        let status = failure.status.map_or("no answer".to_owned(), |status| status.to_string());
        writeln!(
            out,
            "{:>8}  {}  {}, effect {}, {status}, {}, {} to {}",
            group.count,
            plain(&failure.vendor),
            failure.reason,
            failure.effect,
            failure.code,
            group.oldest,
            group.newest
        )?;
    }
    Ok(())
}

pub(crate) fn stats(stats: &Stats, out: Out<'_>) -> io::Result<()> {
    if stats.groups.is_empty() {
        writeln!(out, "the store is empty")?;
    }
    for group in &stats.groups {
        let oldest = whole_seconds(stats.now, group.oldest);
        writeln!(
            out,
            "{:>8}  {:<12} {}, oldest {oldest}",
            group.count,
            group.phase.name(),
            plain(&group.vendor)
        )?;
    }
    Ok(())
}

pub(crate) fn redriven(redriven: &Redriven, rehearsal: bool, out: Out<'_>) -> io::Result<()> {
    let Redriven { matched, due, forced, held_back, .. } = redriven;
    if rehearsal {
        writeln!(out, "{matched} matched; {due} would be due ({forced} by force), {held_back} held back")?;
        match redriven.frozen_at {
            Some(at) => writeln!(out, "nothing was changed; to do it: --yes --before {}", at.as_millis())?,
            None => writeln!(out, "nothing was changed")?,
        }
    } else {
        writeln!(out, "{matched} matched; {due} due ({forced} by force), {held_back} held back")?;
    }
    for held in &redriven.why_held_back {
        writeln!(out, "held back: {}: {}", plain(&held.id.to_string()), held.why)?;
    }
    Ok(())
}

pub(crate) fn edited(edited: &Edited, out: Out<'_>) -> io::Result<()> {
    writeln!(out, "replaced: {}", plain(&edited.old.id.to_string()))?;
    writeln!(out, "by:       {}, {}", plain(&edited.new.id.to_string()), edited.new.phase)
}

pub(crate) fn shown(shown: &Shown, out: Out<'_>) -> io::Result<()> {
    let summary = &shown.summary;
    writeln!(out, "{}", plain(&summary.id.to_string()))?;
    writeln!(out, "wire key: {}", plain(&summary.wire_key))?;
    writeln!(out, "phase:    {}, effect {}, {} attempts", summary.phase, summary.effect, summary.attempts)?;
    if let (Some(reason), Some(code)) = (summary.reason, shown.code) {
        writeln!(out, "dead:     {reason}, {code}")?;
    }
    if let Some(safety) = shown.safety {
        writeln!(
            out,
            "redrive:  {} ({})",
            if safety.is_safe() { "safe" } else { "needs --force" },
            safety.name()
        )?;
    }
    if let Some(said) = &summary.resolved {
        writeln!(out, "resolved: {:?} by {}: {}", said.resolution, plain(&said.by), plain(&said.why))?;
    }
    let age = whole_seconds(shown.now, summary.claimed_at);
    writeln!(out, "claimed:  {} ({age} ago)\nmoved:    {}", summary.claimed_at, summary.updated_at)?;
    let request = &shown.request;
    writeln!(out, "\n{} {}", request.method, plain(&request.url))?;
    message(&request.headers, &request.body, request.body_bytes, out)?;
    if let Some(reply) = &shown.reply {
        writeln!(out, "\nanswered {}{}", reply.status, if reply.cut { ", cut at the limit" } else { "" })?;
        message(&reply.headers, &reply.body, reply.body_bytes, out)?;
    }
    writeln!(out)?;
    for report in &shown.attempts {
        let status = report.status.map(|status| status.to_string());
        let met = status.or_else(|| report.failure.clone()).unwrap_or_default();
        writeln!(
            out,
            "attempt {} at {}, {:?}: {}; {}, effect {}",
            report.number,
            report.started_at,
            report.latency,
            plain(&met),
            report.verdict,
            report.effect
        )?;
    }
    for entry in &shown.audit {
        let (by, why) = (plain(&entry.by), plain(&entry.why));
        writeln!(
            out,
            "{} {:?} by {by}: {why} ({} to {})",
            entry.at, entry.action, entry.before, entry.after
        )?;
    }
    Ok(())
}

fn message(headers: &[(String, String)], body: &ShownBody, bytes: usize, out: Out<'_>) -> io::Result<()> {
    for (name, value) in headers {
        writeln!(out, "  {}: {}", plain(name), plain(value))?;
    }
    match body {
        ShownBody::Text(text) if text.is_empty() => Ok(()),
        ShownBody::Text(text) => writeln!(out, "  {}", plain(text)),
        ShownBody::Withheld { why } => writeln!(out, "  body of {bytes} bytes withheld: {why}"),
        _ => Ok(()),
    }
}

fn whole_seconds(now: Timestamp, then: Timestamp) -> String {
    format_duration(Duration::from_secs(now.since(then).as_secs())).to_string()
}

/// What a vendor answered must not drive the operator's terminal.
fn plain(text: &str) -> String {
    let visible = |c: char| if c.is_control() && c != '\n' && c != '\t' { '\u{fffd}' } else { c };
    text.chars().map(visible).collect()
}
