//! Find an operation by any name that a person has of it.
//!
//! A person has the caller's key from a ticket, a whole name from a list, or the wire key from a vendor's dashboard.
//! The cheapest is tried first, and the wire key last: it has no index.

use uuid::Uuid;

use steadfast_core::operation::record::{Filter, Phase};
use steadfast_core::operation::{Key, OperationId, Scope};

use super::{DeadLetterError, DeadLetters, OPEN};

impl DeadLetters {
    /// Finds an operation by its whole name as lists print it, `SCOPE key KEY`; by its key; or by its wire key,
    /// which is what a vendor's dashboard shows as the idempotency key. A wire key is also found within what a
    /// vendor makes of it, such as `<WIRE_KEY@example.com>` or a batch's `WIRE_KEY-3`.
    ///
    /// Names and keys are looked up in an index. A wire key has none, because every call would pay for it. It is
    /// looked for among the dead letters, and then among all operations. Each of these is read once, without bodies:
    /// in SQLite about a second for a million in memory.
    ///
    /// # Errors
    ///
    /// [`DeadLetterError::Absent`], and [`DeadLetterError::Ambiguous`] if the key is in several scopes.
    pub async fn find(&self, name: &str) -> Result<OperationId, DeadLetterError> {
        self.find_by(name, wire_keys(name)).await
    }

    /// Finds an operation as [`find`](DeadLetters::find) does, for a command that changes it. A wire key must then be
    /// given alone. Out of another text, such as a line of a log, it could be that of an operation beside the one that
    /// is meant.
    ///
    /// # Errors
    ///
    /// As [`find`](DeadLetters::find).
    pub async fn find_whole(&self, name: &str) -> Result<OperationId, DeadLetterError> {
        self.find_by(name, whole_wire_key(name).into_iter().collect()).await
    }

    async fn find_by(&self, name: &str, wire_keys: Vec<String>) -> Result<OperationId, DeadLetterError> {
        for (at, found) in name.match_indices(NAME_SEPARATOR) {
            let Ok(key) = Key::new(&name[at + found.len()..]) else { continue };
            let id = OperationId::new(Scope::from_stored(&name[..at]), key);
            if self.get(&id).await?.is_some() {
                return Ok(id);
            }
        }
        if let Ok(key) = Key::new(name)
            && let Some(id) = self.only(Filter { key: Some(key), ..Filter::default() }).await?
        {
            return Ok(id);
        }
        for phases in [&OPEN[..], ANY_PHASE] {
            for wire_key in &wire_keys {
                let filter =
                    Filter { wire_key: Some(wire_key.clone()), phases: phases.to_vec(), ..Filter::default() };
                if let Some(id) = self.only(filter).await? {
                    return Ok(id);
                }
            }
        }
        self.check_absent().await?;
        Err(DeadLetterError::Absent(name.to_owned()))
    }

    /// Refuses the answer that there is nothing where the store's records may have gone on elsewhere.
    async fn check_absent(&self) -> Result<(), DeadLetterError> {
        // A role that may not ask is told by what it may read.
        let Some(maintenance) = self.store.maintenance() else { return Ok(()) };
        let Ok(head) = maintenance.head().await else { return Ok(()) };
        head.standing.check_absent().map_err(DeadLetterError::store("find the operation"))
    }

    /// The one operation that matches, if any does.
    async fn only(&self, filter: Filter) -> Result<Option<OperationId>, DeadLetterError> {
        let page = self.page(&filter, None, AMBIGUOUS_SHOWN_MAX).await?;
        let mut ids: Vec<OperationId> = page.rows.into_iter().map(|summary| summary.id).collect();
        if ids.len() > 1 {
            return Err(DeadLetterError::Ambiguous(ids));
        }
        Ok(ids.pop())
    }
}

/// The wire keys that a text may mean: itself without the marks around it, and a UUID in it.
fn wire_keys(text: &str) -> Vec<String> {
    if text.len() > WIRE_KEY_TEXT_MAX {
        return Vec::new();
    }
    let whole = text.trim().trim_matches(MARKS);
    let part = (0..whole.len())
        .filter_map(|at| whole.get(at..at + UUID_LEN))
        .find_map(|part| Uuid::try_parse(part).ok())
        .map(|uuid| uuid.as_hyphenated().to_string());
    let whole = Some(whole).filter(|whole| !whole.is_empty()).map(str::to_owned);
    let mut wire_keys: Vec<String> = whole.into_iter().chain(part).collect();
    wire_keys.dedup();
    wire_keys
}

/// The wire key that a text is. One that is a UUID is written in small letters, and may be typed in capitals.
fn whole_wire_key(text: &str) -> Option<String> {
    let whole = text.trim();
    let uuid = Uuid::try_parse(whole).ok().filter(|_| whole.len() == UUID_LEN);
    let is_one = !whole.is_empty() && whole.len() <= WIRE_KEY_TEXT_MAX;
    is_one.then(|| uuid.map_or_else(|| whole.to_owned(), |uuid| uuid.as_hyphenated().to_string()))
}

/// Separator in an operation's name: see its `Display`.
const NAME_SEPARATOR: &str = " key ";

/// Operations that share a key, as far as they are named in the refusal.
const AMBIGUOUS_SHOWN_MAX: usize = 20;

/// Every phase, and none is asked for.
const ANY_PHASE: &[Phase] = &[];

/// A quoted header (RFC 8941), a Message-ID, a reason that ends in the key.
const MARKS: &[char] = &['"', '<', '>', '[', ']'];

/// Length of a UUID with hyphens, as wire keys are written.
const UUID_LEN: usize = 36;

/// Longer than any vendor makes of a wire key; what is longer is something else that was pasted.
const WIRE_KEY_TEXT_MAX: usize = 1_024;

#[cfg(test)]
mod tests {
    use super::wire_keys;

    #[test]
    fn a_wire_key_is_read_out_of_what_vendors_make_of_it() {
        let key = "0d0c7b5e-8f0e-8a3b-9d2f-6a1b2c3d4e5f";
        let upper = key.to_uppercase();
        for (text, expected) in [
            (key, vec![key]),
            (&format!(" {key}\n"), vec![key]),
            (&format!("\"{key}\""), vec![key]),
            (&upper, vec![&upper[..], key]),
            (&format!("<{key}@mail.example>"), vec![&format!("{key}@mail.example")[..], key]),
            (&format!("{key}-12"), vec![&format!("{key}-12")[..], key]),
            (&format!("torn [{key}]"), vec![&format!("torn [{key}")[..], key]),
            ("\"0d0c7b5e8f0e8a3b\"", vec!["0d0c7b5e8f0e8a3b"]),
            ("order-42/charge", vec!["order-42/charge"]),
            ("é".repeat(40).as_str(), vec![&"é".repeat(40)[..]]),
            ("", vec![]),
            ("\"\"", vec![]),
            (&"x".repeat(1_025), vec![]),
        ] {
            assert_eq!(wire_keys(text), expected, "{text:?}");
        }
    }
}
