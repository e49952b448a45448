//! The program: what was typed, how it ends. Begin with `shop.rs`.

use std::io::Write as _;
use std::process::ExitCode;

const HELP: &str = "\
An axum service that charges for its orders by the transactional outbox, on a
Postgres that this starts and stops. Takes about five seconds.

Usage: cargo run -p outbox -- [URL]

  URL     postgres://user:password@host/database: uses this server, in two
          schemas of its own, and removes them. The example has no TLS: a URL
          with a host needs ?sslmode=disable
  --help  prints this

Exit codes: 0 all is well, 1 it is not, 2 the arguments make no sense.";

#[tokio::main]
async fn main() -> ExitCode {
    let words: Option<Vec<String>> =
        std::env::args_os().skip(1).map(|word| word.into_string().ok()).collect();
    let url = match words.as_deref() {
        Some([]) => None,
        Some([word]) if word == "--help" || word == "-h" => {
            outbox::say(HELP);
            return ExitCode::SUCCESS;
        }
        Some([url]) if url.starts_with("postgres://") || url.starts_with("postgresql://") => {
            Some(url.as_str())
        }
        _ => {
            complain("give nothing, or the URL of a database, postgres://…; --help says more");
            return ExitCode::from(2);
        }
    };
    match outbox::run(url).await {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(problem) => {
            let mut text = problem.to_string();
            let mut source = problem.source();
            while let Some(cause) = source {
                text += &format!(": {cause}");
                source = cause.source();
            }
            complain(&text);
            ExitCode::FAILURE
        }
    }
}

/// Says what went wrong, on standard error.
fn complain(text: &str) {
    let mut err = std::io::stderr().lock();
    let _ = writeln!(err, "outbox: {text}").and_then(|()| err.flush());
}
