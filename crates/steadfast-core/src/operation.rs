//! An operation: one logical effect at a vendor, with its name, its fingerprint and its outcome.
//!
//! Everything here is pure. [`record`] is the state machine that every store carries out.

pub(crate) mod fingerprint;
pub(crate) mod key;
pub mod record;
pub(crate) mod redact;
pub(crate) mod route;
pub(crate) mod secret;
pub(crate) mod sequence;
pub(crate) mod unknown;

pub use fingerprint::{Fingerprint, fingerprint};
pub use key::{Key, OperationId, Scope, WireKey};
pub(crate) use redact::REDACTED;
pub use redact::RedactedFields;
pub use route::RouteName;
pub(crate) use sequence::Sequence;
pub(crate) use unknown::OnUnknown;
