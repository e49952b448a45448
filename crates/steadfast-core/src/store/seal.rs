//! [`SealKeys`]: the keys that seal requests and answers at rest.
//!
//! XChaCha20-Poly1305 with a nonce drawn at random for each sealing. At 24 bytes, two that are equal are not to be
//! expected, however long a key is used. So no counter has to survive a crash. AES-GCM's 12 bytes would ask for
//! another key every few billion rows, and for a person to count.
//!
//! A sealed blob is bound to its operation and to its place in it. A blob that is moved to another row, or from the
//! request's column to the answer's, does not open.

use std::fmt;
use std::sync::Arc;

use base64::Engine as _;
use base64::alphabet;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use chacha20poly1305::aead::{AeadInOut, KeyInit};
use chacha20poly1305::{Key, Tag, XChaCha20Poly1305, XNonce};
use easy_ext::ext;
use rand::TryRng;
use rand::rngs::SysRng;
use secrecy::zeroize::Zeroizing;
use secrecy::{ExposeSecret, SecretBox};
use sha2::{Digest, Sha256};

use crate::error::{Error, ErrorExt};
use crate::operation::OperationId;
use crate::store::StoreError;

/// The keys of a store: the current one, with which everything new is sealed, and any older ones, with which what
/// they sealed stays readable. Cheap to clone; the keys are wiped when the last clone goes.
///
/// `Debug` shows the keys' ids and never a key.
///
/// ```
/// use steadfast::store::SealKeys;
///
/// # fn main() -> Result<(), steadfast::Error> {
/// let hex = "0f".repeat(32);
/// let keys = SealKeys::parse(&format!("{hex}, ICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICA="), "the example")?;
/// assert!(!format!("{keys:?}").contains(&hex));
/// assert!(SealKeys::parse("too short", "the example").is_err());
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct SealKeys {
    /// The current one first; never empty.
    keys: Arc<Vec<Arc<SealKey>>>,
}

struct SealKey {
    id: SealKeyId,
    secret: SecretBox<[u8; SealKeys::BYTES]>,
}

/// Identifier of a key: the first 8 bytes of SHA-256 over a version tag and the key. A reader who does not have the key
/// learns nothing of it; `Display` writes the identifier in hex.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct SealKeyId([u8; SealKeyId::BYTES]);

/// Part of an operation: one of its two blobs.
#[derive(Clone, Copy, Debug)]
pub enum Part {
    #[allow(missing_docs, reason = "for the crates of this workspace alone")]
    Request,
    #[allow(missing_docs, reason = "for the crates of this workspace alone")]
    Answer,
}

/// Reason for which a sealed blob was not opened.
#[derive(Debug)]
pub enum Unopened {
    /// Its key is none of these.
    NoKey,
    /// The bytes are not those that were sealed, or were sealed for another place.
    Broken,
}

impl SealKeys {
    /// The length of a key, in bytes.
    pub const BYTES: usize = 32;

    /// The most keys. A rotation needs two; more are left behind by rotations that were never finished.
    pub const COUNT_MAX: usize = 32;

    /// A current key and no older ones. The bytes must come from a generator of random keys: a password is not one.
    pub fn new(current: [u8; SealKeys::BYTES]) -> SealKeys {
        SealKeys { keys: Arc::new(vec![Arc::new(SealKey::new(&Zeroizing::new(current)))]) }
    }

    /// Adds an older key. A key that is there already is not added again.
    #[must_use]
    pub fn with_older(mut self, older: [u8; SealKeys::BYTES]) -> SealKeys {
        let older = Arc::new(SealKey::new(&Zeroizing::new(older)));
        if self.find(older.id).is_none() {
            Arc::make_mut(&mut self.keys).push(older);
        }
        self
    }

    /// Reads the keys from an environment variable, such as `STEADFAST_SEAL_KEYS`. For its form see
    /// [`parse`](SealKeys::parse).
    ///
    /// # Errors
    ///
    /// As [`parse`](SealKeys::parse), and if the variable is not set: a service that asks for sealing must not go
    /// without because of a typing mistake.
    pub fn from_env(variable: &str) -> Result<SealKeys, Error> {
        match std::env::var(variable) {
            Ok(text) => SealKeys::parse(&Zeroizing::new(text), variable),
            Err(std::env::VarError::NotPresent) => Err(Error::config(variable, "it is not set")),
            // The error of the standard library holds the value.
            Err(std::env::VarError::NotUnicode(_)) => Err(Error::config(variable, "it is not text")),
        }
    }

    /// Reads keys, separated by commas, the current one first. Each is 32 bytes, as base64 (either alphabet, padded
    /// or not) or as 64 hexadecimal digits. `place` is named in errors.
    ///
    /// # Errors
    ///
    /// `VALIDATION.config`, with the place and the position of the key, and never the key. It comes if one is empty,
    /// of another length, neither base64 nor hexadecimal, or given twice. It also comes if there are over
    /// [`COUNT_MAX`](SealKeys::COUNT_MAX).
    pub fn parse(text: &str, place: &str) -> Result<SealKeys, Error> {
        let mut keys: Vec<Arc<SealKey>> = Vec::new();
        for (at, word) in text.split(',').enumerate() {
            let refuse = |problem: &str| Error::config(place, format!("key {}: {problem}", at + 1));
            if at == SealKeys::COUNT_MAX {
                return Err(refuse(&format!("at most {} are allowed", SealKeys::COUNT_MAX)));
            }
            let key = SealKey::new(&*decode(word.trim()).map_err(|problem| refuse(&problem))?);
            if keys.iter().any(|other| other.id == key.id) {
                return Err(refuse("it is there twice"));
            }
            keys.push(Arc::new(key));
        }
        Ok(SealKeys { keys: Arc::new(keys) })
    }

    /// Every key, the current one first.
    pub(crate) fn ids(&self) -> impl Iterator<Item = SealKeyId> + '_ {
        self.keys.iter().map(|key| key.id)
    }

    /// Appends the nonce, what `plain` becomes under the current key, and the tag.
    pub(crate) fn seal(
        &self,
        place: (Part, &OperationId),
        plain: &[u8],
        sealed: &mut Vec<u8>,
    ) -> Result<(), StoreError> {
        let mut nonce = XNonce::default();
        SysRng.try_fill_bytes(&mut nonce).map_err(|error| {
            StoreError::with_source("the system gave no random bytes to seal with", error)
        })?;
        sealed.reserve(SealKeys::OVERHEAD_BYTES + plain.len());
        sealed.extend_from_slice(&nonce);
        let start = sealed.len();
        sealed.extend_from_slice(plain);
        let tag = self.keys[0]
            .cipher()
            .encrypt_inout_detached(&nonce, &associated(place), (&mut sealed[start..]).into())
            .map_err(|_| StoreError::new("a request or an answer is too large to be sealed"))?;
        sealed.extend_from_slice(&tag);
        Ok(())
    }

    /// Reverses [`seal`](SealKeys::seal), which the key `id` was current for.
    pub(crate) fn open(
        &self,
        id: SealKeyId,
        place: (Part, &OperationId),
        sealed: &[u8],
    ) -> Result<Vec<u8>, Unopened> {
        let key = self.find(id).ok_or(Unopened::NoKey)?;
        let (nonce, rest) = sealed.split_first_chunk::<NONCE_BYTES>().ok_or(Unopened::Broken)?;
        let (text, tag) = rest.split_last_chunk::<TAG_BYTES>().ok_or(Unopened::Broken)?;
        let mut plain = text.to_vec();
        key.cipher()
            .decrypt_inout_detached(
                &XNonce::from(*nonce),
                &associated(place),
                plain.as_mut_slice().into(),
                &Tag::from(*tag),
            )
            .map_err(|_| Unopened::Broken)?;
        Ok(plain)
    }

    /// Number of bytes that sealing adds.
    const OVERHEAD_BYTES: usize = NONCE_BYTES + TAG_BYTES;

    fn find(&self, id: SealKeyId) -> Option<&SealKey> {
        self.keys.iter().map(|key| &**key).find(|key| key.id == id)
    }
}

/// Methods that only the crates of this workspace call.
#[ext(SealKeysExt)]
impl SealKeys {
    /// The key that seals what is new.
    pub fn current(&self) -> SealKeyId {
        self.keys[0].id
    }
}

impl SealKey {
    fn new(bytes: &[u8; SealKeys::BYTES]) -> SealKey {
        let hash = Sha256::new().chain_update(KEY_ID_TAG).chain_update(bytes).finalize();
        let mut id = [0; SealKeyId::BYTES];
        id.copy_from_slice(&hash[..SealKeyId::BYTES]);
        SealKey {
            id: SealKeyId(id),
            secret: SecretBox::init_with_mut(|secret: &mut [u8; _]| *secret = *bytes),
        }
    }

    fn cipher(&self) -> XChaCha20Poly1305 {
        XChaCha20Poly1305::new(<&Key>::from(self.secret.expose_secret()))
    }
}

impl SealKeyId {
    /// The length of an id, in bytes.
    pub const BYTES: usize = 8;

    /// An id as a store keeps it.
    pub fn from_bytes(bytes: [u8; SealKeyId::BYTES]) -> SealKeyId {
        SealKeyId(bytes)
    }

    /// The id as a store keeps it.
    pub fn as_bytes(&self) -> &[u8; SealKeyId::BYTES] {
        &self.0
    }
}

impl fmt::Debug for SealKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SealKeys")?;
        f.debug_list().entries(self.ids()).finish()
    }
}

impl fmt::Display for SealKeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for SealKeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

/// Returns the data that a sealed blob is bound to. The lengths make it one reading only: `a` and `bc` are not `ab` and
/// `c`.
fn associated((part, id): (Part, &OperationId)) -> Vec<u8> {
    let (scope, key) = (id.scope.as_str().as_bytes(), id.key.as_str().as_bytes());
    let part = match part {
        Part::Request => b'q',
        Part::Answer => b'a',
    };
    let mut bytes = Vec::with_capacity(ASSOCIATED_TAG.len() + 17 + scope.len() + key.len());
    bytes.extend_from_slice(ASSOCIATED_TAG);
    bytes.push(part);
    for text in [scope, key] {
        bytes.extend_from_slice(&(text.len() as u64).to_le_bytes());
        bytes.extend_from_slice(text);
    }
    bytes
}

/// A key as an operator wrote it. The problem never quotes it.
fn decode(text: &str) -> Result<Zeroizing<[u8; SealKeys::BYTES]>, String> {
    if text.is_empty() {
        return Err("it is empty".to_owned());
    }
    let bytes = Zeroizing::new(if text.len() == 2 * SealKeys::BYTES && is_hex(text) {
        from_hex(text)
    } else {
        let alphabet = if text.contains(['-', '_']) { &alphabet::URL_SAFE } else { &alphabet::STANDARD };
        GeneralPurpose::new(alphabet, PADDED_OR_NOT)
            .decode(text)
            .map_err(|_| "it is neither base64 nor hex")?
    });
    let mut key = Zeroizing::new([0; SealKeys::BYTES]);
    if bytes.len() != key.len() {
        return Err(format!("{} bytes; a key is exactly {} bytes", bytes.len(), key.len()));
    }
    key.copy_from_slice(&bytes);
    Ok(key)
}

fn is_hex(text: &str) -> bool {
    text.bytes().all(|digit| digit.is_ascii_hexdigit())
}

fn from_hex(digits: &str) -> Vec<u8> {
    let value = |digit: u8| char::from(digit).to_digit(16).unwrap_or_default() as u8;
    digits.as_bytes().chunks_exact(2).map(|pair| value(pair[0]) << 4 | value(pair[1])).collect()
}

const PADDED_OR_NOT: GeneralPurposeConfig =
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent);

const NONCE_BYTES: usize = 24;

const TAG_BYTES: usize = 16;

/// Keeps an id from being the hash of a key that an operator uses elsewhere.
const KEY_ID_TAG: &[u8] = b"steadfast seal key id 1\0";

/// Tag of the data that a blob is bound to, with a version as in [`KEY_ID_TAG`].
const ASSOCIATED_TAG: &[u8] = b"steadfast sealed blob 1\0";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operation::Scope;

    fn id(scope: &str, key: &str) -> OperationId {
        OperationId::new(Scope::from_stored(scope), crate::operation::Key::new(key).expect("a key"))
    }

    fn sealed(keys: &SealKeys, place: (Part, &OperationId), plain: &[u8]) -> Vec<u8> {
        let mut sealed = Vec::new();
        keys.seal(place, plain, &mut sealed).expect("seals");
        sealed
    }

    #[test]
    fn a_sealed_blob_opens_in_its_own_place_only() {
        let keys = SealKeys::new([7; 32]);
        let here = id("a/b", "c");
        let blob = sealed(&keys, (Part::Request, &here), b"amount=1000");
        assert_eq!(keys.open(keys.current(), (Part::Request, &here), &blob).expect("opens"), b"amount=1000");
        let places = [
            (Part::Answer, here),
            (Part::Request, id("a/b", "d")),
            (Part::Request, id("a/", "bc")),
            (Part::Request, id("a/bc", "c")),
        ];
        for (part, id) in &places {
            let opened = keys.open(keys.current(), (*part, id), &blob);
            assert!(matches!(opened, Err(Unopened::Broken)), "{part:?} {id}");
        }
    }

    #[test]
    fn a_blob_sealed_by_another_library_opens() {
        // By libsodium's crypto_aead_xchacha20poly1305_ietf, with the nonce 0, 1, 2, …
        let sealed = from_hex(concat!(
            "000102030405060708090a0b0c0d0e0f1011121314151617",
            "c97ac4f09468669415f7b14cf6674021792177482b493a3cf405bf"
        ));
        let keys = SealKeys::new([7; 32]);
        let opened = keys.open(keys.current(), (Part::Request, &id("a/b", "c")), &sealed);
        assert_eq!(opened.expect("opens"), b"amount=1000");
    }

    #[test]
    fn every_bit_counts() {
        let keys = SealKeys::new([7; 32]);
        let here = id("a/b", "c");
        let blob = sealed(&keys, (Part::Answer, &here), b"yes");
        assert_eq!(blob.len(), SealKeys::OVERHEAD_BYTES + 3);
        for bit in 0..blob.len() * 8 {
            let mut flipped = blob.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            let opened = keys.open(keys.current(), (Part::Answer, &here), &flipped);
            assert!(matches!(opened, Err(Unopened::Broken)), "bit {bit}");
        }
        for length in 0..blob.len() {
            let opened = keys.open(keys.current(), (Part::Answer, &here), &blob[..length]);
            assert!(matches!(opened, Err(Unopened::Broken)), "{length} bytes");
        }
    }

    #[test]
    fn nothing_is_sealed_the_same_way_twice() {
        let keys = SealKeys::new([7; 32]);
        let here = id("a/b", "c");
        let (first, second) =
            (sealed(&keys, (Part::Answer, &here), b"yes"), sealed(&keys, (Part::Answer, &here), b"yes"));
        assert_ne!(first[..NONCE_BYTES], second[..NONCE_BYTES]);
        assert_ne!(first[NONCE_BYTES..], second[NONCE_BYTES..]);
    }

    #[test]
    fn an_older_key_opens_its_blobs_and_seals_none() {
        let here = id("a/b", "c");
        let old = SealKeys::new([1; 32]);
        let both = SealKeys::new([2; 32]).with_older([1; 32]).with_older([1; 32]).with_older([2; 32]);
        assert_eq!(both.ids().collect::<Vec<_>>(), [SealKeys::new([2; 32]).current(), old.current()]);
        let blob = sealed(&old, (Part::Request, &here), b"x");
        assert_eq!(both.open(old.current(), (Part::Request, &here), &blob).expect("opens"), b"x");
        let blob = sealed(&both, (Part::Request, &here), b"x");
        assert!(matches!(old.open(both.current(), (Part::Request, &here), &blob), Err(Unopened::NoKey)));
        assert!(matches!(both.open(old.current(), (Part::Request, &here), &blob), Err(Unopened::Broken)));
    }

    #[test]
    fn a_key_is_32_bytes_in_whichever_form() {
        let hex = "fb".repeat(32);
        let standard = "+/v7+/v7+/v7+/v7+/v7+/v7+/v7+/v7+/v7+/v7+/s=";
        let expected = SealKeys::parse(&hex, "here").expect("hex").current();
        let bytes = base64::engine::general_purpose::STANDARD.decode(standard).expect("base64");
        assert_eq!(
            SealKeys::new(bytes.try_into().expect("32")).current(),
            SealKeys::parse(standard, "here").expect("base64").current()
        );
        let fb = base64::engine::general_purpose::STANDARD.encode([0xfb; 32]);
        let forms = [fb.clone(), fb.replace('+', "-").replace('/', "_"), fb.trim_end_matches('=').to_owned()];
        for form in forms.iter().chain([&hex.to_uppercase(), &format!(" {hex}\n")]) {
            assert_eq!(SealKeys::parse(form, "here").expect(form).current(), expected, "{form}");
        }
        assert_eq!(SealKeys::new([0xfb; 32]).current(), expected);
    }

    #[test]
    fn the_id_of_a_key_never_changes() {
        assert_eq!(SealKeys::new([0; 32]).current().to_string(), "4ec40bd257ff56d5");
    }

    #[test]
    fn a_mistake_names_the_place_and_the_position_and_never_the_key() {
        let good = "a1".repeat(32);
        for (text, problem) in [
            (String::new(), "key 1: it is empty"),
            (format!("{good},"), "key 2: it is empty"),
            (format!("{good}, {good}"), "key 2: it is there twice"),
            (format!("{good},{}", &good[..60]), "key 2: 45 bytes; a key is exactly 32 bytes"),
            (format!("{good},hunter2"), "key 2: it is neither base64 nor hex"),
            ("zz".repeat(32), "key 1: 48 bytes; a key is exactly 32 bytes"),
            ("🔑".to_owned(), "key 1: it is neither base64 nor hex"),
        ] {
            let error = SealKeys::parse(&text, "STEADFAST_SEAL_KEYS").expect_err(problem);
            assert_eq!(error.to_string(), format!("STEADFAST_SEAL_KEYS: {problem}"));
            assert_eq!(error.code(), "VALIDATION.config");
            let shown = format!("{error:?}");
            assert!(!shown.contains("hunter2") && !shown.contains(&good[..8]), "{shown}");
        }
        let many: Vec<String> = (0..=SealKeys::COUNT_MAX).map(|nth| format!("{nth:064x}")).collect();
        SealKeys::parse(&many[1..].join(","), "here").expect("as many as are allowed");
        let error = SealKeys::parse(&many.join(","), "here").expect_err("one more");
        assert_eq!(error.to_string(), "here: key 33: at most 32 are allowed");
        let error = SealKeys::from_env("STEADFAST_A_VARIABLE_THAT_NOBODY_SETS").expect_err("not set");
        assert_eq!(error.to_string(), "STEADFAST_A_VARIABLE_THAT_NOBODY_SETS: it is not set");
    }

    #[test]
    fn debug_shows_ids_alone() {
        let keys = SealKeys::new([0xa1; 32]).with_older([0xb2; 32]);
        let ids: Vec<_> = keys.ids().collect();
        assert_eq!(format!("{keys:?}"), format!("SealKeys[{}, {}]", ids[0], ids[1]));
    }
}
