//! Output for people. Programs read `--json`, so this may change.

use std::io;

use steadfast::clock::Timestamp;
use steadfast::dead_letter::{AccountStatus, DeadLetters, Group, Message, Outcome, Safety, Shown, Stats};
use steadfast::operation::record::{Phase, Place, Summary};

use crate::text::{Out, ago, attempts, hanging, indented, plain, whole_seconds, wrapped};
use crate::{history, status};

pub(crate) fn letters(letters: &[Summary], next: Option<&str>, out: Out<'_>) -> io::Result<()> {
    if letters.is_empty() {
        writeln!(out, "no dead letter matches")?;
    }
    for summary in letters {
        let code = summary.code.unwrap_or_default();
        let reason = summary.reason.map(|reason| reason.to_string()).unwrap_or_default();
        writeln!(out, "{}", plain(&summary.id.to_string()))?;
        writeln!(
            out,
            "    {reason}, effect {}, {}, {code}, {}",
            summary.effect,
            answered(summary.status),
            attempts(summary.attempts)
        )?;
        writeln!(out, "    {} since {}", summary.phase, summary.updated_at)?;
    }
    match next {
        Some(next) => writeln!(out, "more: --after {next}"),
        None => Ok(()),
    }
}

pub(crate) fn groups(groups: &[Group], out: Out<'_>) -> io::Result<()> {
    if groups.is_empty() {
        writeln!(out, "no dead letter matches")?;
    }
    for group in groups {
        writeln!(out, "{:>8}  {}", group.count, plain(&group.vendor))?;
        writeln!(
            out,
            "          {}, effect {}, {}, {}",
            group.reason,
            group.effect,
            answered(group.status),
            group.code
        )?;
        writeln!(out, "          {} to {}", group.oldest, group.newest)?;
    }
    Ok(())
}

pub(crate) fn stats(stats: &Stats, out: Out<'_>) -> io::Result<()> {
    if stats.groups.is_empty() && stats.outbox.is_empty() {
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
    for held in &stats.held {
        let name = held.sequence.as_ref().map_or("", |place| place.sequence.name());
        writeln!(out, "held: sequence {}, by {}", plain(name), plain(&held.id.to_string()))?;
    }
    if stats.held_more {
        writeln!(out, "held: and more")?;
    }
    Ok(())
}

/// Prints the result of a redrive. Held-back operations come first, since there may be many. The sum and the
/// line to copy come last, where a person looks. `to_do_it` is what to type after a dry run.
pub(crate) fn redriven(redriven: &Outcome, to_do_it: &str, out: Out<'_>) -> io::Result<()> {
    held_back(redriven, out)?;
    let Outcome { matched, done: due, forced, looked_up, held_back: others, .. } = redriven;
    if *looked_up > 0 {
        writeln!(out, "{looked_up} are looked up at the vendor before anything is sent")?;
    }
    if redriven.dry_run {
        writeln!(out, "{matched} matched; {due} would be due ({forced} by force), {others} held back")?;
        to_do(to_do_it, out)
    } else {
        writeln!(out, "{matched} matched; {due} due ({forced} by force), {others} held back")
    }
}

/// Prints the result of a change. `done` is the new state of the changed ones, such as `resolved`.
pub(crate) fn changed(outcome: &Outcome, done: &str, to_do_it: &str, out: Out<'_>) -> io::Result<()> {
    held_back(outcome, out)?;
    let Outcome { matched, done: count, held_back: others, .. } = outcome;
    if outcome.dry_run {
        writeln!(out, "{matched} matched; {count} would be {done}, {others} held back")?;
        to_do(to_do_it, out)
    } else {
        writeln!(out, "{matched} matched; {count} {done}, {others} held back")
    }
}

fn to_do(to_do_it: &str, out: Out<'_>) -> io::Result<()> {
    writeln!(out, "{}", wrapped(&format!("nothing was changed; to do it: {to_do_it}"), ""))
}

/// Prints held-back operations by reason, each with the first of them: five thousand lines would hide the sum.
pub(crate) fn held_back(outcome: &Outcome, out: Out<'_>) -> io::Result<()> {
    for (reason, count) in &outcome.reasons {
        writeln!(out, "{}", hanging(&format!("{count} held back: "), &plain(&reason.to_string())))?;
        let named = outcome.why_held_back.iter().filter(|(_, why)| why == reason);
        for (id, _) in named.take(HELD_BACK_NAMED) {
            writeln!(out, "    {}", plain(&id.to_string()))?;
        }
        if *count > HELD_BACK_NAMED as u64 {
            writeln!(out, "    and {} more; --json names the first hundred", count - HELD_BACK_NAMED as u64)?;
        }
    }
    Ok(())
}

pub(crate) fn resolved(summary: &Summary, out: Out<'_>) -> io::Result<()> {
    writeln!(out, "{}", plain(&summary.id.to_string()))?;
    match &summary.resolved {
        Some(resolved) => {
            writeln!(out, "    phase: {}, {}", summary.phase, plain(&resolved.resolution.to_string()))
        }
        None => writeln!(out, "    phase: {}", summary.phase),
    }
}

pub(crate) fn removed(removed: u64, out: Out<'_>) -> io::Result<()> {
    writeln!(out, "removed: {removed}")
}

pub(crate) fn exported(written: u64, file: &str, out: Out<'_>) -> io::Result<()> {
    writeln!(out, "written: {written}, to {}", plain(file))
}

pub(crate) fn checked(file: &str, vendors: &[&str], warnings: &[String], out: Out<'_>) -> io::Result<()> {
    writeln!(out, "{} is good: {}", plain(file), vendors.join(", "))?;
    warnings.iter().try_for_each(|warning| writeln!(out, "{}", hanging("warning: ", warning)))
}

pub(crate) fn files(files: &[String], out: Out<'_>) -> io::Result<()> {
    files.iter().try_for_each(|file| writeln!(out, "{}", plain(file)))
}

pub(crate) fn edited(old: &Summary, new: &Summary, out: Out<'_>) -> io::Result<()> {
    writeln!(out, "replaced: {}", plain(&old.id.to_string()))?;
    writeln!(out, "by:       {}, {}", plain(&new.id.to_string()), new.phase)
}

pub(crate) fn shown(shown: &Shown, letters: &DeadLetters, out: Out<'_>) -> io::Result<()> {
    let summary = &shown.summary;
    writeln!(out, "{}", plain(&summary.id.to_string()))?;
    writeln!(out, "wire key: {}", plain(&summary.wire_key))?;
    let attempts = history::attempts(shown);
    writeln!(out, "phase:    {}, effect {}, {attempts}", summary.phase, summary.effect)?;
    if let Some(place) = &summary.sequence {
        sequence(place, summary.holds_sequence(), out)?;
    }
    if let (Phase::Scheduled, Some(due)) = (summary.phase, summary.until) {
        let wait = whole_seconds(due, shown.now);
        let late = ago(shown.now, due);
        let when = if due > shown.now { format!("in {wait}") } else { format!("overdue for {late}") };
        writeln!(out, "due:      {due} ({when})")?;
    }
    if let (Phase::InProgress, Some(until)) = (summary.phase, summary.until) {
        held(shown, until, out)?;
    }
    if let Some(account) = &shown.account {
        overdue(account, shown.now, letters, out)?;
    }
    if let (Some(reason), Some(code)) = (summary.reason, summary.code) {
        writeln!(out, "dead:     {reason}, {code}")?;
    }
    if let Some(safety) = shown.safety {
        let verdict = match safety {
            Safety::NoRules => "cannot tell",
            _ if safety.is_safe() && shown.overwrites => {
                "needs --overwrite, to overwrite what was written since"
            }
            _ if safety.is_safe() => "safe",
            _ => "needs --force",
        };
        writeln!(out, "{}", hanging("redrive:  ", &format!("{verdict}: {safety}")))?;
    }
    if let Some(resolved) = &summary.resolved {
        let resolution = plain(&resolved.resolution.to_string());
        let resolved = format!("{resolution}, by {}: {}", plain(&resolved.by), plain(&resolved.why));
        writeln!(out, "{}", hanging("resolved: ", &resolved))?;
    }
    if let Some(key) = &shown.predecessor {
        writeln!(
            out,
            "{}",
            hanging("from:     ", &format!("started over from key {}", plain(key.as_str())))
        )?;
    }
    if let Some(scope) = &shown.first_scope {
        writeln!(out, "{}", hanging("from:     ", &format!("adopted from {}", plain(scope.as_str()))))?;
    }
    let began = shown.began_at();
    if began < summary.claimed_at {
        writeln!(out, "began:    {began} ({} ago)", whole_seconds(shown.now, began))?;
    }
    let age = whole_seconds(shown.now, summary.claimed_at);
    writeln!(out, "claimed:  {} ({age} ago)\nmoved:    {}", summary.claimed_at, summary.updated_at)?;
    writeln!(out, "\n{} {}", shown.method, plain(&shown.url))?;
    message(&shown.request, out)?;
    if let (Some(reply), Some(status)) = (&shown.reply, summary.status) {
        writeln!(out, "\nanswered {status}{}", if reply.cut { ", cut at the limit" } else { "" })?;
        if !shown.says.is_empty() {
            writeln!(out, "{}", hanging("  it says: ", &plain(&shown.says.join("; "))))?;
        }
        message(reply, out)?;
    }
    history::lines(shown, out)
}

fn held(shown: &Shown, until: Timestamp, out: Out<'_>) -> io::Result<()> {
    let (what, last) = if until > shown.now {
        ("by a process that works on it, until", "")
    } else {
        ("by none any more: its lease ended", ", the last one")
    };
    writeln!(out, "{}", hanging("held:     ", &format!("{what} {until}")))?;
    let mut holder = shown.holder.iter();
    holder.try_for_each(|holder| writeln!(out, "holder:   {}{last}", plain(holder)))
}

/// Prints why a due operation still waits.
fn overdue(account: &AccountStatus, now: Timestamp, letters: &DeadLetters, out: Out<'_>) -> io::Result<()> {
    let mut why: Vec<String> =
        account.closed.iter().map(|closed| status::closed_for(closed, account.dispatchers, now)).collect();
    why.extend(status::unattended(account, letters));
    if why.is_empty() {
        let others = account.overdue.saturating_sub(1);
        if others > 0 {
            let first = "the longest due go first, and while calls fail those that were not sent yet";
            why.push(format!("{others} others of the account are due too: {first}"));
        }
    }
    why.iter().try_for_each(|why| writeln!(out, "{}", hanging("waits:    ", why)))
}

fn sequence(place: &Place, holds: bool, out: Out<'_>) -> io::Result<()> {
    let mut text = format!("{}, position {}", plain(place.sequence.name()), place.position);
    if place.sequence.skips_dead_letters() {
        text.push_str(", skips dead letters");
    }
    if holds {
        text.push_str("; it holds the sequence: those behind it wait until it is redriven or resolved");
    }
    writeln!(out, "{}", hanging("sequence: ", &text))?;
    match &place.behind {
        Some(ahead) => {
            let id = plain(&ahead.id.to_string());
            writeln!(out, "waits:    behind {id}, {}", ahead.phase)
        }
        None => Ok(()),
    }
}

fn message(message: &Message, out: Out<'_>) -> io::Result<()> {
    for (name, value) in &message.headers {
        writeln!(out, "  {}: {}", plain(name), plain(value))?;
    }
    match &message.body {
        Ok(text) if text.is_empty() => Ok(()),
        Ok(text) => indented(text, out),
        Err(why) => writeln!(out, "  body of {} bytes withheld: {why}", message.body_bytes),
    }
}

fn answered(status: Option<u16>) -> String {
    status.map_or("no answer".to_owned(), |status| status.to_string())
}

/// Maximum of operations that are named for each reason.
const HELD_BACK_NAMED: usize = 3;
