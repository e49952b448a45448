//! Redrives: make dead letters due again, one, several, or all that match.
//!
//! A filter is frozen when it starts. A letter that dies while it runs has moved since and no longer matches, so a
//! letter that dies again at once is not redriven for ever. Each act names the fence of the record that it judged. If
//! two redrives run at once, one finds that the letter has moved, and the operation is sent once.

use http::{Method, header};

use steadfast_core::internal::guard::Guard;
use steadfast_core::operation::OperationId;
use steadfast_core::operation::record::{Action, Filter, Forbidden, Phase, Record, Resolution};
use steadfast_core::transport::Request;

use super::outcome::Of;
use super::{Change, DeadLetterError, DeadLetters, Outcome, PAGE_ROWS, Safety};

impl DeadLetters {
    /// Makes dead letters due, each under its own key and with its own bytes. A client of the vendor that runs on
    /// this store sends them through its gates: at once if its dispatcher runs, else when the same key is sent again.
    ///
    /// A letter is held back if another send could be a second effect, unless it is forced. A forced letter is
    /// still looked up first where the vendor has a lookup.
    ///
    /// # Errors
    ///
    /// [`DeadLetterError::Store`], with those before it redriven. A letter that is held back is no error.
    ///
    /// # Cancellation safety
    ///
    /// Those before it are redriven, each whole.
    pub async fn redrive(&self, ids: &[OperationId], how: &Change) -> Result<Outcome, DeadLetterError> {
        let mut redriven = Outcome::new(how, Of::Redrive);
        for id in ids {
            self.redrive_one(id, how, &mut redriven).await?;
        }
        Ok(redriven)
    }

    /// Makes all dead letters due that match, as [`redrive`](DeadLetters::redrive) does.
    ///
    /// # Errors
    ///
    /// As [`list`](DeadLetters::list) and [`redrive`](DeadLetters::redrive).
    pub async fn redrive_all(&self, filter: &Filter, how: &Change) -> Result<Outcome, DeadLetterError> {
        let (mut redriven, frozen) = self.frozen(filter, Outcome::new(how, Of::Redrive));
        let asked = self.asked(&frozen).await?;
        let mut after: Option<String> = None;
        loop {
            let page = self.letters(&asked, frozen.code.as_deref(), after, PAGE_ROWS).await?;
            for letter in page.rows {
                self.redrive_one(&letter.id, how, &mut redriven).await?;
            }
            after = page.next;
            if after.is_none() {
                return Ok(redriven);
            }
        }
    }

    async fn redrive_one(
        &self,
        id: &OperationId,
        how: &Change,
        redriven: &mut Outcome,
    ) -> Result<(), DeadLetterError> {
        redriven.matched += 1;
        let (forced, safety) = match self.judge(id, how).await? {
            Ok((_, forced, safety)) if how.dry_run => (forced, safety),
            Ok((record, forced, safety)) => {
                let action = Action::Redrive { forced };
                match self.act(id, action, how, Some(record.fence)).await {
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
        redriven.done += 1;
        redriven.forced += u64::from(forced);
        redriven.looked_up += u64::from(safety == Safety::Lookup);
        Ok(())
    }

    /// Judges whether the letter may be redriven, whether only by force, and on which fact that relies.
    async fn judge(
        &self,
        id: &OperationId,
        how: &Change,
    ) -> Result<Result<(Box<Record>, bool, Safety), Forbidden>, DeadLetterError> {
        let Some(record) = self.get(id).await? else {
            return Ok(Err(Forbidden::Absent));
        };
        let resolution = record.resolved.as_ref().map(|said| &said.resolution);
        match (record.phase(), resolution) {
            (Phase::Dead, _) | (Phase::Resolved, Some(Resolution::NotApplied)) => {}
            (Phase::Resolved, _) => return Ok(Err(Forbidden::Resolved)),
            _ => return Ok(Err(Forbidden::NotDead)),
        }
        let safety = self.safety(&record);
        // Force is only on record where it is needed: it also allows a resend when a lookup cannot tell.
        let forced = how.force && matches!(safety, Safety::Unsafe | Safety::NoRules | Safety::Lookup);
        let overwrites = overwrites(&record.request);
        let needs_why = forced || (overwrites && how.overwrite);
        let unsigned = how.by.trim().is_empty() || (needs_why && how.why.trim().is_empty());
        Ok(match safety {
            // A dry run leaves nothing on record to sign.
            _ if unsigned && !how.dry_run => Err(Forbidden::Unexplained),
            Safety::Unsafe if Guard::UnsafeNeedsForce.keeps(!forced) => Err(Forbidden::Unsafe),
            Safety::NoRules if !forced => Err(Forbidden::NoRules),
            _ if self.is_elsewhere(&record) => Err(Forbidden::Elsewhere),
            _ if Guard::OverwriteHeldBack.keeps(overwrites && !how.overwrite) => Err(Forbidden::Overwrites),
            _ => Ok((Box::new(record), forced, safety)),
        })
    }
}

/// Whether the request replaces or removes what is there by now. With a condition the vendor itself
/// refuses it once something else was written (RFC 9110, section 13.1).
pub(super) fn overwrites(request: &Request) -> bool {
    let is_conditional = [header::IF_MATCH, header::IF_UNMODIFIED_SINCE]
        .iter()
        .any(|condition| request.headers.contains_key(condition));
    !is_conditional && matches!(request.method, Method::PUT | Method::PATCH | Method::DELETE)
}
