//! The reasons for which an operator's action changes nothing.

/// Reason for which an operator's action changed nothing, and left nothing on the audit record.
///
/// The state machine gives those up to [`TooLong`](Forbidden::TooLong), and so do stores. The others are
/// `DeadLetters`' own: they need the vendor's rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Forbidden {
    /// The operation does not exist.
    #[error("the operation does not exist any more")]
    Absent,
    /// The operation changed since it was shown: another process has taken it since.
    #[error("the operation changed since it was shown; show it again")]
    Moved,
    /// The operation is not a dead letter.
    #[error("the operation is not a dead letter")]
    NotDead,
    /// A process holds it, and may be sending. Or the one that held it is gone, and its last request may yet arrive.
    #[error(
        "the operation is leased, or its request may be in flight; retry after its lease, or its longest attempt, has ended"
    )]
    Held,
    /// The operation has ended: it neither waits nor was left.
    #[error("the operation has ended: it is neither scheduled nor left by a dead process")]
    NotOpen,
    /// The name that it would be given is on record already: both may have been sent.
    #[error(
        "the new name is on record already, so that both may have been sent; look at both and resolve this one"
    )]
    NameTaken,
    /// The operation is resolved already.
    #[error(
        "already resolved; reopen it first (an operation that goes on under another name cannot be reopened)"
    )]
    Resolved,
    /// The operation has no resolution to take back.
    #[error("it is not resolved")]
    NotResolved,
    /// Its time is not over.
    #[error("its retention has not ended")]
    NotExpired,
    /// The action needs an operator's name and a reason.
    #[error("this needs the name of the operator, and a reason")]
    Unexplained,
    /// A text is longer than its limit.
    #[error("the name, the vendor's id or the reason is too long")]
    TooLong,
    /// The operation may have taken effect, the vendor no longer replays its key, and there is no lookup.
    #[error(
        "it may have taken effect, the vendor answers no repeat of its key from its own record, and there is no \
         lookup; find out at the vendor and resolve it, or force it with a reason and risk a second effect"
    )]
    Unsafe,
    /// The operation may have taken effect, and the vendor's rules are not known.
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
    /// The client that would send the operation does not call the address that is on record.
    #[error(
        "it was recorded for an address that the client which would send it does not call, and that would get its secret; \
         where the vendor has moved, name the old address as a former base URL"
    )]
    Elsewhere,
    /// A resend would replace or remove what is at the vendor now.
    #[error(
        "a repeat overwrites what was written since; check that nothing was, then say so with overwrite and a reason, or \
         resolve it"
    )]
    Overwrites,
    /// The new body of an edit holds the old wire key.
    #[error("the new body still holds the old wire key; take it out, the new one is put in for you")]
    OldWireKey,
}

impl Forbidden {
    /// A stable text for it, for programs.
    pub const fn code(self) -> &'static str {
        match self {
            Forbidden::Absent => "absent",
            Forbidden::Moved => "moved",
            Forbidden::NotDead => "not_dead",
            Forbidden::Held => "held",
            Forbidden::NotOpen => "not_open",
            Forbidden::NameTaken => "name_taken",
            Forbidden::Resolved => "resolved",
            Forbidden::NotResolved => "not_resolved",
            Forbidden::NotExpired => "not_expired",
            Forbidden::Unexplained => "unexplained",
            Forbidden::TooLong => "too_long",
            Forbidden::Unsafe => "unsafe",
            Forbidden::NoRules | Forbidden::NoRulesToStamp => "no_rules",
            Forbidden::MayHaveBeenApplied => "may_have_been_applied",
            Forbidden::KeyTaken => "key_taken",
            Forbidden::Elsewhere => "elsewhere",
            Forbidden::Overwrites => "overwrites",
            Forbidden::OldWireKey => "old_wire_key",
        }
    }
}
