//! Secrets in the headers of a request on record. No call can give one today; version 0.1 stored every header that it
//! was given.
//!
//! A scrub takes them out of the request and changes nothing else. Neither the fingerprint nor the wire key is made from
//! headers, so that a repeat of the key is still recognised. It asks neither who holds the operation nor for its fence:
//! what a holder sends, it has already, and what it writes is not the request.

use std::sync::Arc;

use super::{Forbidden, Record};
use crate::operation::secret::hold_a_secret;

impl Record {
    /// Whether the stored request has a header that carries a secret wherever it is used, such as `Authorization`.
    pub fn holds_secrets(&self) -> bool {
        hold_a_secret(&self.request.headers)
    }

    /// The record without the `headers` of these names, in any case, and the names of those that it had.
    pub(super) fn scrubbed(&self, headers: &[String]) -> Result<(Record, Vec<String>), Forbidden> {
        let mut record = self.clone();
        let (kept, mut removed) = (Arc::make_mut(&mut record.request), Vec::new());
        for name in headers {
            if kept.headers.remove(name.as_str()).is_some() {
                removed.push(name.to_ascii_lowercase());
            }
        }
        if removed.is_empty() { Err(Forbidden::NoSecrets) } else { Ok((record, removed)) }
    }
}
