//! The transactional outbox, whole: an axum service, its Postgres by sqlx, and one charge at Stripe for each order.
//!
//! ```sh
//! cargo run -p outbox                                           # starts a Postgres of its own
//! cargo run -p outbox -- postgres://ada@localhost/test?sslmode=disable   # in schemas of its own, which it removes
//! ```
//!
//! Begin with `shop.rs`, which is what a service looks like. `story.rs` is the world around it: the callers, and a fake
//! of Stripe that loses an answer. One order is rolled back after its charge was enqueued, and of one the connection is
//! cut before the commit. In the end the orders in the database are held against the ledger of the fake, which knows
//! what was really charged.

pub mod database;
pub mod report;
#[cfg(unix)]
pub mod server;
pub mod shop;
pub mod story;

pub type Problem = Box<dyn std::error::Error + Send + Sync>;

/// To standard output. A closed pipe ends the output, not the verdict.
pub fn say(text: &str) {
    use std::io::Write as _;
    let mut out = std::io::stdout().lock();
    let _ = writeln!(out, "{text}").and_then(|()| out.flush());
}

/// Runs it on this database, or on a server that it starts, and says whether all is well.
pub async fn run(url: Option<&str>) -> Result<bool, Problem> {
    match url {
        Some(url) => story::run(url).await,
        #[cfg(unix)]
        None => {
            let server = tokio::task::spawn_blocking(server::Server::start).await??;
            say(&format!("a Postgres of its own runs on a socket in {}", server.directory().display()));
            story::run(&server.url()).await
        }
        #[cfg(not(unix))]
        None => {
            Err("name a server: cargo run -p outbox -- postgres://user@localhost/database?sslmode=disable"
                .into())
        }
    }
}
