//! Sealed blobs: how a store seals the values that it writes, and which of its rows this process can read.
//!
//! A step that each backend takes between [`codec`](super::codec) and its columns, and not a store around a store.
//! Such a wrapper would see whole records and no transaction, and could keep none of these rules:
//!
//! - A row that cannot be read is left to a process that can. It is neither claimed, nor taken, nor acted upon: its
//!   fence, its lease and its effect stay what they were. Two processes of one service hold different keys for as
//!   long as a rotation takes. Only within the transaction is it known which row that is.
//! - Rows that cannot be read do not fill the limit of a take.
//! - A blob is sealed for its operation's name. An adoption, which gives it another name, reseals it in the same
//!   commit.
//!
//! A backend has four duties. It [`seal`](Seals::seal)s the values that it writes and [`unseal`](Seals::unseal)s those
//! that it reads, on the caller's task. It [`check`](Seals::check)s a row before it changes it. When it takes, it looks
//! for rows of [`ids`](Seals::ids) alone. And it notes beside its rows which keys they need, so a process without one
//! is refused at the start.

#![allow(missing_docs, reason = "for the crates of this workspace alone")]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::answer::Answer;
use crate::guard::Guard;
use crate::operation::OperationId;
use crate::request::Request;
#[cfg(feature = "seal")]
use crate::store::seal::SealKeysExt;
#[cfg(feature = "seal")]
use crate::store::seal::{SealKeyId, SealKeys, Unopened};
use crate::store::{StoreError, StoreErrorKind, codec};

#[cfg(feature = "seal")]
pub use crate::store::seal::Part;

/// Part of an operation: one of its two blobs.
#[cfg(not(feature = "seal"))]
#[derive(Clone, Copy, Debug)]
pub enum Part {
    Request,
    Answer,
}

/// Keys that this process seals and unseals with; without any it does neither. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Seals {
    #[cfg(feature = "seal")]
    keys: Option<SealKeys>,
    /// True if the store is known to be sealed: see [`stand_alone`](Seals::stand_alone). Clones share it.
    alone: Arc<AtomicBool>,
}

impl Seals {
    /// A request as it is to be written.
    pub fn request(&self, id: &OperationId, request: &Request) -> Result<Vec<u8>, StoreError> {
        self.seal(Part::Request, id, codec::request_bytes(request)?)
    }

    /// An answer as it is to be written.
    pub fn answer(&self, id: &OperationId, answer: &Answer) -> Result<Vec<u8>, StoreError> {
        self.seal(Part::Answer, id, codec::answer_bytes(answer)?)
    }
}

#[cfg(feature = "seal")]
impl Seals {
    pub fn with(keys: SealKeys) -> Seals {
        Seals { keys: Some(keys), alone: Arc::default() }
    }

    /// `blob` as it is to be written.
    pub fn seal(&self, part: Part, id: &OperationId, blob: Vec<u8>) -> Result<Vec<u8>, StoreError> {
        let Some(keys) = &self.keys else { return Ok(blob) };
        let mut sealed = Vec::with_capacity(HEAD_BYTES + blob.len() + ROOM);
        sealed.push(SEALED);
        sealed.extend_from_slice(keys.current().as_bytes());
        keys.seal((part, id), &blob, &mut sealed)?;
        Ok(sealed)
    }

    /// `blob` as it was before it was sealed, if it was.
    pub fn unseal(&self, part: Part, id: &OperationId, blob: Vec<u8>) -> Result<Vec<u8>, StoreError> {
        let Some((key, sealed)) = head(&blob)? else { return self.in_the_clear().map(|()| blob) };
        let opened = match &self.keys {
            Some(keys) => keys.open(SealKeyId::from_bytes(*key), (part, id), sealed),
            None => Err(Unopened::NoKey),
        };
        opened.map_err(|unopened| match unopened {
            Unopened::NoKey => missing(key),
            Unopened::Broken => {
                let problem = format!(
                    "a stored {} cannot be unsealed: its bytes changed, or it was sealed for another operation",
                    match part {
                        Part::Request => "request",
                        Part::Answer => "answer",
                    }
                );
                StoreError::new(problem).of_kind(StoreErrorKind::Corrupt)
            }
        })
    }

    /// Whether the key `id` is at hand.
    pub fn has(&self, id: &KeyId) -> bool {
        self.ids().any(|own| own == *id)
    }

    pub fn ids(&self) -> impl Iterator<Item = KeyId> + '_ {
        self.keys.iter().flat_map(SealKeys::ids).map(|id| *id.as_bytes())
    }

    pub fn current(&self) -> Option<KeyId> {
        self.keys.as_ref().map(|keys| *keys.current().as_bytes())
    }
}

#[cfg(not(feature = "seal"))]
impl Seals {
    /// `blob` as it is to be written.
    pub fn seal(&self, _: Part, _: &OperationId, blob: Vec<u8>) -> Result<Vec<u8>, StoreError> {
        Ok(blob)
    }

    /// `blob` as it was before it was sealed, if it was.
    pub fn unseal(&self, _: Part, _: &OperationId, blob: Vec<u8>) -> Result<Vec<u8>, StoreError> {
        match head(&blob)? {
            None => self.in_the_clear().map(|()| blob),
            Some((key, _)) => Err(missing(key)),
        }
    }

    /// Whether the key `id` is at hand.
    pub fn has(&self, _: &KeyId) -> bool {
        false
    }

    pub fn ids(&self) -> impl Iterator<Item = KeyId> + '_ {
        std::iter::empty()
    }

    pub fn current(&self) -> Option<KeyId> {
        None
    }
}

impl Seals {
    /// A blob of the operation `from`, as it is to be written for the operation `to`.
    pub fn seal_anew(
        &self,
        part: Part,
        (from, to): (&OperationId, &OperationId),
        blob: &[u8],
    ) -> Result<Vec<u8>, StoreError> {
        self.seal(part, to, self.unseal(part, from, blob.to_vec())?)
    }

    /// Fails without a key to seal with.
    pub fn needed(&self) -> Result<KeyId, StoreError> {
        self.current().ok_or_else(|| {
            let problem = if cfg!(feature = "seal") {
                "no key was given to seal with"
            } else {
                "this build cannot seal (feature `seal`)"
            };
            StoreError::new(problem).of_kind(StoreErrorKind::Sealed)
        })
    }

    /// Whether `blob` is sealed with the current key.
    pub fn is_current(&self, blob: &[u8]) -> bool {
        matches!(head(blob), Ok(Some((key, _))) if Some(*key) == self.current())
    }

    /// Refuses a blob whose key is not at hand, or that is in the clear in a sealed store.
    pub fn check(&self, blob: &[u8]) -> Result<(), StoreError> {
        match head(blob)? {
            Some((key, _)) if !self.has(key) => Err(missing(key)),
            Some(_) => Ok(()),
            None => self.in_the_clear(),
        }
    }

    /// Treats a record in the clear as corrupt from now on: the store is known to be sealed, so that no process with
    /// the key wrote it.
    pub fn stand_alone(&self) {
        self.alone.store(true, Ordering::Relaxed);
    }

    /// Returns true after [`stand_alone`](Seals::stand_alone).
    pub fn are_alone(&self) -> bool {
        self.alone.load(Ordering::Relaxed)
    }

    fn in_the_clear(&self) -> Result<(), StoreError> {
        if self.are_alone() && Guard::SealedAlone.holds() {
            let problem = "a stored request or answer is in the clear, and the store is sealed: no process with the key \
                           wrote it";
            return Err(StoreError::new(problem).of_kind(StoreErrorKind::Corrupt));
        }
        Ok(())
    }
}

/// The key's id and what follows it, if `blob` is sealed.
fn head(blob: &[u8]) -> Result<Option<(&KeyId, &[u8])>, StoreError> {
    match blob.split_first() {
        Some((&SEALED, rest)) => rest.split_first_chunk().map(Some).ok_or_else(|| {
            StoreError::new("a sealed request or answer is cut short").of_kind(StoreErrorKind::Corrupt)
        }),
        _ => Ok(None),
    }
}

/// Whether `blob` is sealed, with whatever key.
pub fn is_sealed(blob: &[u8]) -> bool {
    blob.first() == Some(&SEALED)
}

/// A process without a key may write nothing into a store that is sealed.
pub fn needs_a_key() -> StoreError {
    let how = if cfg!(feature = "seal") {
        "which was not given"
    } else {
        "and this build cannot seal (feature `seal`)"
    };
    StoreError::new(format!("the store is sealed, so that each process needs its key, {how}"))
        .of_kind(StoreErrorKind::Sealed)
}

fn missing(key: &KeyId) -> StoreError {
    let problem = format!("the operation is sealed with the key {}, which was not given", hex(key));
    StoreError::new(problem).of_kind(StoreErrorKind::Sealed)
}

pub fn hex(id: &KeyId) -> String {
    id.iter().map(|byte| format!("{byte:02x}")).collect()
}

pub type KeyId = [u8; KEY_ID_BYTES];

pub const KEY_ID_BYTES: usize = 8;

/// The version of a blob that is sealed.
pub const SEALED: u8 = 2;

/// Version and key id.
pub const HEAD_BYTES: usize = 1 + KEY_ID_BYTES;

/// More than nonce and tag, so that one allocation does.
#[cfg(feature = "seal")]
const ROOM: usize = 64;

#[cfg(all(test, feature = "seal"))]
mod tests {
    use super::*;
    use crate::operation::{Key, Scope};

    #[test]
    fn a_process_without_a_key_names_the_missing_one() {
        let id = OperationId::new(Scope::from_stored("test/v//POST /x"), Key::new("a").expect("a key"));
        let seals = Seals::default();
        let blob = [&[SEALED][..], &[0xab; 8], &[0; 40]].concat();
        for error in [seals.check(&blob), seals.unseal(Part::Request, &id, blob.clone()).map(drop)]
            .map(Result::unwrap_err)
        {
            assert_eq!(error.kind(), StoreErrorKind::Sealed);
            assert_eq!(
                error.to_string(),
                "the operation is sealed with the key abababababababab, which was not given"
            );
        }
        assert_eq!(seals.unseal(Part::Answer, &id, vec![1, 2]).expect("not sealed"), [1, 2]);
        assert_eq!(seals.unseal(Part::Answer, &id, vec![]).expect("the codec says"), [0; 0]);
        // The store has said that it is sealed.
        seals.stand_alone();
        for error in [seals.check(&[1, 2]), seals.unseal(Part::Answer, &id, vec![1, 2]).map(drop)]
            .map(Result::unwrap_err)
        {
            assert_eq!(error.kind(), StoreErrorKind::Corrupt, "{error}");
        }
    }
}
