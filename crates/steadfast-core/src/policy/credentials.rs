//! Accounts whose credentials the vendor refused.
//!
//! Refused credentials are the client's failure and not an operation's: a secret was rotated, a merchant has left, a
//! sign-in server is down. Where no caller waits, the account is *held*, and its operations stay due. One of them at a time
//! probes whether the credentials are accepted again, after 1 s, 2 s, 4 s … 30 s. Any good answer ends it.
//!
//! A platform has one secret for all its merchants. So accounts that are held are probed in turn, one a second, as long as
//! they are refused. The good answer that ends a hold has all others probed at once.
//!
//! One route may ask for more than the account has. Then the account is answered well while an operation is refused again
//! and again. Such an operation climbs its ladder and is then refused alone, because a sign-in may also fail now and then. A
//! good answer counts only if it came after the operation's own refusal before: when a secret is revoked, the last good
//! answers are only a moment old.
//!
//! A single refusal holds the account and is not logged: where others go on, a good answer ends the hold in the same
//! moment. The second one is.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;

use crate::clock::Instant;
use crate::operation::RouteName;

/// The accounts of one client that are held, or were of late.
#[derive(Debug, Default)]
pub struct Credentials {
    /// True if an account is held, or was of late: nearly always false.
    any: AtomicBool,
    accounts: Mutex<Accounts>,
}

#[derive(Debug, Default)]
struct Accounts {
    all: Vec<Account>,
    /// Time at which the next held account may be probed; `None` while probes are answered well.
    turn_at: Option<Instant>,
}

#[derive(Debug)]
struct Account {
    path: String,
    held: Option<Held>,
    answered_at: Option<Instant>,
    refused_at: Instant,
}

#[derive(Debug)]
struct Held {
    since: Instant,
    /// The next probe may go.
    probe_at: Instant,
    rounds: u32,
    is_reported: bool,
    /// Routes that were refused, of which another probe says little.
    refused: Vec<RouteName>,
}

/// An account that is held.
#[derive(Clone, Debug)]
pub struct HeldAccount {
    #[allow(missing_docs, reason = "for the crates of this workspace alone")]
    pub path: String,
    #[allow(missing_docs, reason = "for the crates of this workspace alone")]
    pub since: Instant,
    /// Time at which the next probe may go.
    pub probe_at: Instant,
    /// True if the account has been held for long enough to be reported.
    pub is_told: bool,
    /// Routes that probes were refused on.
    pub refused: Vec<RouteName>,
}

impl Credentials {
    /// Whether an account is held, or was of late.
    #[inline]
    pub fn any(&self) -> bool {
        self.any.load(Ordering::Relaxed)
    }

    /// Refuses to send an operation of a held account without a caller.
    ///
    /// # Errors
    ///
    /// The time at which the next probe may go.
    pub fn check(&self, path: &str, now: Instant) -> Result<(), Instant> {
        if !self.any() {
            return Ok(());
        }
        let accounts = self.accounts.lock();
        let account = accounts.all.iter().find(|account| account.path == path);
        let held = account.and_then(|account| account.held.as_ref());
        held.filter(|held| now < held.probe_at).map_or(Ok(()), |held| Err(held.probe_at))
    }

    /// A probe of the account is on its way. No other goes until it has ended, or can only have been dropped.
    pub fn probes(&self, path: &str, now: Instant, lasts: Duration) {
        self.with_held(path, |held| held.probe_at = held.probe_at.max(now.plus(lasts)));
    }

    /// Ends an attempt or a lookup of the account that [began](Credentials::probes) and showed nothing of its
    /// credentials.
    pub fn undecided(&self, path: &str, now: Instant) {
        self.with_held(path, |held| held.probe_at = now.plus(HOLD_BASE));
    }

    /// Notes that the credentials were refused to an attempt without a caller that began at `begun`. Returns true if
    /// that is to be reported now.
    pub fn refused(&self, (path, route): (&str, RouteName), begun: Instant, now: Instant) -> bool {
        let mut accounts = self.accounts.lock();
        let Accounts { all, turn_at } = &mut *accounts;
        *turn_at = Some(now.plus(HOLD_BASE));
        all.retain(|account| account.held.is_some() || now.since(account.refused_at) < REMEMBERED);
        let at = all.iter().position(|account| account.path == path).unwrap_or_else(|| {
            if all.len() >= ACCOUNTS_MAX {
                all.remove(all.iter().position(|account| account.held.is_none()).unwrap_or_default());
            }
            all.push(Account { path: path.to_owned(), held: None, answered_at: None, refused_at: now });
            all.len() - 1
        });
        self.any.store(true, Ordering::Relaxed);
        let Some(account) = all.get_mut(at) else { return false };
        // Those that were on their way together are refused together, and are one round.
        let is_round = account.held.is_none() || begun > account.refused_at;
        account.refused_at = now;
        let held = account.held.get_or_insert_with(|| Held {
            since: now,
            probe_at: now,
            rounds: 0,
            is_reported: false,
            refused: Vec::new(),
        });
        if !held.refused.contains(&route) && held.refused.len() < ROUTES_MAX {
            held.refused.push(route);
        }
        if !is_round {
            return false;
        }
        let step = HOLD_BASE.saturating_mul(2u32.saturating_pow(held.rounds)).min(HOLD_CAP);
        held.probe_at = now.plus(step);
        held.rounds = held.rounds.saturating_add(1);
        held.rounds > 1 && !std::mem::replace(&mut held.is_reported, true)
    }

    /// Notes that a call of the account was answered well, with or without a caller. Returns the time for which the
    /// account was held, if that was reported and has ended now.
    pub fn answered(&self, path: &str, now: Instant) -> Option<Duration> {
        let mut accounts = self.accounts.lock();
        let Accounts { all, turn_at } = &mut *accounts;
        let account = all.iter_mut().find(|account| account.path == path)?;
        account.answered_at = Some(now);
        let held = account.held.take();
        let is_recent = |account: &Account| now.since(account.refused_at) < REMEMBERED;
        all.retain(|account| account.held.is_some() || is_recent(account));
        self.any.store(!all.is_empty(), Ordering::Relaxed);
        let held = held.filter(|held| held.is_reported)?;
        *turn_at = None;
        for other in all.iter_mut().filter_map(|account| account.held.as_mut()) {
            other.probe_at = other.probe_at.min(now);
        }
        Some(now.since(held.since))
    }

    /// Whether the account was answered well after `since`.
    pub fn is_answered_since(&self, path: &str, since: Instant) -> bool {
        let accounts = self.accounts.lock();
        let account = accounts.all.iter().find(|account| account.path == path);
        account.and_then(|account| account.answered_at).is_some_and(|at| at > since)
    }

    /// The accounts that may be probed now, the one that waits longest first. Each probe that is taken
    /// [ends a turn](Credentials::end_turn).
    pub fn due(&self, now: Instant) -> Vec<HeldAccount> {
        if !self.any() || self.accounts.lock().turn_at.is_some_and(|at| now < at) {
            return Vec::new();
        }
        let mut due = self.held();
        due.retain(|account| account.probe_at <= now);
        due.sort_by_key(|account| account.probe_at);
        due
    }

    /// Notes that a probe of one account was taken. Returns true if another account has to wait for its turn.
    pub fn end_turn(&self, now: Instant) -> bool {
        let turn_at = &mut self.accounts.lock().turn_at;
        *turn_at = turn_at.map(|_| now.plus(HOLD_BASE));
        turn_at.is_some()
    }

    /// No operation waits but on the routes that were refused: they are probed again.
    pub fn probe_all(&self, path: &str) {
        self.with_held(path, |held| held.refused.clear());
    }

    /// The accounts that are held.
    pub fn held(&self) -> Vec<HeldAccount> {
        if !self.any() {
            return Vec::new();
        }
        let accounts = self.accounts.lock();
        let held = accounts.all.iter().filter_map(|account| {
            let held = account.held.as_ref()?;
            let (path, refused) = (account.path.clone(), held.refused.clone());
            Some(HeldAccount {
                path,
                since: held.since,
                probe_at: held.probe_at,
                is_told: held.is_reported,
                refused,
            })
        });
        held.collect()
    }

    fn with_held(&self, path: &str, change: impl FnOnce(&mut Held)) {
        if self.any() {
            let mut accounts = self.accounts.lock();
            let account = accounts.all.iter_mut().find(|account| account.path == path);
            if let Some(held) = account.and_then(|account| account.held.as_mut()) {
                change(held);
            }
        }
    }
}

/// Wait before the first probe; doubled up to [`HOLD_CAP`]. Both are the circuit's.
const HOLD_BASE: Duration = Duration::from_secs(1);

/// Longest wait between probes: so few refused sign-ins a minute lock no account, and a vendor that accepts them again
/// is noticed within half a minute.
const HOLD_CAP: Duration = Duration::from_secs(30);

/// Time for which a good answer counts for an operation that is refused again: far longer than its next attempt takes.
const REMEMBERED: Duration = Duration::from_secs(60 * 60);

/// More merchants than one process delivers for. Those that are not held any more make room first.
const ACCOUNTS_MAX: usize = 16_384;

/// Far more than a vendor's client uses.
const ROUTES_MAX: usize = 32;

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Instant {
        Instant::ORIGIN.plus(Duration::from_secs(seconds))
    }

    fn route(path: &str) -> RouteName {
        RouteName::of(path)
    }

    const A: &str = "prod/stripe/live";

    #[test]
    fn a_refusal_holds_the_account_and_the_second_is_reported() {
        let credentials = Credentials::default();
        assert_eq!(credentials.check(A, at(0)), Ok(()));
        assert!(!credentials.refused((A, route("POST /a")), at(0), at(0)));
        assert_eq!(credentials.check(A, at(0)), Err(at(1)));
        assert_eq!(credentials.check("prod/stripe/other", at(0)), Ok(()));
        assert!(!credentials.refused((A, route("POST /a")), at(0), at(0)), "they were on their way together");
        assert_eq!(credentials.check(A, at(1)), Ok(()), "one round");
        assert!(credentials.refused((A, route("POST /b")), at(1), at(1)), "the second round");
        assert!(!credentials.refused((A, route("POST /b")), at(3), at(3)), "told once");
        assert_eq!(credentials.held()[0].refused, [route("POST /a"), route("POST /b")]);
        assert_eq!(credentials.answered(A, at(9)), Some(Duration::from_secs(9)));
        assert_eq!(credentials.check(A, at(9)), Ok(()));
    }

    #[test]
    fn the_wait_doubles_up_to_half_a_minute_and_a_probe_keeps_others_back() {
        let credentials = Credentials::default();
        let mut now = at(0);
        for step in [1, 2, 4, 8, 16, 30, 30] {
            credentials.refused((A, route("POST /a")), now, now);
            let next = credentials.check(A, now).expect_err("held");
            assert_eq!(next.since(now), Duration::from_secs(step));
            now = next;
        }
        credentials.probes(A, now, Duration::from_secs(60));
        assert_eq!(credentials.check(A, now), Err(now.plus(Duration::from_secs(60))));
        credentials.undecided(A, now);
        assert_eq!(credentials.check(A, now), Err(now.plus(Duration::from_secs(1))));
    }

    #[test]
    fn only_a_later_good_answer_shows_that_one_operation_alone_is_refused() {
        let credentials = Credentials::default();
        credentials.refused((A, route("POST /a")), at(1), at(1));
        assert!(!credentials.is_answered_since(A, at(1)));
        credentials.answered(A, at(3));
        assert!(credentials.is_answered_since(A, at(1)));
        assert!(!credentials.is_answered_since(A, at(3)), "before its refusal");
    }

    #[test]
    fn accounts_are_probed_in_turn_while_they_are_refused() {
        let credentials = Credentials::default();
        let paths: Vec<String> = (0..300).map(|nth| format!("prod/stripe/acct_{nth}")).collect();
        let refused = |path: &str, now| credentials.refused((path, route("POST /a")), now, now);
        for path in &paths {
            refused(path, at(0));
        }
        let (mut now, mut probed) = (at(1), Vec::new());
        for _ in 0..300 {
            let due = credentials.due(now);
            probed.push(due[0].path.clone());
            assert!(credentials.end_turn(now));
            assert_eq!(credentials.due(now).len(), 0, "one a second");
            refused(&due[0].path, now);
            now = now.plus(HOLD_BASE);
        }
        probed.sort_unstable();
        probed.dedup();
        assert_eq!(probed.len(), 300, "each in its turn");
        let first = credentials.due(now)[0].path.clone();
        credentials.answered(&first, now);
        assert_eq!(credentials.due(now).len(), 299, "it was the secret of all");
        assert!(!credentials.end_turn(now));
    }
}
