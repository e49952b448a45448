//! [`Sequence`]: calls that are delivered one at a time, in the order in which they were accepted.

use std::fmt;
use std::sync::Arc;

use easy_ext::ext;

use super::key::check_name;
use crate::error::{Error, Input};

/// A sequence of enqueued calls: one at a time, in the order in which they were accepted,
/// also over retries, processes and restarts. A call in no sequence, or in another one, does not wait for them.
///
/// ```
#[doc = include_str!("../docs/setup/stripe.md")]
/// use std::time::Duration;
/// use steadfast::Sequence;
///
/// let profile = stripe.post("/v1/customers/cus_7").key("profile-1").sequence("customer-7");
/// let email = stripe.post("/v1/customers/cus_7").key("profile-2").sequence("customer-7");
/// let digest = Sequence::new("digest").skip_dead_letters();
/// let digest = stripe.post("/v1/customers/cus_7").key("digest-1").sequence(digest);
///
/// profile.form(&[("name", "Ada")]).enqueue().await?;
/// let last = email.form(&[("email", "ada@example.com")]).enqueue().await?;
/// digest.form(&[("description", "weekly")]).enqueue().await?;
///
/// let _dispatcher = stripe.keep_recovering(steadfast::dispatcher::PERIOD);
/// // The name was set before.
/// let _ = last.wait(Duration::from_secs(60)).await;
#[doc = include_str!("../docs/setup/end.md")]
/// ```
///
/// The name says what is kept in order, such as `customer-7`: 1 to 255 printable ASCII characters. It is one sequence
/// for all routes of a vendor's account within a namespace. Elsewhere the same name is another sequence.
///
/// Other systems call it a sequence too (River), a message group (AWS SQS) or an ordering key (Google Pub/Sub). It is
/// not a *key* here, because that word is the operation's own name.
///
/// # Default
///
/// A dead letter holds its sequence: nothing behind it is sent until a person has resolved,
/// cancelled or redriven it. [`skip_dead_letters`](Sequence::skip_dead_letters) lets the next one go instead.
///
/// A call that the vendor **refused** has ended, and lets the next one go in both cases. It cannot be redriven, so a
/// sequence that it held would be held for ever.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Sequence {
    name: Arc<str>,
    skips_dead_letters: bool,
}

impl Sequence {
    /// The longest name: that of a key.
    pub const NAME_LEN_MAX: usize = super::Key::LEN_MAX;

    /// The sequence of this name, which a dead letter holds. `enqueue` reports a name that is
    /// none.
    pub fn new(name: impl Into<String>) -> Sequence {
        Sequence { name: name.into().into(), skips_dead_letters: false }
    }

    /// Lets the next operation of the sequence go after a dead letter of this call. Redriven later, it is delivered out
    /// of turn: before those that still wait, after those that went.
    ///
    /// It belongs to the call, and not to the sequence: each dead letter goes by its own call's choice.
    #[must_use]
    pub fn skip_dead_letters(mut self) -> Sequence {
        self.skips_dead_letters = true;
        self
    }

    /// The name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether a dead letter lets the next one go. Default: `false`.
    pub fn skips_dead_letters(&self) -> bool {
        self.skips_dead_letters
    }
}

/// Methods that only the crates of this workspace call.
#[ext(SequenceExt)]
impl Sequence {
    /// The mistake in the name, if there is one.
    pub fn check(&self) -> Result<(), Error> {
        check_name(Input::Sequence, "the name of a sequence", &self.name)
    }
}

impl From<&str> for Sequence {
    fn from(name: &str) -> Sequence {
        Sequence::new(name)
    }
}

impl From<String> for Sequence {
    fn from(name: String) -> Sequence {
        Sequence::new(name)
    }
}

impl fmt::Display for Sequence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}
