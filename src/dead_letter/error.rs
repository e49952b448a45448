//! Errors of actions on dead letters, told apart by what the operator can do about them.

use crate::error::Error;
use crate::operation::OperationId;
use crate::operation::record::Forbidden;
use crate::store::StoreError;

/// An error of an action on a dead letter. `Display` says one layer, and the chain of sources the rest.
///
/// ```
#[doc = include_str!("../docs/setup/dead_letters.md")]
/// use steadfast::dead_letter::{DeadLetterError, Signed};
/// use steadfast::operation::record::Resolution;
///
/// let absent = letters.find("order-99/receipt").await.unwrap_err();
/// assert!(matches!(absent, DeadLetterError::Absent(_)));
///
/// // A word without a reason changes nothing.
/// let id = letters.find("order-41/receipt").await?;
/// let refused = letters.resolve(&id, Resolution::NotApplied, &Signed::new("ada", "")).await.unwrap_err();
/// assert!(matches!(refused, DeadLetterError::Refused { why, .. } if why.code() == "unexplained"));
#[doc = include_str!("../docs/setup/end.md")]
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DeadLetterError {
    /// The store failed.
    #[error("the store failed to {doing}")]
    Store {
        /// At what.
        doing: &'static str,
        /// How.
        source: StoreError,
    },
    /// There is no such operation.
    #[error("there is no operation {0:?}")]
    Absent(String),
    /// The key is in several scopes: these, or the first of them.
    #[error("several operations have this key; name one of them whole: {}", names(.0))]
    Ambiguous(Vec<OperationId>),
    /// Not allowed, and nothing was changed.
    #[error("{id}: {why}")]
    Refused {
        /// The operation.
        id: Box<OperationId>,
        /// Why.
        why: Refused,
    },
    /// Input that makes no sense.
    #[error(transparent)]
    Invalid(#[from] Error),
    /// What was to be written could not be.
    #[error("the output could not be written")]
    Output(#[from] std::io::Error),
}

/// Why an action on an operation is not allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refused {
    /// The state machine does not allow it.
    #[error("{}", explain(*.0))]
    Forbidden(Forbidden),
    /// It may have taken effect, the vendor no longer replays its key, and there is no lookup.
    #[error(
        "it may have taken effect, the vendor answers no repeat of its key from its own record, and there is no \
         lookup; find out at the vendor and resolve it, or force it with a reason and risk a second effect"
    )]
    Unsafe,
    /// It may have taken effect, and the vendor's rules are not known.
    #[error(
        "it may have taken effect, and the vendor's rules, which could allow it, are not known here; name a \
         vendors file with its namespace, vendor and account, or force it with a reason and risk a second effect"
    )]
    NoRules,
    /// The edited request is the old one's successor, and the old one may have taken effect.
    #[error(
        "it may have taken effect, and an edit is sent under a new key, so that no vendor can tell the two \
         apart; find out at the vendor and resolve it as not applied, or force it and risk a second effect"
    )]
    MayHaveBeenApplied,
    /// An edit needs the vendor's rules to put the new key into the request.
    #[error(
        "the vendor's rules are not known here, and the new key is put where they say; name a vendors file with its \
         namespace, vendor and account"
    )]
    NoRulesToStamp,
    /// The new key of an edit is another operation's.
    #[error("the new key belongs to another operation already")]
    KeyTaken,
    /// It was recorded for an address that the client which would send it does not call.
    #[error(
        "it was recorded for an address that the client which would send it does not call, and that would get its secret; \
         where the vendor has moved, name the old address as a former base URL"
    )]
    Elsewhere,
    /// It replaces or removes what is there.
    #[error(
        "a repeat overwrites what was written since; check that nothing was, then say so with overwrite and a reason, or \
         resolve it"
    )]
    Overwrites,
    /// The new body of an edit holds the old wire key.
    #[error("the new body still holds the old wire key; take it out, the new one is put in for you")]
    OldWireKey,
}

impl DeadLetterError {
    pub(super) fn store(doing: &'static str) -> impl Fn(StoreError) -> DeadLetterError {
        move |source| DeadLetterError::Store { doing, source }
    }

    pub(super) fn refused(id: &OperationId, why: Refused) -> DeadLetterError {
        DeadLetterError::Refused { id: Box::new(id.clone()), why }
    }
}

impl Refused {
    /// A stable text for this refusal, for programs.
    pub const fn code(self) -> &'static str {
        match self {
            Refused::Forbidden(Forbidden::Held) => "held",
            Refused::Forbidden(Forbidden::NotOpen) => "not_open",
            Refused::Forbidden(Forbidden::NameTaken) => "name_taken",
            Refused::Forbidden(Forbidden::Absent) => "absent",
            Refused::Forbidden(Forbidden::Moved) => "moved",
            Refused::Forbidden(Forbidden::NotDead) => "not_dead",
            Refused::Forbidden(Forbidden::Resolved) => "resolved",
            Refused::Forbidden(Forbidden::NotResolved) => "not_resolved",
            Refused::Forbidden(Forbidden::NotExpired) => "not_expired",
            Refused::Forbidden(Forbidden::NoSecrets) => "no_secrets",
            Refused::Forbidden(Forbidden::Unexplained) => "unexplained",
            Refused::Forbidden(Forbidden::TooLong) => "too_long",
            Refused::Unsafe => "unsafe",
            Refused::NoRules | Refused::NoRulesToStamp => "no_rules",
            Refused::MayHaveBeenApplied => "may_have_been_applied",
            Refused::KeyTaken => "key_taken",
            Refused::OldWireKey => "old_wire_key",
            Refused::Elsewhere => "elsewhere",
            Refused::Overwrites => "overwrites",
        }
    }
}

fn explain(forbidden: Forbidden) -> &'static str {
    match forbidden {
        Forbidden::Absent => "there is no such operation any more",
        Forbidden::Moved => "somebody else has taken it in the meantime; look at it again",
        Forbidden::Held => "somebody holds it and may be sending; try again when its lease is over",
        Forbidden::NotOpen => "it has ended: it neither waits for an attempt nor was left by a dead process",
        Forbidden::NameTaken => {
            "the new name is on record already, so that both may have been sent; look at both and resolve this one"
        }
        Forbidden::NotDead => "it is not a dead letter (any more)",
        Forbidden::Resolved => {
            "it is resolved already; take that back first (what goes on under another name stays so)"
        }
        Forbidden::NotResolved => "it is not resolved",
        Forbidden::NotExpired => "its time is not over",
        Forbidden::NoSecrets => "its request has none of these headers",
        Forbidden::Unexplained => "this needs the name of the operator, and a reason",
        Forbidden::TooLong => "the name, the vendor's id or the reason is too long",
    }
}

fn names(ids: &[OperationId]) -> String {
    ids.iter().map(|id| format!("\n  {id}")).collect()
}
