//! The operations that a dispatcher carries on, each in its own task.

use std::collections::HashMap;

use tokio::task::{Id, JoinError, JoinSet};

use steadfast_core::clock::Instant;
use steadfast_core::operation::OperationId;
use steadfast_core::operation::record::Record;
use steadfast_core::{Effect, Error};

use super::Recovered;
use super::places::Place;
use crate::client::Client;
use crate::engine::Shutdown;
use crate::reply::Reply;
use crate::telemetry;

pub(super) struct UnderWay {
    tasks: JoinSet<Result<Reply, Error>>,
    whose: HashMap<Id, Carried>,
    members: Vec<OfMember>,
    /// Number of those that are in a sequence.
    sequenced: usize,
    leaving: Shutdown,
    /// The last that ended was postponed as it was, nothing sent for it; or what was taken last is under way here
    /// already.
    came_to_nothing: bool,
    pub recovered: Recovered,
}

/// State of a member.
struct OfMember {
    vendor: String,
    /// Number that it has under way.
    count: usize,
    /// Number of its operations that have come to an end.
    gone: u32,
}

/// State of a task.
struct Carried {
    member: usize,
    is_sequenced: bool,
    /// Its operation, where that was taken with its effect unknown.
    unknown: Option<OperationId>,
}

impl UnderWay {
    /// None yet, of members with these vendors. Once it is `leaving`, waiting operations are released.
    pub(super) fn new(vendors: impl Iterator<Item = String>, leaving: Shutdown) -> UnderWay {
        UnderWay {
            tasks: JoinSet::new(),
            whose: HashMap::new(),
            members: vendors.map(|vendor| OfMember { vendor, count: 0, gone: 0 }).collect(),
            sequenced: 0,
            leaving,
            came_to_nothing: false,
            recovered: Recovered::default(),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.tasks.is_empty()
    }

    /// Returns the number that a member has.
    pub(super) fn of(&self, member: usize) -> usize {
        self.members.get(member).map_or(0, |member| member.count)
    }

    /// Returns the number of a member's operations that have come to an end, wrapping.
    pub(super) fn gone_of(&self, member: usize) -> u32 {
        self.members.get(member).map_or(0, |member| member.gone)
    }

    /// Whether the end of one of those under way may be the turn of the next in its sequence.
    pub(super) const fn may_pass_turns(&self) -> bool {
        self.sequenced > 0
    }

    /// Whether what was taken last was postponed as it was, or is under way here already. Hosts whose clocks are far
    /// apart, on a store without one, each find due at once what the other one has postponed, or holds.
    pub(super) fn came_to_nothing(&self) -> bool {
        self.came_to_nothing
    }

    /// Carries a taken operation on, or gives it up. It keeps its place until it ends, however it does.
    pub(super) fn carry_on(
        &mut self,
        member: usize,
        client: &Client,
        (record, lease_until): (Record, Instant),
        place: Option<Place>,
        is_given_up: bool,
    ) {
        let (client, leaving) = (client.clone(), self.leaving.clone());
        let is_sequenced = record.sequence.is_some();
        self.sequenced += usize::from(is_sequenced);
        let unknown = (record.effect == Effect::Unknown).then(|| record.id.clone());
        if unknown.is_some() && self.whose.values().any(|other| other.unknown == unknown) {
            self.came_to_nothing = true;
        }
        let place = place.map(Place::used);
        let task = self.tasks.spawn(async move {
            let _place = place;
            if is_given_up {
                return client.engine.give_up(record, lease_until).await;
            }
            client.engine.carry_on(record, lease_until, Some(leaving)).await
        });
        self.whose.insert(task.id(), Carried { member, is_sequenced, unknown });
        if let Some(member) = self.members.get_mut(member) {
            member.count += 1;
        }
        self.recovered.taken += 1;
    }

    /// Waits until one of those under way has ended, and counts it and whichever others have by then: what ends together
    /// makes room together.
    ///
    /// # Cancellation safety
    ///
    /// Nothing is lost.
    pub(super) async fn some_end(&mut self) {
        let Some(first) = self.tasks.join_next_with_id().await else {
            // Nobody's end: whoever waits for another thing beside this waits on.
            return std::future::pending().await;
        };
        self.count(first);
        while let Some(other) = self.tasks.try_join_next_with_id() {
            self.count(other);
        }
    }

    fn count(&mut self, ended: Ended) {
        match ended {
            Ok((id, outcome)) => {
                self.came_to_nothing = outcome.as_ref().is_err_and(|error| {
                    error.attempts().is_empty() && !error.is_dead_letter() && !error.is_refused()
                });
                let outcome = self.recovered.count(&outcome);
                if let Some(member) = self.forget(id) {
                    let is_gone = !matches!(outcome, "postponed" | "failed");
                    member.gone = member.gone.wrapping_add(u32::from(is_gone));
                    telemetry::recovered(&member.vendor, outcome);
                }
            }
            // Its operation stays in progress until its lease runs out.
            Err(ended) => {
                self.recovered.failed += 1;
                let member = self.forget(ended.id());
                if let (Some(member), Ok(panic)) = (member, ended.try_into_panic()) {
                    telemetry::recovery_panicked(&member.vendor, "carry an operation on", &*panic);
                }
            }
        }
    }

    /// Gives the member that it was of.
    fn forget(&mut self, id: Id) -> Option<&mut OfMember> {
        let Carried { member, is_sequenced, .. } = self.whose.remove(&id)?;
        self.sequenced -= usize::from(is_sequenced);
        let member = self.members.get_mut(member)?;
        member.count = member.count.saturating_sub(1);
        Some(member)
    }
}

/// End of a task.
type Ended = Result<(Id, Result<Reply, Error>), JoinError>;
