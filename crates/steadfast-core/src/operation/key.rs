//! The names of an operation: the caller's [`Key`], the [`Scope`] it is unique in, and the [`WireKey`] that
//! the vendor sees.
//!
//! Key and scope are shared text: each copy of a record has them, and a call makes several.

use std::fmt;
use std::sync::Arc;

use http::Method;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::error::invalid::InputErrorExt;
use crate::error::{Error, Input};

/// The caller's name for one effect, such as `order-42/charge`: 1 to 255 printable ASCII characters.
///
/// ```
/// use steadfast::operation::Key;
///
/// let key = Key::new("order-42/charge")?;
/// assert_eq!(key.as_str(), "order-42/charge");
/// assert_eq!(Key::new("").unwrap_err().code(), "VALIDATION.key");
/// # Ok::<(), steadfast::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Key(Arc<str>);

impl Key {
    /// The longest key: what Stripe takes, and long enough for any name worth reading.
    pub const LEN_MAX: usize = 255;

    /// Takes `text` as a key.
    ///
    /// # Errors
    ///
    /// `VALIDATION.key` if it is empty, over 255 characters, or holds anything but printable ASCII.
    pub fn new(text: impl Into<String>) -> Result<Key, Error> {
        let text = text.into();
        check_name(Input::Key, "a key", &text)?;
        Ok(Key(text.into()))
    }

    /// The key's text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// The mistake in a name that a caller gives, called `noun`.
pub(super) fn check_name(input: Input, noun: &str, text: &str) -> Result<(), Error> {
    if text.is_empty() {
        return Err(Error::invalid(input, format!("{noun} must not be empty")));
    }
    if let Some(at) = text.bytes().position(|byte| !(b' '..=b'~').contains(&byte)) {
        return Err(Error::invalid(input, format!("only printable ASCII is allowed; byte {at} is not")));
    }
    if text.len() > Key::LEN_MAX {
        let problem = format!("{} characters; at most {} are allowed", text.len(), Key::LEN_MAX);
        return Err(Error::invalid(input, problem));
    }
    Ok(())
}

impl TryFrom<String> for Key {
    type Error = Error;

    fn try_from(text: String) -> Result<Key, Error> {
        Key::new(text)
    }
}

impl From<Key> for String {
    fn from(key: Key) -> String {
        key.as_str().to_owned()
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The space in which a key is unique: `{namespace}/{vendor}/{account}/{METHOD} {route}`.
///
/// The route is part of it because Stripe holds a key for the whole account: the same caller's key on two
/// endpoints must become two wire keys.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub struct Scope(Arc<str>);

impl Scope {
    /// The scope of calls to `route` at a vendor's account. A `/` inside namespace, vendor or account is
    /// written `%2F` (and `%` as `%25`), so that two different triples never share a scope.
    pub fn new(namespace: &str, vendor: &str, account: &str, method: &Method, route: &str) -> Scope {
        let mut scope = String::with_capacity(LEN_USUAL);
        for part in [namespace, vendor, account] {
            for character in part.chars() {
                match character {
                    '%' => scope.push_str("%25"),
                    '/' => scope.push_str("%2F"),
                    other => scope.push(other),
                }
            }
            scope.push('/');
        }
        scope.push_str(method.as_str());
        scope.push(' ');
        scope.push_str(route);
        Scope(scope.into())
    }

    /// A scope as it was stored.
    pub fn from_stored(text: impl Into<String>) -> Scope {
        Scope(text.into().into())
    }

    /// The scope's text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The part that lists and counts are grouped by: `{namespace}/{vendor}`, as it is in the scope. The whole
    /// text of a scope that has no such parts.
    pub fn vendor_path(&self) -> &str {
        self.parts(2)
    }

    /// The part that says whose client can carry the operation on: `{namespace}/{vendor}/{account}`.
    pub fn account_path(&self) -> &str {
        self.parts(3)
    }

    /// Whether the operation is of the account with this [`account_path`](Scope::account_path), or of one
    /// that is reached through it: what follows a `>` in an account names one (Stripe's connected accounts).
    pub fn is_reached_by(&self, account_path: &str) -> bool {
        let own = self.account_path();
        own.strip_prefix(account_path).is_some_and(|rest| rest.is_empty() || rest.starts_with('>'))
    }

    fn parts(&self, count: usize) -> &str {
        let end = self.0.match_indices('/').nth(count - 1).map_or(self.0.len(), |(at, _)| at);
        &self.0[..end]
    }

    /// Method and path: what comes behind the [account](Scope::account_path).
    pub fn route(&self) -> &str {
        self.0.splitn(4, '/').nth(3).unwrap_or_default()
    }

    /// The account, as the vendor's adapter named it. `None` for a scope that has no such part.
    pub fn account(&self) -> Option<String> {
        let part = self.0.split('/').nth(2)?;
        Some(part.replace("%2F", "/").replace("%25", "%"))
    }
}

impl From<String> for Scope {
    fn from(text: String) -> Scope {
        Scope::from_stored(text)
    }
}

impl From<Scope> for String {
    fn from(scope: Scope) -> String {
        scope.as_str().to_owned()
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// An operation's name. Unique in a store.
///
/// ```
/// use steadfast::http::Method;
/// use steadfast::operation::{Key, OperationId, Scope};
///
/// let scope = Scope::new("prod", "stripe", "live", &Method::POST, "/v1/charges");
/// let id = OperationId::new(scope, Key::new("order-42")?);
/// assert_eq!(id.to_string(), "prod/stripe/live/POST /v1/charges key order-42");
/// assert_eq!(id.wire_key(), id.clone().wire_key()); // from the name alone
/// # Ok::<(), steadfast::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct OperationId {
    /// Space in which the key is unique.
    pub scope: Scope,
    /// The caller's key.
    pub key: Key,
}

impl OperationId {
    /// Names an operation.
    pub fn new(scope: Scope, key: Key) -> OperationId {
        OperationId { scope, key }
    }

    /// The wire key that follows from the name alone, so that a lost record still yields the same one.
    pub fn wire_key(&self) -> WireKey {
        let mut hash = Sha256::new();
        hash.update(WIRE_KEY_TAG);
        for part in [self.scope.as_str(), self.key.as_str()] {
            hash.update((part.len() as u64).to_be_bytes());
            hash.update(part);
        }
        let digest = hash.finalize();
        let mut bytes = [0u8; 16];
        bytes.copy_from_slice(&digest[..16]);
        WireKey(uuid::Builder::from_custom_bytes(bytes).into_uuid())
    }
}

impl fmt::Display for OperationId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} key {}", self.scope, self.key)
    }
}

/// The key that the vendor sees: a UUIDv8 (RFC 9562) from SHA-256 over scope and key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct WireKey(uuid::Uuid);

impl fmt::Display for WireKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0.as_hyphenated(), f)
    }
}

impl std::str::FromStr for WireKey {
    type Err = uuid::Error;

    fn from_str(text: &str) -> Result<WireKey, uuid::Error> {
        text.parse().map(WireKey)
    }
}

/// More than most scopes have, so that one allocation does.
const LEN_USUAL: usize = 128;

/// Says which derivation made a wire key; it changes only if the derivation does.
const WIRE_KEY_TAG: &[u8] = b"steadfast wire key 1\0";

#[cfg(test)]
mod tests {
    use super::*;

    fn id(scope: &str, key: &str) -> OperationId {
        OperationId::new(Scope::from_stored(scope), Key::new(key).expect("a key"))
    }

    #[test]
    fn a_key_is_one_to_255_printable_ascii_characters() {
        for good in ["a", " ", "order-42/charge", &"k".repeat(255)] {
            assert_eq!(Key::new(good).expect(good).as_str(), good);
        }
        for bad in ["", "tab\t", "line\n", "é", "\u{7f}", &"k".repeat(256)] {
            assert_eq!(Key::new(bad).expect_err(bad).code(), "VALIDATION.key");
        }
    }

    #[test]
    fn a_wire_key_never_changes_between_releases() {
        let key = id("prod/stripe/acct/POST /v1/charges", "order-42/charge").wire_key().to_string();
        assert_eq!(key, id("prod/stripe/acct/POST /v1/charges", "order-42/charge").wire_key().to_string());
        assert_eq!(key.as_bytes()[14], b'8', "UUID version 8: {key}");
        assert_eq!(key.len(), 36);
    }

    #[test]
    fn names_that_run_together_get_different_wire_keys() {
        assert_ne!(id("ab", "c").wire_key(), id("a", "bc").wire_key());
        assert_ne!(id("a", "b").wire_key(), id("b", "a").wire_key());
    }

    #[test]
    fn a_scope_names_its_namespace_and_vendor() {
        let scope = Scope::new("prod/eu", "stripe", "acct", &Method::POST, "/v1/charges");
        assert_eq!(scope.vendor_path(), "prod%2Feu/stripe");
        for (text, path) in [("", ""), ("a", "a"), ("a/b", "a/b"), ("a/b/c/d", "a/b"), ("//x", "/")] {
            assert_eq!(Scope::from_stored(text).vendor_path(), path);
        }
    }

    #[test]
    fn a_scope_gives_the_account_as_it_was_named() {
        for account in ["", "acct_1", "a/b", "a%2Fb", "%", "%25/"] {
            let scope = Scope::new("n", "v", account, &Method::POST, "/v1/x/y");
            assert_eq!(scope.account().as_deref(), Some(account));
        }
        assert_eq!(Scope::from_stored("a/b").account(), None);
    }

    #[test]
    fn an_account_reaches_its_own_operations_and_those_behind_it_and_no_others() {
        let scope = |account| Scope::new("prod", "stripe", account, &Method::POST, "/v1/charges");
        assert_eq!(scope("live:acct_1").account_path(), "prod/stripe/live:acct_1");
        for (account, path, reached) in [
            ("live", "prod/stripe/live", true),
            ("live>acct_2", "prod/stripe/live", true),
            ("live:acct_1", "prod/stripe/live", false),
            ("live", "prod/stripe/live>acct_2", false),
            ("live", "prod/strip", false),
            ("", "prod/stripe/", true),
        ] {
            assert_eq!(scope(account).is_reached_by(path), reached, "{account} by {path}");
        }
    }

    #[test]
    fn parts_with_slashes_never_share_a_scope() {
        let scope = |namespace, vendor| Scope::new(namespace, vendor, "", &Method::POST, "/x");
        assert_ne!(scope("a/b", "c"), scope("a", "b/c"));
        assert_ne!(scope("a%2Fb", "c"), scope("a/b", "c"));
    }
}
