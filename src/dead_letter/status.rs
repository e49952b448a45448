//! The state of a store in one look: which account is kept from delivering, what waits for it, and when it will be gone.
//!
//! The facts that keep a process from delivering are in that process alone: a circuit, a pause, refused credentials.
//! Each reports them with its heartbeat while it has something to deliver, so that this needs the store alone. A
//! process that only calls reports nothing, and its circuits are not seen here.

use std::collections::BTreeMap;
use std::time::Duration;

use steadfast_core::AttemptReport;
use steadfast_core::clock::Timestamp;
use steadfast_core::internal::ext::RouteNameExt;
use steadfast_core::internal::store::{Backlog, Peer, Queue, queues};
use steadfast_core::operation::record::{Filter, Phase};
use steadfast_core::operation::{OperationId, RouteName, Scope};

use super::{DeadLetterError, DeadLetters, PAGE_ROWS};
use crate::peer_status::PeerStatus;

/// State of the store, as [`DeadLetters::status`] gives it.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Status {
    /// Time at which it was taken, for ages.
    pub now: Timestamp,
    /// The accounts for which something waits, is under way or is dead, or which a dispatcher delivers for; those that
    /// are kept from it first, then by name.
    pub accounts: Vec<AccountStatus>,
    /// Rows of the [outbox](crate::outbox) that cannot become operations.
    pub rejected_rows: u64,
}

/// Backlog of one account, and the gates that keep it.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct AccountStatus {
    /// `{namespace}/{vendor}/{account}`.
    pub account: String,
    /// Operations that wait for their next attempt.
    pub waiting: u64,
    /// Number of those whose time has come.
    pub overdue: u64,
    /// Number of those that were sent before.
    pub tried: u64,
    /// Number of those that wait for their turn in a [sequence](crate::Call::sequence).
    pub behind: u64,
    /// Number of those that were sent before and are due in more than a day.
    pub late: u64,
    /// Operations that a process holds, or that a dead one left.
    pub under_way: u64,
    /// Unresolved dead letters.
    pub dead: u64,
    /// Rows of the [outbox](crate::outbox) that are no operations yet.
    pub in_outbox: u64,
    /// Whether no client admits those rows, as [`Stats::unadmitted`](super::Stats::unadmitted) says.
    pub is_unknown: bool,
    /// Time since which the one is due that is due longest, or time at which the next is. `None` if none waits.
    pub next_due: Option<Timestamp>,
    /// Number of dispatchers that report to deliver for it, or would. Those without anything to deliver do not report.
    pub dispatchers: u32,
    /// Gates that keep them from it, each once. The longest is first.
    pub closed: Vec<Closed>,
    /// Number of operations that came to an end in a second lately, over all dispatchers.
    pub per_second: f64,
    /// The routes of what waits, the largest first, at most [`AccountStatus::ROUTES_MAX`].
    pub routes: Vec<RouteStatus>,
}

/// A gate that keeps dispatchers from delivering.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Closed {
    /// Its name: `circuit`, `route`, `held`, `pause` or `kill_switch`.
    pub gate: String,
    /// Route of the gate; `None` if it is the whole account's.
    pub route: Option<String>,
    /// Time since which it is closed, as far as one dispatcher knows.
    pub since: Option<Timestamp>,
    /// Time at which it may let something through again, if it knows.
    pub until: Option<Timestamp>,
    /// Number of the dispatchers that report it: circuits are each process's own.
    pub dispatchers: u32,
}

/// Backlog of one route.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RouteStatus {
    /// Method and path, with `{}` in place of ids.
    pub route: String,
    /// Number of operations that wait.
    pub waiting: u64,
    /// Number of those that were sent before.
    pub tried: u64,
    /// Report of the last attempt on the operation that was sent last.
    pub last: Option<AttemptReport>,
}

impl AccountStatus {
    /// Number of routes that are named: as many as a person reads.
    pub const ROUTES_MAX: usize = 3;

    /// Returns the time in which the operations that are due now will be gone, at this rate. `None` if nothing is due,
    /// or nothing goes.
    pub fn gone_in(&self) -> Option<Duration> {
        let is_going = self.overdue > 0 && self.per_second >= PER_SECOND_LEAST;
        is_going
            .then(|| Duration::from_secs_f64((self.overdue as f64 / self.per_second).min(GONE_SECONDS_MAX)))
    }
}

impl DeadLetters {
    /// The state of the store in one look: for each account the backlog, which gates keep dispatchers from delivering it,
    /// and at which rate it goes. It reads open operations and dead letters alone, however many have ended.
    ///
    /// ```
    #[doc = include_str!("../docs/setup/dead_letters.md")]
    /// let status = letters.status().await?;
    /// let account = &status.accounts[0];
    /// assert_eq!((&account.account[..], account.dead, account.waiting), ("default/postmark/default", 2, 0));
    #[doc = include_str!("../docs/setup/end.md")]
    /// ```
    ///
    /// # Errors
    ///
    /// [`DeadLetterError::Store`].
    pub async fn status(&self) -> Result<Status, DeadLetterError> {
        let now = self.now();
        let Backlog { queues, peers } = self.backlog(now).await?;
        let mut accounts: BTreeMap<String, Gathered> = BTreeMap::new();
        for queue in &queues {
            let account = whose(&queue.scope, &peers);
            accounts.entry(account).or_default().add(queue);
        }
        for peer in &peers {
            accounts.entry(peer.account.clone()).or_default().hear(peer, now);
        }
        let mut rejected_rows = 0;
        if let Some(outbox) = self.store.outbox() {
            let counts = outbox.counts().await.map_err(DeadLetterError::store("count the outbox"))?;
            for account in self.unadmitted(&counts).await? {
                accounts.entry(account).or_default().status.is_unknown = true;
            }
            for rows in counts {
                let account = format!("{}/{}/{}", rows.namespace, rows.vendor, rows.account);
                rejected_rows += rows.rejected;
                if rows.waiting > 0 {
                    accounts.entry(account).or_default().status.in_outbox += rows.waiting;
                }
            }
        }
        let mut told = Vec::with_capacity(accounts.len());
        for (account, gathered) in accounts {
            told.push(self.told(account, gathered).await?);
        }
        // Those that nothing of is delivered for come first, then those with a route that is down.
        told.sort_by_key(|account| {
            let is_whole = account.closed.iter().any(|closed| closed.route.is_none());
            (!is_whole, !account.is_unknown, account.closed.is_empty())
        });
        Ok(Status { now, accounts: told, rejected_rows })
    }

    /// Returns the status of the account that an operation is of: the reason for which it waits although it is due.
    pub(super) async fn account_of(&self, scope: &Scope) -> Result<Option<AccountStatus>, DeadLetterError> {
        let mut accounts = self.status().await?.accounts;
        accounts.retain(|account| scope.is_reached_by(&account.account));
        Ok(accounts.pop().map(|mut account| {
            account.closed.retain(|closed| {
                closed.route.as_deref().is_none_or(|name| RouteName::named(name).is_of(scope.route()))
            });
            account
        }))
    }

    pub(super) async fn backlog(&self, now: Timestamp) -> Result<Backlog, DeadLetterError> {
        let failed = DeadLetterError::store("count the backlog");
        if let Some(delivery) = self.store.delivery() {
            return delivery.backlog(now).await.map_err(failed);
        }
        let phases = vec![Phase::InProgress, Phase::Scheduled, Phase::Dead];
        let filter = Filter { phases, ..Filter::default() };
        let (mut rows, mut after) = (Vec::new(), None);
        loop {
            let page = self.page(&filter, after.as_deref(), PAGE_ROWS).await?;
            rows.extend(page.rows);
            after = page.next;
            if after.is_none() {
                return Ok(Backlog { queues: queues(rows.into_iter(), now), peers: Vec::new() });
            }
        }
    }

    async fn told(&self, account: String, gathered: Gathered) -> Result<AccountStatus, DeadLetterError> {
        let Gathered { mut status, routes } = gathered;
        let mut routes: Vec<_> = routes.into_iter().collect();
        routes
            .sort_by(|(one, (a, _)), (other, (b, _))| b.waiting.cmp(&a.waiting).then_with(|| one.cmp(other)));
        routes.truncate(AccountStatus::ROUTES_MAX);
        for (_, (route, last)) in &mut routes {
            if let Some(id) = last {
                let log =
                    self.store.evidence(id).await.map_err(DeadLetterError::store("read the attempts"))?;
                route.last = log.into_iter().rfind(|report| !report.is_lookup());
            }
        }
        status.routes = routes.into_iter().map(|(_, (route, _))| route).collect();
        status.closed.sort_by_key(|closed| (closed.route.is_some(), closed.since));
        status.account = account;
        Ok(status)
    }
}

/// Account on the way to its status.
#[derive(Default)]
struct Gathered {
    status: AccountStatus,
    /// Routes, each with the operation that was sent last.
    routes: BTreeMap<String, (RouteStatus, Option<OperationId>)>,
}

impl Gathered {
    fn add(&mut self, queue: &Queue) {
        let status = &mut self.status;
        match queue.phase {
            Phase::InProgress => status.under_way += queue.count,
            Phase::Dead => status.dead += queue.count,
            _ => {
                status.waiting += queue.count;
                status.overdue += queue.overdue;
                status.tried += queue.tried;
                status.behind += queue.behind;
                status.late += queue.late;
                status.next_due = [status.next_due, queue.next].into_iter().flatten().min();
                let name = RouteName::of(queue.scope.route()).to_string();
                let none = RouteStatus { route: name.clone(), waiting: 0, tried: 0, last: None };
                let (route, last) = self.routes.entry(name).or_insert((none, None));
                route.waiting += queue.count;
                route.tried += queue.tried;
                if let Some(key) = &queue.last {
                    *last = Some(OperationId::new(queue.scope.clone(), key.clone()));
                }
            }
        }
    }

    fn hear(&mut self, peer: &Peer, now: Timestamp) {
        let word: PeerStatus = serde_json::from_str(&peer.says).unwrap_or_default();
        let said = now.minus(peer.ago);
        self.status.dispatchers += 1;
        self.status.per_second += word.gone_per_second.max(0.0);
        for shut in word.shut {
            let since = shut.since_ms.map(|ms| said.minus(Duration::from_millis(ms)));
            let until = shut.left_ms.map(|ms| said.plus(Duration::from_millis(ms)));
            let known = self
                .status
                .closed
                .iter_mut()
                .find(|one| (&one.gate, &one.route) == (&shut.gate, &shut.route));
            match known {
                Some(closed) => {
                    closed.since = [closed.since, since].into_iter().flatten().min();
                    closed.until = [closed.until, until].into_iter().flatten().min();
                    closed.dispatchers += 1;
                }
                None => self.status.closed.push(Closed {
                    gate: shut.gate,
                    route: shut.route,
                    since,
                    until,
                    dispatchers: 1,
                }),
            }
        }
    }
}

/// The account that a dispatcher delivers for and that reaches this scope, else the scope's own.
fn whose(scope: &Scope, peers: &[Peer]) -> String {
    let reaching = peers.iter().find(|peer| scope.is_reached_by(&peer.account));
    reaching.map_or_else(|| scope.account_path().to_owned(), |peer| peer.account.clone())
}

/// Rate below which nothing goes: the time left would be in weeks.
const PER_SECOND_LEAST: f64 = 0.01;

const GONE_SECONDS_MAX: f64 = 1e9;

#[cfg(test)]
mod tests;
