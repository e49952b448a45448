//! Takes committed rows of the store's [outbox](crate::outbox) on record.
//!
//! After each look that found some, before anything is taken, and through no gate. A row becomes an operation whether
//! or not the vendor can be called: an operator then sees it, and its caller can wait for it. An operation that is
//! admitted and due is taken in the same round.

use std::collections::HashMap;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;

use http::{HeaderName, Method};
use tracing::Instrument;

use steadfast_core::internal::error::Kind;
use steadfast_core::internal::ext::{ErrorExt, InputErrorExt, WakesExt};
use steadfast_core::internal::guard::Guard;
use steadfast_core::internal::store::{Outbox, OutboxRow};
use steadfast_core::store::{StoreError, StoreErrorKind};
use steadfast_core::{Effect, Error, Input};

use crate::engine::{Engine, NotAdmitted};
use crate::prepared::{Due, Prepared};
use crate::telemetry;

/// State of one dispatcher in the outbox.
#[derive(Debug, Default)]
pub(crate) struct Admission {
    /// Cursor of the next look; `None` is from the beginning. Rows that the store cannot record stay where they are,
    /// and are not to keep those behind them from their turn.
    next: Option<String>,
    /// True once it was reported that the store's role may not admit rows. One row is tried at each look, until it may.
    may_not: bool,
    /// Whether the last round has recorded or rejected any.
    pub(crate) progressed: bool,
}

impl Admission {
    /// Whether the store's role may not admit rows, as far as any was tried.
    pub(crate) fn may_not(&self) -> bool {
        self.may_not
    }

    /// Admits the next rows of the client's account. Says whether there may be more behind them.
    ///
    /// # Errors
    ///
    /// The store's, when it was asked which rows there are.
    ///
    /// # Cancellation safety
    ///
    /// A row is admitted or still there.
    pub(crate) async fn round(&mut self, engine: &Arc<Engine>) -> Result<bool, Error> {
        let Some(outbox) = engine.outbox() else { return Ok(false) };
        // Whoever may not deliver for the account leaves its rows to those who may.
        engine.check_terms().await?;
        let rows = if self.may_not { 1 } else { ROWS };
        let bytes_max = engine.policy.request_bytes_max;
        let found = outbox.waiting(&engine.account(), self.next.as_deref(), rows, bytes_max).await;
        let page = found.map_err(|source| failed(engine, "look into the outbox", source))?;
        // After the last page from the beginning again: rows may have been committed late.
        self.next = page.next;
        let (said, seen) = (self.may_not, Seen::default());
        together(
            in_order(&page.rows)
                .into_iter()
                .map(|rows| admit_all(engine, outbox, rows, (said, &seen)))
                .collect(),
        )
        .await;
        self.progressed = seen.progress.into_inner();
        self.may_not = if page.rows.is_empty() { said } else { seen.may_not.into_inner() };
        if self.may_not {
            self.next = None;
        }
        Ok(self.next.is_some())
    }
}

/// Progress of a round.
#[derive(Default)]
struct Seen {
    progress: AtomicBool,
    may_not: AtomicBool,
}

/// The rows that must be recorded one after the other: those of one sequence, and each other one by itself.
fn in_order(rows: &[OutboxRow]) -> Vec<Vec<&OutboxRow>> {
    let mut groups: Vec<Vec<&OutboxRow>> = Vec::with_capacity(rows.len());
    let mut of_sequence: HashMap<&str, usize> = HashMap::new();
    for row in rows {
        let first = row.sequence.as_ref().and_then(|sequence| {
            let next = groups.len();
            let group = *of_sequence.entry(sequence.name()).or_insert(next);
            (group != next).then_some(group)
        });
        match first.and_then(|group| groups.get_mut(group)) {
            Some(group) => group.push(row),
            None => groups.push(vec![row]),
        }
    }
    groups
}

/// Records them one after the other, up to the first that has to stay: those behind it in its sequence stay with it. A
/// role that may not admit rows is reported once.
async fn admit_all(
    engine: &Arc<Engine>,
    outbox: &dyn Outbox,
    rows: Vec<&OutboxRow>,
    (said, seen): (bool, &Seen),
) {
    for row in rows {
        let error = match admit(engine, outbox, row).await {
            Ok(progress) => {
                seen.progress.fetch_or(progress, Ordering::Relaxed);
                continue;
            }
            Err(error) => error,
        };
        let is_denied = store_error(&error).is_some_and(|error| error.kind() == StoreErrorKind::Denied);
        if !is_denied || !(said | seen.may_not.swap(true, Ordering::Relaxed)) {
            telemetry::recovery_failed(engine.vendor.name(), &error);
        }
        return;
    }
}

/// Records one row's operation, or rejects the row. Returns true if it did.
///
/// # Errors
///
/// A failure of the store. The row is tried again.
async fn admit(engine: &Arc<Engine>, outbox: &dyn Outbox, row: &OutboxRow) -> Result<bool, Error> {
    match record(prepared(engine, row), (outbox, row.number)).await {
        Ok(is_new) => Ok(is_new),
        Err(NotAdmitted::NotYet) => Ok(false),
        Err(NotAdmitted::Failed(error)) => Err(error),
        Err(NotAdmitted::Rejected(error)) => {
            let now = engine.wall();
            let rejected = outbox.reject(row.number, &format!("{error:#}"), now).await;
            let is_new = rejected.map_err(|source| failed(engine, "reject a row of the outbox", source))?;
            // Or another dispatcher was first.
            if is_new {
                telemetry::outbox::rejected(engine.vendor.name(), row.number, &error);
                engine.wakes.waiting().wake_key(&row.key);
            }
            Ok(is_new)
        }
    }
}

/// The call that a row asks for, with the row's first mistake.
fn prepared(engine: &Arc<Engine>, row: &OutboxRow) -> Prepared {
    let method = Method::from_bytes(row.method.as_bytes()).ok();
    let is_method = method.is_some();
    let mut call = Prepared::new(Arc::clone(engine), method.unwrap_or(Method::POST), &row.path);
    // Braces in a row are text: nothing fills them.
    call.unfilled = None;
    if !is_method {
        call.note(Error::invalid(Input::Other("method"), "HTTP has no such method"));
    }
    if let Some(problem) = &row.problem {
        call.note(Error::invalid(Input::Other("row"), problem.clone()));
    }
    if let Some(origin) = row.origin.as_deref().filter(|origin| !engine.is_of_origin(origin)) {
        let own = engine.origin();
        let problem = format!(
            "the row was written for {origin}, and this client calls {own}; correct the base URL that is wrong, or name a \
             former_base_url"
        );
        call.note(Error::invalid(Input::BaseUrl, problem));
    }
    call.key(row.key.as_str());
    call.request.body = row.body.clone();
    call.redact(row.redact.iter().map(String::as_str));
    // What says nothing leaves it to the route.
    if let Some(on_unknown) = row.on_unknown {
        call.work.on_unknown = on_unknown;
    }
    for (name, value) in &row.headers {
        // The name is what a mistake says; a value may be anything.
        match HeaderName::from_bytes(name.as_bytes()) {
            Ok(name) => call.header(name, value.as_bytes()),
            Err(_) => call.note(Error::invalid(Input::Header, "HTTP has no header of such a name")),
        }
    }
    if let Some(key) = &row.supersedes {
        call.supersedes(key.as_str());
    }
    if let Some(keep) = row.keep {
        call.work.retention = Some(keep);
    }
    if let Some(sequence) = &row.sequence {
        call.sequence(sequence.clone());
    }
    call.due = row.due.map(Due::At);
    call
}

/// Records the operation of a row of the outbox, and removes the row. Returns true if this did.
async fn record(mut call: Prepared, row: (&dyn Outbox, u64)) -> Result<bool, NotAdmitted> {
    let engine = &call.engine;
    let span = telemetry::call_span(&**engine.vendor, &call.request);
    if Guard::RowIsChecked.holds() {
        call.check().map_err(NotAdmitted::Rejected)?;
    }
    let Prepared { engine, request, mut work, due, .. } = call;
    let due = due.map(|due| due.time(engine.wall()));
    let Some(key) = work.key.take() else {
        return Err(NotAdmitted::Rejected(Error::invalid(Input::Key, "a row needs one")));
    };
    engine.admit(request, &work, (key, due), row).instrument(span).await
}

/// Wraps a failure of the store, which changed nothing.
fn failed(engine: &Engine, doing: &'static str, source: StoreError) -> Error {
    let failed = Error::new(Kind::Store { doing }, Effect::None).with_source(source);
    failed.at_vendor(engine.vendor.name())
}

fn store_error(error: &Error) -> Option<&StoreError> {
    let first = std::error::Error::source(error);
    std::iter::successors(first, |error| error.source()).find_map(|error| error.downcast_ref())
}

/// Carries out all, each begun in its turn, so that rows are recorded in their order and their commits are shared.
async fn together<F: Future<Output = ()>>(futures: Vec<F>) {
    let mut under_way: Vec<Pin<Box<F>>> = futures.into_iter().map(Box::pin).collect();
    poll_fn(|context| {
        under_way.retain_mut(|future| future.as_mut().poll(context).is_pending());
        if under_way.is_empty() { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
}

/// Rows to one look: their claims share a commit or two, and a call's claim waits for no more than that.
const ROWS: usize = 100;
