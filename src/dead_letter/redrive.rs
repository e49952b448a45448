//! Redrives: make dead letters due again, one, several, or all that match.
//!
//! A filter is frozen when it starts. What dies while it runs has moved since and no longer matches, so a letter that
//! dies again at once is not redriven for ever. Each act names the fence of the record that it judged. If two
//! redrives run at once, one finds that the letter has moved, and the operation is sent once.

use http::{Method, header};

use super::{DeadLetterError, DeadLetters, PAGE_ROWS, Refused, Safety, Selection, Signed};
use crate::clock::Timestamp;
use crate::guard::Guard;
use crate::operation::OperationId;
use crate::operation::record::{Action, Cursor, Forbidden, Phase, Record, Resolution};
use crate::request::Request;

/// How to redrive.
///
/// ```
#[doc = include_str!("../docs/setup/dead_letters.md")]
/// use steadfast::Effect;
/// use steadfast::dead_letter::{Redrive, Selection, Which};
///
/// // First count, then do it.
/// let not_applied = Selection { effect: Some(Effect::None), ..Selection::default() };
/// let rehearsal = Redrive::by("ada").rehearse();
/// let counted = letters.redrive(Which::Matching(&not_applied), &rehearsal).await?;
/// assert_eq!(counted.due, 1);
/// letters.redrive(Which::Matching(&not_applied), &Redrive::by("ada")).await?;
///
/// // The service's own client sends it, through its gates.
/// assert_eq!(postmark.recover(10).await?.succeeded, 1);
#[doc = include_str!("../docs/setup/end.md")]
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Redrive {
    /// The operator's name.
    pub signed: Signed,
    /// Whether to send what may have taken effect, although neither the vendor's window, nor a lookup, nor the method
    /// makes that safe. It needs a reason, and risks a second effect.
    pub force: bool,
    /// Whether to send a PUT, a PATCH or a DELETE, although it replaces or removes what was written since. It needs a
    /// reason. A request with `If-Match` or `If-Unmodified-Since` does not need this: the vendor refuses it if it is
    /// too late.
    pub overwrite: bool,
    /// Whether this is a dry run: it counts, changes nothing, and needs no name.
    pub rehearsal: bool,
}

/// Which dead letters to redrive.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Which<'a> {
    /// Exactly these.
    These(&'a [OperationId]),
    /// All that match.
    Matching(&'a Selection),
}

/// What a redrive did, or would do.
///
/// ```
#[doc = include_str!("../docs/setup/dead_letters.md")]
/// use steadfast::dead_letter::{Redrive, Redriven, Selection, Which};
///
/// # let letters = steadfast::dead_letter::DeadLetters::new(store.clone());
/// let all = Selection::default();
/// let redriven: Redriven = letters.redrive(Which::Matching(&all), &Redrive::by("ada")).await?;
/// assert_eq!((redriven.matched, redriven.due, redriven.held_back), (2, 1, 1));
/// // Without a client of the vendor, the rules that make it safe are not known.
/// assert_eq!(redriven.why_held_back[0].why.code(), "no_rules");
#[doc = include_str!("../docs/setup/end.md")]
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Redriven {
    /// Whether nothing was changed and only counted.
    pub rehearsal: bool,
    /// Letters that matched or were named.
    pub matched: u64,
    /// Of these, made due (or, in a dry run, that would be).
    pub due: u64,
    /// Of these, due only by force.
    pub forced: u64,
    /// Of these, looked up before anything is sent: it is only sent if the lookup proves that it did not take effect.
    pub looked_up: u64,
    /// The others: not changed.
    pub held_back: u64,
    /// The first of the others, at most [`Redriven::HELD_BACK_SHOWN_MAX`].
    pub why_held_back: Vec<HeldBack>,
    /// The time at which the filter was frozen. Given as [`Selection::before`], it selects the same letters again.
    /// `None` if the letters were named.
    pub frozen_at: Option<Timestamp>,
}

/// A letter that was not redriven.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct HeldBack {
    /// Which.
    pub id: OperationId,
    /// Why.
    pub why: Refused,
}

impl Redrive {
    /// A redrive of what is safe to redrive, signed by an operator.
    pub fn by(name: impl Into<String>) -> Redrive {
        Redrive::from(Signed::new(name, ""))
    }

    /// With a reason.
    #[must_use]
    pub fn because(mut self, why: impl Into<String>) -> Redrive {
        self.signed.why = why.into();
        self
    }

    /// Also redrives what is not safe.
    #[must_use]
    pub fn force(mut self) -> Redrive {
        self.force = true;
        self
    }

    /// Also redrives what overwrites later writes.
    #[must_use]
    pub fn overwrite(mut self) -> Redrive {
        self.overwrite = true;
        self
    }

    /// Makes it a dry run.
    #[must_use]
    pub fn rehearse(mut self) -> Redrive {
        self.rehearsal = true;
        self
    }
}

impl From<Signed> for Redrive {
    /// A redrive by the operator who signed, of what is safe to redrive.
    fn from(signed: Signed) -> Redrive {
        Redrive { signed, force: false, overwrite: false, rehearsal: false }
    }
}

impl Redriven {
    /// How many of those that were held back are named.
    pub const HELD_BACK_SHOWN_MAX: usize = 100;

    fn hold_back(&mut self, id: OperationId, why: Refused) {
        self.held_back += 1;
        if self.why_held_back.len() < Redriven::HELD_BACK_SHOWN_MAX {
            self.why_held_back.push(HeldBack { id, why });
        }
    }
}

impl DeadLetters {
    /// Makes dead letters due, each under its own key and with its own bytes. A client of the vendor that runs on
    /// this store sends them through its gates: at once if its dispatcher runs, else when the same key is sent again.
    ///
    /// A letter is held back if another send could be a second effect, unless it is forced. A forced letter is
    /// still looked up first where the vendor has a lookup.
    ///
    /// # Errors
    ///
    /// [`DeadLetterError::Store`], with those before it redriven. What is held back is no error.
    ///
    /// # Cancellation safety
    ///
    /// Those before it are redriven, each whole.
    pub async fn redrive(&self, which: Which<'_>, how: &Redrive) -> Result<Redriven, DeadLetterError> {
        let mut redriven = Redriven { rehearsal: how.rehearsal, ..Redriven::default() };
        match which {
            Which::These(ids) => {
                for id in ids {
                    self.redrive_one(id, how, &mut redriven).await?;
                }
            }
            Which::Matching(selection) => self.redrive_matching(selection, how, &mut redriven).await?,
        }
        Ok(redriven)
    }

    async fn redrive_matching(
        &self,
        selection: &Selection,
        how: &Redrive,
        redriven: &mut Redriven,
    ) -> Result<(), DeadLetterError> {
        // What moved in this very millisecond is in: nothing can be told to have moved later.
        let frozen_at =
            selection.before.unwrap_or_else(|| self.now().plus(std::time::Duration::from_millis(1)));
        redriven.frozen_at = Some(frozen_at);
        let frozen = Selection { before: Some(frozen_at), ..selection.clone() };
        let filter = self.filter(&frozen).await?;
        let mut after: Option<Cursor> = None;
        loop {
            let page = self.letters(&filter, &frozen, after, PAGE_ROWS).await?;
            for letter in page.rows {
                self.redrive_one(&letter.summary.id, how, redriven).await?;
            }
            after = page.next;
            if after.is_none() {
                return Ok(());
            }
        }
    }

    async fn redrive_one(
        &self,
        id: &OperationId,
        how: &Redrive,
        redriven: &mut Redriven,
    ) -> Result<(), DeadLetterError> {
        redriven.matched += 1;
        let (forced, safety) = match self.judge(id, how).await? {
            Ok((_, forced, safety)) if how.rehearsal => (forced, safety),
            Ok((record, forced, safety)) => {
                let action = Action::Redrive { forced };
                match self.act(id, action, &how.signed, Some(record.fence)).await {
                    Ok(_) => (forced, safety),
                    Err(DeadLetterError::Refused { why, .. }) => {
                        redriven.hold_back(id.clone(), why);
                        return Ok(());
                    }
                    Err(error) => return Err(error),
                }
            }
            Err(why) => {
                redriven.hold_back(id.clone(), why);
                return Ok(());
            }
        };
        redriven.due += 1;
        redriven.forced += u64::from(forced);
        redriven.looked_up += u64::from(safety == Safety::LookUp);
        Ok(())
    }

    /// Whether the letter may be redriven, whether only by force, and what that relies on.
    async fn judge(
        &self,
        id: &OperationId,
        how: &Redrive,
    ) -> Result<Result<(Box<Record>, bool, Safety), Refused>, DeadLetterError> {
        let Some(record) = self.get(id).await? else {
            return Ok(Err(Refused::Forbidden(Forbidden::Absent)));
        };
        let resolution = record.resolved.as_ref().map(|said| &said.resolution);
        match (record.phase(), resolution) {
            (Phase::Dead, _) | (Phase::Resolved, Some(Resolution::NotApplied)) => {}
            (Phase::Resolved, _) => return Ok(Err(Refused::Forbidden(Forbidden::Resolved))),
            _ => return Ok(Err(Refused::Forbidden(Forbidden::NotDead))),
        }
        let safety = self.safety(&record);
        // Force is only on record where it is needed: it also allows a resend when a lookup cannot tell.
        let forced = how.force && matches!(safety, Safety::Unsafe | Safety::NoRules | Safety::LookUp);
        let overwrites = overwrites(&record.request);
        let needs_why = forced || (overwrites && how.overwrite);
        let unsigned = how.signed.by.trim().is_empty() || (needs_why && how.signed.why.trim().is_empty());
        Ok(match safety {
            // A rehearsal leaves nothing on record to sign.
            _ if unsigned && !how.rehearsal => Err(Refused::Forbidden(Forbidden::Unexplained)),
            Safety::Unsafe if Guard::UnsafeNeedsForce.keeps(!forced) => Err(Refused::Unsafe),
            Safety::NoRules if !forced => Err(Refused::NoRules),
            _ if self.is_elsewhere(&record) => Err(Refused::Elsewhere),
            _ if Guard::OverwriteHeldBack.keeps(overwrites && !how.overwrite) => Err(Refused::Overwrites),
            _ => Ok((Box::new(record), forced, safety)),
        })
    }
}

/// Whether the request replaces or removes what is there, whatever that is by now. With a condition the vendor itself
/// refuses it once something else was written (RFC 9110, section 13.1).
pub(super) fn overwrites(request: &Request) -> bool {
    let is_conditional = [header::IF_MATCH, header::IF_UNMODIFIED_SINCE]
        .iter()
        .any(|condition| request.headers.contains_key(condition));
    !is_conditional && matches!(request.method, Method::PUT | Method::PATCH | Method::DELETE)
}
