//! Stripe's memory of keys.

use std::collections::HashMap;
use std::time::Duration;

use super::super::fixture::Reply;
use super::machine::Write;
use super::params::Params;
use crate::clock::Timestamp;

/// What was answered under each key, per account and mode.
#[derive(Debug, Default)]
pub(super) struct Records(HashMap<(String, String), Record>);

#[derive(Debug)]
pub(super) struct Record {
    path: String,
    params: String,
    reply: Reply,
    request_id: String,
    first_used: Timestamp,
    busy_until: Timestamp,
}

pub(super) enum Lookup {
    New,
    Busy,
    OtherEndpoint(String),
    OtherParams,
    /// The stored answer and the id of the request that it was first given to.
    Replay(Reply, String),
}

impl Records {
    pub(super) fn find(
        &self,
        account: &str,
        key: &str,
        path: &str,
        params: &Params,
        now: Timestamp,
    ) -> Lookup {
        let Some(record) = self.0.get(&(account.to_owned(), key.to_owned())) else {
            return Lookup::New;
        };
        if now.since(record.first_used) >= TTL {
            Lookup::New
        } else if now < record.busy_until {
            Lookup::Busy
        } else if record.path != path {
            Lookup::OtherEndpoint(record.path.clone())
        } else if record.params != params.text() {
            Lookup::OtherParams
        } else {
            Lookup::Replay(record.reply.clone(), record.request_id.clone())
        }
    }

    pub(super) fn insert(&mut self, account: &str, key: &str, record: Record) {
        self.0.insert((account.to_owned(), key.to_owned()), record);
    }
}

impl Record {
    pub(super) fn new(write: &Write<'_>, reply: &Reply, now: Timestamp, busy_until: Timestamp) -> Record {
        let mut reply = reply.clone();
        // A plain 200 carries the header on its first answer only; a replayed 500 keeps it, which is how an
        // SDK learns that it will never change (the fixtures `create_ok_replayed` and `stored_500`).
        if reply.status == 200 {
            reply.headers.retain(|(name, _)| name != "Stripe-Should-Retry");
        }
        Record {
            path: write.path.to_owned(),
            params: write.params.text(),
            reply,
            request_id: write.request_id.to_owned(),
            first_used: now,
            busy_until,
        }
    }
}

/// "Keys can be removed after they're at least 24 hours old" (<https://docs.stripe.com/api/idempotent_requests>).
/// The fake removes them at that age exactly: the earliest that a client must be ready for.
const TTL: Duration = Duration::from_secs(24 * 3600);
