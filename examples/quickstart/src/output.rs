//! Who is told what: the result on standard output, all else on standard error.

use std::io::Write as _;

/// The result, on standard output. A closed pipe ends the output, not the verdict.
pub fn print(text: &str) {
    let mut out = std::io::stdout().lock();
    let _ = writeln!(out, "{text}").and_then(|()| out.flush());
}

/// Shows what happens, on standard error.
pub fn show(text: &str) {
    let mut err = std::io::stderr().lock();
    let _ = err.write_all(text.as_bytes()).and_then(|()| err.flush());
}

/// Says what went wrong, with its causes.
pub fn complain(problem: &(dyn std::error::Error + 'static)) {
    let mut text = format!("quickstart: {problem}");
    let mut source = problem.source();
    while let Some(cause) = source {
        text += &format!(": {cause}");
        source = cause.source();
    }
    show(&format!("{text}\n"));
}
