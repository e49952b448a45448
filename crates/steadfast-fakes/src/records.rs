//! The memory of keys: what the first request under each was, and what is kept of its answer.

use std::collections::HashMap;

use steadfast_core::clock::Timestamp;

/// The record that is kept under each key of each account.
#[derive(Debug)]
pub(super) struct Records<K>(HashMap<(String, String), Record<K>>);

#[derive(Debug)]
pub(super) struct Record<K> {
    pub(super) endpoint: String,
    /// All that makes two requests to an endpoint the same.
    pub(super) params: String,
    pub(super) kept: K,
    pub(super) busy_until: Timestamp,
    /// From when on the key is new again.
    pub(super) free_from: Timestamp,
}

pub(super) enum Lookup<'a, K> {
    New,
    Busy,
    OtherEndpoint(&'a Record<K>),
    OtherParams(&'a Record<K>),
    Kept(&'a Record<K>),
}

impl<K> Records<K> {
    pub(super) fn find(
        &self,
        account: &str,
        key: &str,
        endpoint: &str,
        params: &str,
        now: Timestamp,
    ) -> Lookup<'_, K> {
        match self.0.get(&(account.to_owned(), key.to_owned())) {
            None => Lookup::New,
            Some(record) if now >= record.free_from => Lookup::New,
            Some(record) if now < record.busy_until => Lookup::Busy,
            Some(record) if record.endpoint != endpoint => Lookup::OtherEndpoint(record),
            Some(record) if record.params != params => Lookup::OtherParams(record),
            Some(record) => Lookup::Kept(record),
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
