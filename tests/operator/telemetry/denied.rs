//! A role that may read the outbox and may not admit its rows is logged once, and not at each look.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use support::rig::Rig;

use steadfast::clock::{Clock as _, Timestamp};
use steadfast::operation::record::{AuditEntry, Claim, Claimed, Page};
use steadfast::store::{Memory, OutboxTally, Queued, Rejected, Store, StoreError, StoreErrorKind, Wrapper};
use steadfast::testkit::TestClock;
use steadfast::vendor::Stripe;
use steadfast::{OnUnknown, dispatcher};
use steadfast_core::store::outbox::{Account, Outbox, OutboxRow, Statement};

use super::capture::{captured, listen};

/// An outbox of 150 rows, which stay.
#[derive(Debug, Default)]
struct Locked {
    store: Memory,
    is_open: AtomicBool,
    tried: AtomicUsize,
}

impl Wrapper for Locked {
    fn inner(&self) -> &dyn Store {
        &self.store
    }

    fn outbox(&self) -> Option<&dyn Outbox> {
        Some(self)
    }
}

fn row(number: u64) -> OutboxRow {
    OutboxRow {
        number,
        method: "POST".to_owned(),
        path: "/v1/charges".to_owned(),
        key: format!("order-{number}"),
        headers: Vec::new(),
        body: Bytes::new(),
        due: None,
        on_unknown: Some(OnUnknown::Park),
        keep: None,
        redact: Vec::new(),
        supersedes: None,
        origin: None,
        sequence: None,
        enqueued_at: Timestamp::default(),
        problem: None,
    }
}

#[async_trait]
impl Outbox for Locked {
    fn put(&self, _: &Account, _: &OutboxRow) -> Result<Vec<Statement>, StoreError> {
        Ok(Vec::new())
    }

    async fn write(&self, _: Vec<Statement>) -> Result<(), StoreError> {
        Ok(())
    }

    async fn holds_back(&self, _: &Account, _: &str) -> Result<bool, StoreError> {
        Ok(false)
    }

    async fn have_rows(&self, accounts: &[Account]) -> Result<Vec<bool>, StoreError> {
        Ok(vec![true; accounts.len()])
    }

    async fn waiting(
        &self,
        _: &Account,
        after: Option<&str>,
        limit: usize,
        _: usize,
    ) -> Result<Page<OutboxRow>, StoreError> {
        let first: u64 = after.map_or(1, |after| after.parse().expect("its own"));
        let rows: Vec<OutboxRow> = (first..=150).take(limit).map(row).collect();
        let next = rows.last().filter(|last| last.number < 150).map(|last| last.number + 1);
        Ok(Page { rows, next: next.map(|next| next.to_string()) })
    }

    async fn admit(&self, _: u64, _: Claim) -> Result<Option<Claimed>, StoreError> {
        self.tried.fetch_add(1, Ordering::Relaxed);
        if self.is_open.load(Ordering::Relaxed) {
            return Ok(None);
        }
        Err(StoreError::new("permission denied for table outbox").of_kind(StoreErrorKind::Denied))
    }

    async fn reject(&self, _: u64, _: &str, _: Timestamp) -> Result<bool, StoreError> {
        Ok(false)
    }

    async fn under_key(&self, _: &Account, _: &str) -> Result<Vec<OutboxRow>, StoreError> {
        Ok(Vec::new())
    }

    async fn rejection(&self, _: &Account, _: &str) -> Result<Option<String>, StoreError> {
        Ok(None)
    }

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

#[tokio::test]
async fn a_role_without_the_right_to_admit_rows_is_logged_once() {
    listen();
    let (store, clock) = (Arc::new(Locked::default()), TestClock::auto());
    let client = Rig::of(Stripe::new("sk_test_123")).store(Arc::clone(&store)).clock(&clock).client();
    let _dispatcher = client.keep_recovering(dispatcher::PERIOD);
    let minute = async || clock.sleep_until(clock.now().plus(Duration::from_secs(60))).await;
    minute().await;
    let failed = || captured().all("recovery failed").len();
    assert_eq!(failed(), 1, "{:?}", captured().all("recovery failed"));
    // One row a look, after the first page.
    let tried = store.tried.swap(0, Ordering::Relaxed);
    assert!(tried > 100 && tried < 400, "{tried}");
    // It gets the right, and later loses it again.
    store.is_open.store(true, Ordering::Relaxed);
    minute().await;
    assert_eq!(failed(), 1);
    store.is_open.store(false, Ordering::Relaxed);
    minute().await;
    assert_eq!(failed(), 2);
}
