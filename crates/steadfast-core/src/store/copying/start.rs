//! The start of a copy, or of the rest of one that was cut short, and the states of both stores from then on.
//!
//! The target is marked before the source. A kill in between leaves an empty target that no process uses, and a
//! source that knows of nothing.

use super::{CopyError, Run};
use crate::operation::record::Filter;
use crate::store::maintenance::{Head, Stage, Standing};
use crate::store::{StoreError, StoreErrorKind};

/// State in which a copy found the two stores.
pub(super) enum Began {
    /// An earlier run had done all of it.
    Complete,
    /// The copy is under way, under this name.
    Named(String),
}

impl Run<'_> {
    /// Closes both stores, or finds them closed by an earlier run of this copy.
    pub(super) async fn start(&self) -> Result<Began, CopyError> {
        if self.how.from == self.how.to {
            return Err(CopyError::SameStore);
        }
        let (source, target) = (self.source.head().await?, self.target.head().await?);
        let (from, to) = (&source.standing, &target.standing);
        let elsewhere = || CopyError::Elsewhere { other: from.other.clone() };
        if from.stage == Stage::Displaced {
            let source = StoreError::new(from.to_string()).of_kind(StoreErrorKind::Displaced);
            return Err(self.source.failed()(source));
        }
        match (from.stage, to.stage) {
            (Stage::Arriving, _) => Err(CopyError::Incomplete { other: from.other.clone() }),
            // Only a store with records can be displaced.
            (_, Stage::Displaced) => Err(CopyError::Occupied),
            // Refused above.
            (Stage::Displaced, _) => Err(elsewhere()),
            (_, Stage::Leaving | Stage::Moved) => Err(CopyError::OtherCopy { other: to.other.clone() }),
            (Stage::Open, _) => self.begin(from, &target).await,
            (Stage::Moved, Stage::Open) if from.copy == to.copy => Ok(Began::Complete),
            (_, Stage::Open) => Err(elsewhere()),
            (stage, Stage::Arriving) if from.copy == to.copy => {
                if stage == Stage::Leaving {
                    self.refuse_unless_left().await?;
                }
                self.rename(from, to).await?;
                Ok(Began::Named(from.copy.clone()))
            }
            (_, Stage::Arriving) => Err(elsewhere()),
        }
    }

    async fn begin(&self, from: &Standing, target: &Head) -> Result<Began, CopyError> {
        self.refuse_unless_left().await?;
        let is_empty = self.target_is_empty(target).await?;
        if !is_empty && target.standing.stage == Stage::Arriving {
            return Err(CopyError::OtherCopy { other: target.standing.other.clone() });
        }
        if !is_empty {
            return Err(CopyError::Occupied);
        }
        let name = self.new_name();
        let (arriving, leaving) = (self.arriving(&name), self.leaving(&name));
        self.target.step(&target.standing, &arriving).await?;
        // One store under two names shows the mark that the other name was given.
        if self.source.head().await?.standing == arriving {
            self.source.step(&arriving, &target.standing).await?;
            return Err(CopyError::SameStore);
        }
        self.source.step(from, &leaving).await?;
        // Whoever claimed in between holds it still; from here on nobody claims, and nobody puts a call into the outbox.
        if let Err(refused) = self.refuse_unless_left().await {
            self.source.step(&leaving, from).await?;
            self.target.step(&arriving, &target.standing).await?;
            return Err(refused);
        }
        Ok(Began::Named(name))
    }

    /// No process may hold anything in the source, and nothing may lie in its outbox.
    async fn refuse_unless_left(&self) -> Result<(), CopyError> {
        if let Some(outbox) = self.source.store.outbox() {
            let tallies = outbox.counts().await.map_err(self.source.failed())?;
            let rejected = tallies.iter().map(|tally| tally.rejected).sum();
            let rows = tallies.iter().map(|tally| tally.waiting).sum::<u64>() + rejected;
            if rows > 0 {
                return Err(CopyError::Outbox { rows, rejected });
            }
        }
        if self.how.wait { Ok(()) } else { self.refuse_while_held().await }
    }

    /// The stores may be found under other names this time: `sqlite:new.db` from elsewhere.
    async fn rename(&self, from: &Standing, to: &Standing) -> Result<(), CopyError> {
        let leaving = Standing { other: self.how.to.clone(), ..from.clone() };
        let arriving = Standing { other: self.how.from.clone(), ..to.clone() };
        self.source.step(from, &leaving).await?;
        self.target.step(to, &arriving).await
    }

    /// No record, no entry, and no fence that only another store knows.
    async fn target_is_empty(&self, head: &Head) -> Result<bool, CopyError> {
        if head.audit > 0 || head.notes.purged > 0 {
            return Ok(false);
        }
        let page = self.target.store.list(&Filter::default(), None, 1).await;
        Ok(page.map_err(self.target.failed())?.rows.is_empty())
    }

    fn new_name(&self) -> String {
        let random = &self.how.random;
        format!("{:016x}{:016x}", random.next_u64(), random.next_u64())
    }
}
