//! For people. Programs read `--json`, so that this may change.

use std::collections::BTreeSet;
use std::io::{self, Write};
use std::time::Duration;

use humantime_serde::re::humantime::format_duration;
use steadfast::clock::Timestamp;
use steadfast::dead_letter::{Group, Message, Outcome, Safety, Shown, Stats};
use steadfast::operation::record::{Phase, Place, Summary};

use super::history;

type Out<'a> = &'a mut (dyn Write + Send);

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

/// For a filter by a vendor of whom nothing is on record.
pub(crate) fn absent_vendor(vendor: &str, on_record: &BTreeSet<&str>) -> String {
    let quoted = |name: &str| format!("`{}`", plain(name));
    let there_are = match on_record.len() {
        0 => "the store is empty".to_owned(),
        1 => format!("there is {}", on_record.iter().map(|name| quoted(name)).collect::<String>()),
        _ => {
            format!("there are {}", on_record.iter().map(|name| quoted(name)).collect::<Vec<_>>().join(", "))
        }
    };
    format!("no operation of vendor {} is on record; {there_are}", quoted(vendor))
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

/// `to_do_it`: what has to be typed after a dry run.
pub(crate) fn redriven(redriven: &Outcome, to_do_it: &str, out: Out<'_>) -> io::Result<()> {
    let Outcome { matched, done: due, forced, looked_up, held_back: others, .. } = redriven;
    if redriven.dry_run {
        writeln!(out, "{matched} matched; {due} would be due ({forced} by force), {others} held back")?;
        writeln!(out, "{}", wrapped(&format!("nothing was changed; to do it: {to_do_it}"), ""))?;
    } else {
        writeln!(out, "{matched} matched; {due} due ({forced} by force), {others} held back")?;
    }
    if *looked_up > 0 {
        writeln!(out, "of these, looked up at the vendor before anything is sent: {looked_up}")?;
    }
    held_back(redriven, out)
}

pub(crate) fn held_back(outcome: &Outcome, out: Out<'_>) -> io::Result<()> {
    for (id, why) in &outcome.why_held_back {
        writeln!(out, "held back: {}", plain(&id.to_string()))?;
        writeln!(out, "{}", wrapped(&why.to_string(), "    "))?;
    }
    Ok(())
}

pub(crate) fn resolved(summary: &Summary, out: Out<'_>) -> io::Result<()> {
    writeln!(out, "{}", plain(&summary.id.to_string()))?;
    match &summary.resolved {
        Some(said) => {
            writeln!(out, "    phase: {}, {}", summary.phase, plain(&said.resolution.to_string()))
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

pub(crate) fn checked(file: &str, vendors: &[&str], out: Out<'_>) -> io::Result<()> {
    writeln!(out, "{} is good: {}", plain(file), vendors.join(", "))
}

pub(crate) fn files(files: &[String], out: Out<'_>) -> io::Result<()> {
    files.iter().try_for_each(|file| writeln!(out, "{}", plain(file)))
}

pub(crate) fn edited(old: &Summary, new: &Summary, out: Out<'_>) -> io::Result<()> {
    writeln!(out, "replaced: {}", plain(&old.id.to_string()))?;
    writeln!(out, "by:       {}, {}", plain(&new.id.to_string()), new.phase)
}

pub(crate) fn shown(shown: &Shown, out: Out<'_>) -> io::Result<()> {
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
        let when = if due > shown.now { format!("in {wait}") } else { "now".to_owned() };
        writeln!(out, "due:      {due} ({when})")?;
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
    if let Some(said) = &summary.resolved {
        let resolution = plain(&said.resolution.to_string());
        let said = format!("{resolution}, by {}: {}", plain(&said.by), plain(&said.why));
        writeln!(out, "{}", hanging("resolved: ", &said))?;
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
    let age = whole_seconds(shown.now, summary.claimed_at);
    writeln!(out, "claimed:  {} ({age} ago)\nmoved:    {}", summary.claimed_at, summary.updated_at)?;
    writeln!(out, "\n{} {}", shown.method, plain(&shown.url))?;
    message(&shown.request, out)?;
    if let (Some(reply), Some(status)) = (&shown.reply, summary.status) {
        writeln!(out, "\nanswered {status}{}", if reply.cut { ", cut at the limit" } else { "" })?;
        message(reply, out)?;
    }
    history::lines(shown, out)
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
        Ok(text) => writeln!(out, "  {}", plain(text)),
        Err(why) => writeln!(out, "  body of {} bytes withheld: {why}", message.body_bytes),
    }
}

pub(crate) fn whole_seconds(now: Timestamp, then: Timestamp) -> String {
    format_duration(Duration::from_secs(now.since(then).as_secs())).to_string()
}

/// A label and a text. The lines of the text begin below each other.
fn hanging(label: &str, text: &str) -> String {
    wrapped(text, &" ".repeat(label.len())).replacen(&" ".repeat(label.len()), label, 1)
}

/// A text in lines of at most [`COLUMNS`], broken between words. Lines that begin with a space are left as they are:
/// they hold names, which are copied.
pub(crate) fn wrapped(text: &str, indent: &str) -> String {
    let mut lines = Vec::new();
    for line in text.lines() {
        if line.starts_with(' ') {
            lines.push(line.to_owned());
            continue;
        }
        let mut whole = indent.to_owned();
        for word in line.split(' ') {
            if whole.len() > indent.len() && whole.chars().count() + 1 + word.chars().count() > COLUMNS {
                lines.push(std::mem::replace(&mut whole, indent.to_owned()));
            }
            if whole.len() > indent.len() {
                whole.push(' ');
            }
            whole.push_str(word);
        }
        lines.push(whole);
    }
    lines.join("\n")
}

pub(crate) fn attempts(count: u32) -> String {
    format!("{count} attempt{}", if count == 1 { "" } else { "s" })
}

fn answered(status: Option<u16>) -> String {
    status.map_or("no answer".to_owned(), |status| status.to_string())
}

pub(crate) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// What a vendor answered must not drive the operator's terminal.
pub(crate) fn plain(text: &str) -> String {
    let visible = |c: char| if c.is_control() && c != '\n' && c != '\t' { '\u{fffd}' } else { c };
    text.chars().map(visible).collect()
}

/// What a terminal has at least.
const COLUMNS: usize = 80;

#[cfg(test)]
mod tests {
    use super::wrapped;

    #[test]
    fn a_line_is_broken_between_words_and_names_are_left_whole() {
        let sentence =
            "it may have taken effect, and the vendor's rules, which could allow it, are not known here";
        let lines = "    it may have taken effect, and the vendor's rules, which could allow it, are\n    not known here";
        assert_eq!(wrapped(sentence, "    "), lines);
        assert_eq!(wrapped("one", ""), "one");
        assert_eq!(wrapped("", ""), "");
        let exactly = format!("{} {}", "a".repeat(40), "b".repeat(39));
        assert_eq!(wrapped(&exactly, ""), exactly);
        assert_eq!(wrapped(&format!("{exactly}b"), ""), format!("{}\n{}b", "a".repeat(40), "b".repeat(39)));
        let name = format!("several:\n  {} key k", "s".repeat(90));
        assert_eq!(wrapped(&name, ""), name);
        assert_eq!(wrapped(&"w".repeat(90), ""), "w".repeat(90));
    }

    #[test]
    fn what_a_vendor_answered_cannot_drive_the_terminal() {
        assert_eq!(super::plain("a\u{1b}[2Jb\r\tc\n"), "a\u{fffd}[2Jb\u{fffd}\tc\n");
    }
}
