//! Tables that help and manual share.

use crate::failure::{ABSENT, DONE, FILES, HELD_BACK, STORE, USAGE, VENDORS};

/// Returns the text after the root command's long help.
pub(crate) fn after_help() -> String {
    let table = |rows: &[(String, &str)]| {
        let width = rows.iter().map(|(name, _)| name.len()).max().unwrap_or_default();
        rows.iter().map(|(name, what)| format!("  {name:width$}  {what}\n")).collect::<String>()
    };
    let environment = ENVIRONMENT.map(|(name, what)| (name.to_owned(), what));
    format!("Exit codes:\n{}\nEnvironment:\n{}", table(&exit_codes()), table(&environment))
        .trim_end()
        .to_owned()
}

pub(crate) fn exit_codes() -> Vec<(String, &'static str)> {
    EXIT_CODES.into_iter().map(|(code, what)| (code.to_string(), what)).collect()
}

/// Exit codes. An empty list is an answer and no failure; a named operation that is missing has a code of its
/// own.
const EXIT_CODES: [(u8, &str); 7] = [
    (DONE, "done; also when nothing matched"),
    (HELD_BACK, "something was refused or held back"),
    (USAGE, "the arguments: unknown, missing, or a key of several operations"),
    (STORE, "the store: absent, unreachable, locked, full, damaged, sealed, a copy, another program's"),
    (VENDORS, "the vendors file: absent or wrong"),
    (FILES, "another file, the output or an address: it cannot be read, written or listened on"),
    (ABSENT, "there is no such operation"),
];

pub(crate) const ENVIRONMENT: [(&str, &str); 5] = [
    ("STEADFAST_STORE", "the store, unless --store is given; without both, the vendors file's"),
    ("STEADFAST_VENDORS", "the vendors file, unless --vendors is given"),
    ("STEADFAST_SEAL_KEYS", "the keys of a sealed store, unless the vendors file names the store"),
    ("STEADFAST_BY", "who does it, unless --by is given"),
    ("USER, LOGNAME", "who does it, unless --by or STEADFAST_BY is given"),
];
