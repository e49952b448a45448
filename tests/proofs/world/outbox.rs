//! The outbox of the world's store: rows that callers commit, what dispatchers make of them, and what an operator does
//! with them.
//!
//! It is in memory, and keeps to what [`Outbox`] says. A row that is admitted is claimed and removed in one turn of the
//! store, by the time of its row as in every outbox of the crate, and the record of its key is not purged. No row of the world is in a sequence.
//!
//! A transaction of the world's carries the number of a draft. So a row is there once its transaction is committed, and
//! was never there where its caller died before.

use std::borrow::Cow;
use std::error::Error as StdError;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use parking_lot::Mutex;
use tokio::task::JoinSet;

use steadfast::clock::{Clock as _, Instant, Timestamp};
use steadfast::operation::record::{self, AuditEntry, Claim, Claimed, DOUBTED_FOR, Notes, Page};
use steadfast::outbox::{Database, Transaction, Value};
use steadfast::store::{Memory, OutboxTally, Queued, Rejected, Store as _, StoreError};
use steadfast::{BoxFuture, Client};
use steadfast_core::internal::ext::NotesExt as _;
use steadfast_core::internal::testkit::spare;
use steadfast_core::store::outbox::{Account, Outbox, OutboxRow, Statement};

use crate::world::audit::Breaches;
use crate::world::course::World;
use crate::world::extras::RowPlan;
use crate::world::facts::{Admitted, AdmittedAs, Does, Facts, OPERATION, RowCommitted};
use crate::world::plan::{ms, secs};
use crate::world::process::{Life, client_of};
use crate::world::shared_store::claimed;
use crate::world::store::{Renewing, Watched};
use crate::world::vendors::{Name, on_unknown};

/// The table.
#[derive(Debug)]
pub struct Rows {
    /// A store without rows has no outbox: nothing asks it for any.
    pub is_there: bool,
    /// Where the records are, if that is in memory.
    records: Option<Arc<Memory>>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// The rows that transactions were told to write.
    drafts: Vec<(Account, OutboxRow)>,
    /// Each at the place that its number says, and at the same place of [`All::rows`](crate::world::facts::All::rows).
    rows: Vec<Kept>,
}

#[derive(Debug)]
struct Kept {
    account: Account,
    row: OutboxRow,
    /// Which of the schedule's it is.
    plan: Option<usize>,
    /// Why it is kept aside.
    aside: Option<String>,
    is_gone: bool,
}

impl Kept {
    fn is_waiting(&self) -> bool {
        !self.is_gone && self.aside.is_none()
    }
}

impl State {
    /// The rows of the account that may be admitted, by number.
    fn waiting(&self, account: &Account) -> impl Iterator<Item = &OutboxRow> {
        let is_of_it = move |kept: &&Kept| kept.is_waiting() && kept.account == *account;
        self.rows.iter().filter(is_of_it).map(|kept| &kept.row)
    }
}

impl Rows {
    pub fn new(is_there: bool, records: Option<Arc<Memory>>) -> Rows {
        Rows { is_there, records, state: Mutex::default() }
    }

    /// So many more rows have this key.
    fn spare(&self, key: &str, rows: i64) {
        if let Some(records) = &self.records {
            spare(records, key, rows);
        }
    }

    fn draft(&self, account: &Account, row: &OutboxRow) -> i64 {
        let mut state = self.state.lock();
        state.drafts.push((account.clone(), row.clone()));
        i64::try_from(state.drafts.len() - 1).expect("few")
    }

    /// A transaction is committed that has written this draft; `by_sql`: in the form and at the time of plain SQL. The
    /// row's number.
    fn commit(
        &self,
        draft: i64,
        (plan, by_sql): (Option<usize>, Option<Timestamp>),
        (facts, now): (&Facts, Instant),
    ) -> u64 {
        let mut state = self.state.lock();
        let draft = usize::try_from(draft).expect("a draft");
        let (account, mut row) = state.drafts[draft].clone();
        row.number = state.rows.len() as u64 + 1;
        if let Some(written) = by_sql {
            (row.origin, row.enqueued_at) = (None, written);
        }
        let number = row.number;
        let mut headers = row.headers.iter();
        let operation =
            headers.find(|(name, _)| name == OPERATION).and_then(|(_, value)| value.parse::<usize>().ok());
        let operation = operation.expect("the calls of the world say which they are");
        facts.with(|all| all.rows.push(RowCommitted::new(operation, now)));
        self.spare(&row.key, 1);
        state.rows.push(Kept { account, row, plan, aside: None, is_gone: false });
        number
    }

    /// When the row was written, if it may be admitted.
    fn written(&self, number: u64) -> Option<Timestamp> {
        let state = self.state.lock();
        state.rows.get(place_of(number)).filter(|kept| kept.is_waiting()).map(|kept| kept.row.enqueued_at)
    }

    fn remove(&self, number: u64) {
        let kept = &mut self.state.lock().rows[place_of(number)];
        kept.is_gone = true;
        self.spare(&kept.row.key, -1);
    }

    /// Keeps a row aside: because a dispatcher rejected it, or for an operator. Whether it was waiting.
    fn set_aside(&self, number: u64, rejected: Option<&str>, (facts, now): (&Facts, Instant)) -> bool {
        let mut state = self.state.lock();
        let Some(kept) = state.rows.get_mut(place_of(number)).filter(|kept| kept.is_waiting()) else {
            return false;
        };
        kept.aside = Some(rejected.unwrap_or("an operator looks at it").to_owned());
        facts.with(|all| {
            let row = &mut all.rows[place_of(number)];
            row.asides.push((now, None));
            if let Some(why) = rejected {
                row.rejected = Some((now, why.to_owned()));
            }
        });
        true
    }

    /// Puts back what is kept aside: all of it, or what this one of the schedule's has become. How many those were.
    fn put_back(&self, only: Option<usize>, (facts, now): (&Facts, Instant)) -> usize {
        let (mut state, mut count) = (self.state.lock(), 0);
        for (place, kept) in state.rows.iter_mut().enumerate() {
            let is_meant = only.is_none() || kept.plan == only;
            if kept.is_gone || kept.aside.is_none() || !is_meant {
                continue;
            }
            (kept.aside, count) = (None, count + 1);
            facts.with(|all| {
                if let Some((_, back)) = all.rows[place].asides.last_mut() {
                    *back = Some(now);
                }
            });
        }
        count
    }

    /// The number of what this one of the schedule's has become.
    fn number_of(&self, plan: usize) -> Option<u64> {
        let state = self.state.lock();
        state.rows.iter().find(|kept| kept.plan == Some(plan)).map(|kept| kept.row.number)
    }

    pub fn has_waiting(&self) -> bool {
        self.state.lock().rows.iter().any(Kept::is_waiting)
    }

    fn page(&self, account: &Account, (from, limit): (u64, usize)) -> Page<OutboxRow> {
        let state = self.state.lock();
        let rest = state.waiting(account).filter(|row| row.number >= from);
        let mut rows: Vec<OutboxRow> = rest.take(limit + 1).cloned().collect();
        let next = rows.get(limit).map(|row| row.number.to_string());
        rows.truncate(limit);
        Page { rows, next }
    }

    fn under_key(&self, account: &Account, key: &str) -> Vec<OutboxRow> {
        self.state.lock().waiting(account).filter(|row| row.key == key).cloned().collect()
    }

    /// Why the last row of this key is kept aside, if no other one of it waits.
    fn rejection(&self, account: &Account, key: &str) -> Option<String> {
        let state = self.state.lock();
        let mut why = None;
        for kept in state.rows.iter().filter(|kept| !kept.is_gone && kept.account == *account) {
            if kept.row.key == key {
                why = Some(kept.aside.clone()?);
            }
        }
        why
    }
}

impl Watched {
    /// The part that has to be one step: the caller has the store's turn.
    async fn claim_and_remove(&self, number: u64, claim: Claim) -> Result<Option<Claimed>, StoreError> {
        let Some(written) = self.rows.written(number) else { return Ok(None) };
        let believed = self.inner.believed(claim.now).await?;
        let held = self.inner.get(&claim.id).await?;
        // A claim that changes nothing is decided by the row's own time, and the rest is a claim like any other.
        let notes = Notes { believed: Some(believed), ..Notes::default() };
        let by_row = held.map(|held| record::claim(Some(&held), claim.clone(), &notes.of_row(written)).1);
        let claimed = match by_row.filter(|claimed| {
            !matches!(claimed, Claimed::Fresh(_) | Claimed::TakenOver(_) | Claimed::Freed(_))
        }) {
            Some(claimed) => claimed,
            None => self.inner.claim(claim).await?,
        };
        if AdmittedAs::of(&claimed).is_some() {
            self.rows.remove(number);
        }
        Ok(Some(claimed))
    }
}

#[async_trait]
impl Outbox for Watched {
    fn put(&self, account: &Account, row: &OutboxRow) -> Result<Vec<Statement>, StoreError> {
        let values = vec![Value::Integer(Some(self.rows.draft(account, row)))];
        Ok(vec![Statement { database: Database::Sqlite, sql: Cow::Borrowed("a draft"), values }])
    }

    async fn write(&self, statements: Vec<Statement>) -> Result<(), StoreError> {
        let now = self.clock.now();
        for draft in statements.iter().flat_map(|statement| drafts(&statement.values)) {
            self.rows.commit(draft, (None, None), (&*self.facts, now));
        }
        Ok(())
    }

    async fn holds_back(&self, _: &Account, _: &str) -> Result<bool, StoreError> {
        Ok(false)
    }

    async fn have_rows(&self, accounts: &[Account]) -> Result<Vec<bool>, StoreError> {
        let state = self.rows.state.lock();
        Ok(accounts.iter().map(|account| state.waiting(account).next().is_some()).collect())
    }

    async fn waiting(
        &self,
        account: &Account,
        after: Option<&str>,
        limit: usize,
        _: usize,
    ) -> Result<Page<OutboxRow>, StoreError> {
        let from: u64 = after.map_or(0, |after| after.parse().expect("a cursor of its own"));
        Ok(self.rows.page(account, (from, limit.max(1))))
    }

    async fn under_key(&self, account: &Account, key: &str) -> Result<Vec<OutboxRow>, StoreError> {
        Ok(self.rows.under_key(account, key))
    }

    async fn admit(&self, number: u64, claim: Claim) -> Result<Option<Claimed>, StoreError> {
        let (due, predecessor) = ((claim.due, claim.now), claim.predecessor.clone());
        let admitted = self.alone(self.claim_and_remove(number, claim)).await?;
        let Some(claimed) = &admitted else { return Ok(None) };
        self.note_claimed(claimed, due, None, predecessor.as_ref());
        if let Some(how) = AdmittedAs::of(claimed) {
            let at = self.clock.now();
            self.facts.with(|all| {
                let life = all.life(all.rows[place_of(number)].operation);
                all.rows[place_of(number)].admitted = Some(Admitted { at, life, how });
            });
        }
        Ok(admitted)
    }

    async fn reject(&self, number: u64, why: &str, _: Timestamp) -> Result<bool, StoreError> {
        Ok(self.rows.set_aside(number, Some(why), (&*self.facts, self.clock.now())))
    }

    async fn rejection(&self, account: &Account, key: &str) -> Result<Option<String>, StoreError> {
        Ok(self.rows.rejection(account, key))
    }

    // Nobody here counts, lists, cancels or makes a copy of rows.

    async fn of_key(&self, _: &str) -> Result<Vec<Queued>, StoreError> {
        Ok(Vec::new())
    }

    async fn remove(&self, _: u64, _: &AuditEntry) -> Result<bool, StoreError> {
        Ok(false)
    }

    async fn disown(&self, _: &str, _: Timestamp) -> Result<u64, StoreError> {
        Ok(0)
    }

    async fn counts(&self) -> Result<Vec<OutboxTally>, StoreError> {
        Ok(Vec::new())
    }

    async fn rejected(&self, _: Option<&str>, _: usize) -> Result<Page<Rejected>, StoreError> {
        Ok(Page { rows: Vec::new(), next: None })
    }
}

impl Renewing {
    fn below(&self) -> &dyn Outbox {
        self.inner.inner.outbox().expect("nobody asks where there is none")
    }
}

/// As its process sees it: it takes a moment, and is where processes die and stand still.
#[async_trait]
impl Outbox for Renewing {
    fn put(&self, account: &Account, row: &OutboxRow) -> Result<Vec<Statement>, StoreError> {
        self.below().put(account, row)
    }

    async fn write(&self, statements: Vec<Statement>) -> Result<(), StoreError> {
        let name = || "writes into the outbox".to_owned();
        self.inner.write(name, self.below().write(statements), |_| "done".to_owned()).await
    }

    async fn holds_back(&self, account: &Account, sequence: &str) -> Result<bool, StoreError> {
        let name = || "looks what is ahead in the outbox".to_owned();
        self.inner.carry_out(name, self.below().holds_back(account, sequence), |_| String::new()).await
    }

    async fn have_rows(&self, accounts: &[Account]) -> Result<Vec<bool>, StoreError> {
        let name = || "looks whose rows there are".to_owned();
        self.inner.carry_out(name, self.below().have_rows(accounts), |_| String::new()).await
    }

    async fn waiting(
        &self,
        account: &Account,
        after: Option<&str>,
        limit: usize,
        body_bytes_max: usize,
    ) -> Result<Page<OutboxRow>, StoreError> {
        let name = || "looks into the outbox".to_owned();
        let numbers = |page: &Page<OutboxRow>| {
            let numbers: Vec<u64> = page.rows.iter().map(|row| row.number).collect();
            if numbers.is_empty() { String::new() } else { format!("{numbers:?}") }
        };
        self.inner.carry_out(name, self.below().waiting(account, after, limit, body_bytes_max), numbers).await
    }

    async fn under_key(&self, account: &Account, key: &str) -> Result<Vec<OutboxRow>, StoreError> {
        let name = || format!("looks for rows of {key}");
        let count = |rows: &Vec<OutboxRow>| format!("{} rows", rows.len());
        self.inner.carry_out(name, self.below().under_key(account, key), count).await
    }

    async fn admit(&self, number: u64, claim: Claim) -> Result<Option<Claimed>, StoreError> {
        let name = || format!("admits row {number}");
        let outcome = |admitted: &Option<Claimed>| {
            admitted.as_ref().map_or_else(|| "it is not there".to_owned(), claimed)
        };
        self.inner.write(name, self.below().admit(number, claim), outcome).await
    }

    async fn reject(&self, number: u64, why: &str, now: Timestamp) -> Result<bool, StoreError> {
        let name = || format!("rejects row {number}, {why}");
        self.inner.carry_out(name, self.below().reject(number, why, now), |done| format!("{done}")).await
    }

    async fn rejection(&self, account: &Account, key: &str) -> Result<Option<String>, StoreError> {
        let name = || format!("looks why {key} was rejected");
        let said = |why: &Option<String>| why.clone().unwrap_or_default();
        self.inner.carry_out(name, self.below().rejection(account, key), said).await
    }

    async fn of_key(&self, key: &str) -> Result<Vec<Queued>, StoreError> {
        self.below().of_key(key).await
    }

    async fn remove(&self, number: u64, entry: &AuditEntry) -> Result<bool, StoreError> {
        self.below().remove(number, entry).await
    }

    async fn disown(&self, why: &str, now: Timestamp) -> Result<u64, StoreError> {
        self.below().disown(why, now).await
    }

    async fn counts(&self) -> Result<Vec<OutboxTally>, StoreError> {
        self.below().counts().await
    }

    async fn rejected(&self, after: Option<&str>, limit: usize) -> Result<Page<Rejected>, StoreError> {
        self.below().rejected(after, limit).await
    }
}

/// A transaction of a caller's: which drafts it has written.
#[derive(Debug, Default)]
struct Writing(Vec<i64>);

impl Transaction for Writing {
    const DATABASE: Database = Database::Sqlite;

    fn execute<'a>(
        &'a mut self,
        _: &'a str,
        values: &'a [Value],
    ) -> BoxFuture<'a, Result<(), Box<dyn StdError + Send + Sync>>> {
        self.0.extend(drafts(values));
        Box::pin(std::future::ready(Ok(())))
    }
}

impl World {
    /// Starts what a host commits in this life.
    pub fn commit_rows(
        self: &Arc<World>,
        tasks: &mut JoinSet<()>,
        life: &Arc<Life>,
        clients: &[(Name, Client)],
    ) {
        for (plan, row) in self.schedule.extras.rows.iter().enumerate() {
            if row.host != life.process || self.is_done(row.operation, of_row(plan)) {
                continue;
            }
            let vendor = self.schedule.operations[row.operation].kind.vendor();
            tasks.spawn(self.clone().commit(life.clone(), client_of(clients, vendor).clone(), plan));
        }
    }

    /// Commits a call in a transaction, once.
    async fn commit(self: Arc<World>, life: Arc<Life>, client: Client, plan: usize) {
        let RowPlan { operation: number, at, by_sql, wakes, aside, .. } = self.schedule.extras.rows[plan];
        let wait = Instant::ORIGIN.plus(at).since(self.clock.now());
        self.clock.latency(wait).await;
        life.goes_on().await;
        self.is_over(number, of_row(plan));
        let operation = &self.schedule.operations[number];
        let call = operation.kind.call(&client, number).on_unknown(on_unknown(operation.resends));
        let mut transaction = Writing::default();
        let uncommitted = match call.enqueue_in(&mut transaction).await {
            Ok(uncommitted) => uncommitted,
            Err(error) => return self.note(|| format!("operation {number} is not written: {error:#}")),
        };
        self.clock.latency(self.draw.within(ms(0)..ms(4))).await;
        life.goes_on().await;
        if self.is_store_away() {
            return self.note(|| format!("operation {number} is rolled back"));
        }
        let (now, by_sql) = (self.clock.now(), by_sql.then(|| self.time()));
        let call = self.calls((number, Does::Enqueue), now);
        self.facts.with(|all| all.calls[call].ended = Some(now));
        for draft in transaction.0 {
            let row = self.rows.commit(draft, (Some(plan), by_sql), (&*self.facts, now));
            self.note(|| format!("operation {number} is committed as row {row}"));
        }
        if aside.is_some_and(|(after, _)| after.is_zero()) {
            self.sets_aside(plan);
        }
        self.clock.latency(self.draw.within(ms(0)..ms(4))).await;
        life.goes_on().await;
        if wakes {
            drop(uncommitted.committed());
        }
    }

    /// An operator keeps a row aside, and puts it back as planned.
    pub async fn keep_aside(self: Arc<World>, plan: usize) {
        let RowPlan { at, aside, .. } = self.schedule.extras.rows[plan];
        let Some((after, back)) = aside else { return };
        self.clock.latency(at + after).await;
        self.sets_aside(plan);
        let Some(back) = back else { return };
        self.clock.latency(back).await;
        self.puts_back(Some(plan));
    }

    /// Once all is at rest, and so long after that, an operator puts back whatever is kept aside.
    pub async fn put_all_back(self: &Arc<World>, operator: &Arc<Life>, after: Duration) -> Breaches {
        self.clock.latency(after).await;
        self.purge().await;
        if after > DOUBTED_FOR {
            // A store that nobody used for long believes the time again.
            self.clock.latency(DOUBTED_FOR + secs(60)).await;
            self.purge().await;
        }
        self.puts_back(None);
        self.rest_and_judge(operator).await
    }

    fn sets_aside(&self, plan: usize) {
        let Some(row) = self.rows.number_of(plan) else { return };
        let is_done = self.rows.set_aside(row, None, (&*self.facts, self.clock.now()));
        self.note(|| format!("an operator keeps row {row} aside: {is_done}"));
    }

    fn puts_back(&self, only: Option<usize>) {
        let count = self.rows.put_back(only, (&*self.facts, self.clock.now()));
        self.note(|| format!("an operator puts {count} rows back"));
    }
}

fn drafts(values: &[Value]) -> impl Iterator<Item = i64> {
    values.iter().filter_map(|value| match value {
        Value::Integer(draft) => *draft,
        _ => None,
    })
}

/// Where a row of this number is among all.
fn place_of(number: u64) -> usize {
    usize::try_from(number).expect("few") - 1
}

/// The place of who commits this one of the schedule's rows, among an operation's callers.
fn of_row(plan: usize) -> usize {
    usize::MAX - 1 - plan
}
