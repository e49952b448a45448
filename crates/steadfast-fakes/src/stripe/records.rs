//! Stripe's memory of keys.

use std::collections::HashMap;
use std::time::Duration;

use steadfast_core::clock::Timestamp;

use super::super::fixture::Reply;
use super::machine::Write;

/// What is kept under each key, per account and mode: an [`Answer`] in v1, the id of what was made or changed in v2.
#[derive(Debug)]
pub(super) struct Records<K>(HashMap<(String, String), Record<K>>);

#[derive(Debug)]
pub(super) struct Record<K> {
    pub(super) endpoint: String,
    pub(super) params: String,
    pub(super) kept: K,
    pub(super) busy_until: Timestamp,
    /// From when on the key is new again.
    pub(super) free_from: Timestamp,
}

/// An answer of v1's, and the id of the request that it was first given to.
#[derive(Clone, Debug)]
pub(super) struct Answer {
    pub(super) reply: Reply,
    pub(super) request_id: String,
}

pub(super) enum Lookup<K> {
    New,
    Busy,
    OtherEndpoint(String),
    OtherParams,
    Kept(K),
}

impl<K: Clone> Records<K> {
    pub(super) fn find(
        &self,
        account: &str,
        key: &str,
        endpoint: &str,
        params: &str,
        now: Timestamp,
    ) -> Lookup<K> {
        let Some(record) = self.0.get(&(account.to_owned(), key.to_owned())) else {
            return Lookup::New;
        };
        if now >= record.free_from {
            Lookup::New
        } else if now < record.busy_until {
            Lookup::Busy
        } else if record.endpoint != endpoint {
            Lookup::OtherEndpoint(record.endpoint.clone())
        } else if record.params != params {
            Lookup::OtherParams
        } else {
            Lookup::Kept(record.kept.clone())
        }
    }

    pub(super) fn insert(&mut self, account: &str, key: &str, record: Record<K>) {
        self.0.insert((account.to_owned(), key.to_owned()), record);
    }
}

impl<K> Default for Records<K> {
    fn default() -> Records<K> {
        Records(HashMap::new())
    }
}

impl Record<Answer> {
    pub(super) fn new(
        write: &Write<'_>,
        params: String,
        reply: &Reply,
        now: Timestamp,
        busy_until: Timestamp,
    ) -> Self {
        let mut reply = reply.clone();
        // A plain 200 carries the header on its first answer only; a replayed 500 keeps it, which is how an
        // SDK learns that it will never change (the fixtures `create_ok_replayed` and `stored_500`).
        if reply.status == 200 {
            reply.headers.retain(|(name, _)| name != "Stripe-Should-Retry");
        }
        Record {
            endpoint: write.path.to_owned(),
            params,
            kept: Answer { reply, request_id: write.request_id.to_owned() },
            busy_until,
            free_from: now.plus(TTL),
        }
    }
}

/// "Keys can be removed after they're at least 24 hours old" (<https://docs.stripe.com/api/idempotent_requests>).
/// The fake removes them at that age exactly: the earliest that a client must be ready for.
const TTL: Duration = Duration::from_secs(24 * 3600);
