//! Texts, times and lines, as people read them.

use std::io::{self, Write};
use std::time::Duration;

use humantime_serde::re::humantime::format_duration;

use steadfast::clock::Timestamp;
use steadfast::dead_letter::visible;

pub(crate) type Out<'a> = &'a mut (dyn Write + Send);

/// Returns the time from `then` to `now`, in its two largest units: a person reads no more.
pub(crate) fn ago(now: Timestamp, then: Timestamp) -> String {
    let whole = whole_seconds(now, then);
    whole.split(' ').take(2).collect::<Vec<_>>().join(" ")
}

pub(crate) fn whole_seconds(now: Timestamp, then: Timestamp) -> String {
    format_duration(Duration::from_secs(now.since(then).as_secs())).to_string()
}

/// Returns a label and a text. The lines of the text begin below each other.
pub(crate) fn hanging(label: &str, text: &str) -> String {
    wrapped(text, &" ".repeat(label.len())).replacen(&" ".repeat(label.len()), label, 1)
}

/// Returns a text in lines of at most [`COLUMNS`], broken between words. Lines that begin with a space are left
/// as they are: they hold names, which are copied.
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

pub(crate) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// Returns a text without control characters: a vendor's text must neither control the operator's terminal nor
/// look like a line of ours.
pub(crate) fn plain(text: &str) -> String {
    visible(text).into_owned()
}

/// Prints a text of several lines, each below an indent that no line of ours has.
pub(crate) fn indented(text: &str, out: Out<'_>) -> io::Result<()> {
    text.lines().try_for_each(|line| writeln!(out, "    {}", plain(line)))
}

/// Minimum width of a terminal.
const COLUMNS: usize = 80;

#[cfg(test)]
mod tests {
    use super::wrapped;

    #[test]
    fn lines_break_between_words_and_names_stay_whole() {
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
    fn a_body_cannot_imitate_our_lines() {
        let mut out = Vec::new();
        super::indented("{}\r\n\nphase:    succeeded\u{202e}", &mut out).expect("writes");
        assert_eq!(String::from_utf8(out).expect("text"), "    {}\n    \n    phase:    succeeded\\u202e\n");
    }
}
