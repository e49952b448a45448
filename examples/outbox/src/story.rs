//! The events around the service: its callers, its vendor, and the end of a connection at a bad moment.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use sqlx::PgPool;
use steadfast::Client;
use steadfast::dead_letter::DeadLetters;
use steadfast::dispatcher::PERIOD;
use steadfast::operation::record::{Filter, Phase, Tally};
use steadfast::store::{Postgres, Store as _};
use steadfast::testkit::Fault;
use steadfast::testkit::fakes::{Ledger, StripeFake};
use steadfast::vendor::Stripe;
use tokio::net::TcpListener;
use tokio::time::{sleep, timeout};

use crate::database::Database;
use crate::report::{Line, Report};
use crate::shop::{self, Shop};
use crate::{Problem, say};

/// Which orders there should be in the end.
const EXPECTED: [(i64, bool); 4] = [(1, true), (2, false), (3, false), (4, true)];

/// Generous: a run takes about five seconds, and the machine may be busy.
const WAIT_MAX: Duration = Duration::from_secs(60);
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Runs it in the database at `url`, and says whether all is well. It removes what it made there.
pub async fn run(url: &str) -> Result<bool, Problem> {
    let database = Database::make(url).await?;
    let told = tokio::select! {
        biased;
        () = interrupted() => Err("interrupted".into()),
        told = tell(&database) => told,
    };
    let removed = database.remove().await;
    let report = told?;
    removed?;
    say(&format!("\n{}", report.text()));
    Ok(report.is_well())
}

async fn tell(database: &Database) -> Result<Report, Problem> {
    let fake = StripeFake::start().await;
    // Stripe charges, and the connection breaks before its answer.
    fake.plan().next(Fault::DropAfterApply);

    // The steps of a service at its start.
    let store = database.store().await?;
    let vendor = Stripe::new("sk_test_123").base_url(fake.url());
    let stripe = Client::builder(vendor).store(Arc::clone(&store)).build()?;
    let dispatcher = stripe.keep_recovering(PERIOD);
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let caller = Caller { http: reqwest::Client::new(), url: format!("http://{}", listener.local_addr()?) };
    let service = shop::router(Shop { pool: database.pool.clone(), stripe });
    let service = tokio::spawn(async move { axum::serve(listener, service).await });

    say("\na caller posts order 1, and again");
    caller.post(1, 1).await?;
    caller.post(1, 1).await?;
    // It is this order's answer that is lost: the dispatcher takes orders side by side.
    let is_lost = timeout(WAIT_MAX, lost_an_answer(&fake)).await;
    is_lost.map_err(|_| "the charge of order 1 was not sent")?;
    say("order 2 is for more than there is: rolled back, after its charge was enqueued");
    caller.post(2, 5).await?;
    say("order 3, and its connection to the database is cut before the commit");
    cut_before_the_commit(&database.pool, caller.clone().post(3, 1)).await?;
    say("order 4");
    caller.post(4, 2).await?;

    let at_rest = timeout(WAIT_MAX, at_rest(&store)).await;
    at_rest.map_err(|_| format!("the charges are not delivered in {} s", WAIT_MAX.as_secs()))??;
    dispatcher.stop(Duration::from_secs(5)).await;
    service.abort();
    report(&database.pool, &store, &fake.ledger()).await
}

/// Somebody who places orders.
#[derive(Clone)]
struct Caller {
    http: reqwest::Client,
    url: String,
}

impl Caller {
    /// Places an order, and shows the answer.
    fn post(&self, number: i64, quantity: i64) -> impl Future<Output = Result<(), Problem>> + Send + use<> {
        let order =
            self.http.post(format!("{}/orders/{number}", self.url)).json(&json!({"quantity": quantity}));
        async move {
            let answer = order.send().await?;
            let (status, body) = (answer.status(), answer.text().await?);
            say(&format!("  {} {}", status.as_u16(), shortened(&body)));
            Ok(())
        }
    }
}

/// Holds the row that the handler writes last. When the handler waits for it, its order and its charge are written and
/// not committed. Then the database ends its connection.
async fn cut_before_the_commit(
    pool: &PgPool,
    post: impl Future<Output = Result<(), Problem>> + Send + 'static,
) -> Result<(), Problem> {
    let mut holder = pool.begin().await?;
    let held = "SELECT pg_backend_pid() FROM stock FOR UPDATE";
    let holding: i32 = sqlx::query_scalar(held).fetch_one(&mut *holder).await?;
    let post = tokio::spawn(post);
    let cut = async {
        let waiting = "SELECT count(*) FILTER (WHERE pg_terminate_backend(pid)) FROM pg_stat_activity \
                       WHERE $1 = ANY (pg_blocking_pids(pid))";
        while sqlx::query_scalar::<_, i64>(waiting).bind(holding).fetch_one(pool).await? == 0 {
            sleep(LOOK_EVERY).await;
        }
        Ok::<_, sqlx::Error>(())
    };
    timeout(WAIT_MAX, cut).await.map_err(|_| "the handler did not come to its last statement")??;
    post.await??;
    holder.rollback().await?;
    Ok(())
}

/// Waits until the fault of the story has met a request.
async fn lost_an_answer(fake: &StripeFake) {
    while fake.plan().pending() > 0 {
        sleep(LOOK_EVERY).await;
    }
}

/// Waits until nothing is in the outbox, and every operation has ended.
async fn at_rest(store: &Postgres) -> Result<(), Problem> {
    let letters = DeadLetters::new(Arc::new(store.clone()));
    let is_open = |tally: &Tally| matches!(tally.phase, Phase::InProgress | Phase::Scheduled);
    loop {
        // In this order: what leaves the outbox is an operation.
        let waiting = letters.stats().await?.outbox.iter().any(|tally| tally.waiting > 0);
        if !waiting && !store.tally().await?.iter().any(is_open) {
            return Ok(());
        }
        sleep(LOOK_EVERY).await;
    }
}

async fn report(pool: &PgPool, store: &Postgres, ledger: &Ledger) -> Result<Report, Problem> {
    let placed: Vec<i64> = sqlx::query_scalar("SELECT number FROM orders").fetch_all(pool).await?;
    let operations = store.list(&Filter::default(), None, 100).await?.rows;
    let wire_keys: HashMap<&str, &str> =
        operations.iter().map(|operation| (operation.id.key.as_str(), operation.wire_key.as_str())).collect();
    let line = |(order, expected)| {
        let wire_key = wire_keys.get(format!("order-{order}/charge").as_str());
        let charges = wire_key.map_or(0, |key| ledger.effects_for(key).len());
        let requests = wire_key.map_or(0, |key| ledger.requests_for(key));
        Line { order, expected, placed: placed.contains(&order), charges, requests }
    };
    let lines: Vec<Line> = EXPECTED.into_iter().map(line).collect();
    let others = ledger.count() - lines.iter().map(|line| line.charges).sum::<usize>();
    Ok(Report { lines, others })
}

/// So that a line fits on a terminal.
fn shortened(text: &str) -> String {
    const LETTERS_MAX: usize = 74;
    if text.chars().count() <= LETTERS_MAX {
        return text.to_owned();
    }
    text.chars().take(LETTERS_MAX - 1).chain(['…']).collect()
}

/// Ctrl-C, or somebody asks for an end. Without signals to hear, it never comes.
#[cfg(unix)]
async fn interrupted() {
    use tokio::signal::unix::{SignalKind, signal};
    let heard = async |kind| match signal(kind) {
        Ok(mut signals) => _ = signals.recv().await,
        Err(_) => std::future::pending().await,
    };
    tokio::select! {
        () = heard(SignalKind::hangup()) => {}
        () = heard(SignalKind::interrupt()) => {}
        () = heard(SignalKind::terminate()) => {}
    }
}

#[cfg(not(unix))]
async fn interrupted() {
    if tokio::signal::ctrl_c().await.is_err() {
        std::future::pending().await
    }
}
