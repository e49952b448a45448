//! Adyen's memory of keys.

use std::collections::HashMap;
use std::time::Duration;

use steadfast_core::clock::Timestamp;

use super::super::fixture::Reply;

/// What was answered under each key of the company account.
#[derive(Debug, Default)]
pub(super) struct Records(HashMap<String, Record>);

#[derive(Debug)]
pub(super) struct Record {
    pub(super) route: String,
    pub(super) body: Vec<u8>,
    pub(super) reply: Reply,
    pub(super) first_used: Timestamp,
    pub(super) busy_until: Timestamp,
}

pub(super) enum Lookup {
    New,
    Busy,
    /// The stored answer, and whether it is to the same request.
    Replay(Reply, bool),
}

impl Records {
    pub(super) fn find(&self, key: &str, route: &str, body: &[u8], now: Timestamp) -> Lookup {
        match self.0.get(key) {
            Some(record) if now.since(record.first_used) >= TTL => Lookup::New,
            Some(record) if now < record.busy_until => Lookup::Busy,
            Some(record) => {
                Lookup::Replay(record.reply.clone(), record.route == route && record.body == body)
            }
            None => Lookup::New,
        }
    }

    pub(super) fn insert(&mut self, key: &str, record: Record) {
        self.0.insert(key.to_owned(), record);
    }
}

/// "Valid for a minimum period of 7 days after first submission." The fake forgets them at that age exactly: the
/// earliest that a client must be ready for.
const TTL: Duration = Duration::from_secs(7 * 24 * 3600);
