//! [`Postgres`]: a store in a database that many processes share.
//!
//! The database arbitrates between processes, and the state machine decides. The claim of a new key is one
//! `INSERT`. A holder's transition is one `UPDATE` of a row that has not changed since. Such statements of many
//! callers go in batches ([`batch`]). Every other command locks its row, reads it, lets
//! [`operation::record`](steadfast_core::operation::record) decide, and writes. It does so in one short
//! transaction ([`transaction`]).
//!
//! All times are the server's ([`time`]): every command is carried out at the server's now.

use std::sync::Arc;

use async_trait::async_trait;

use steadfast_core::AttemptReport;
use steadfast_core::clock::{Clock, Timestamp};
use steadfast_core::internal::ext::ClaimedExt;
use steadfast_core::internal::store::{Seals, Tenants};
use steadfast_core::operation::OperationId;
use steadfast_core::operation::record::{
    Act, AuditEntry, Claim, Claimed, Declined, Filter, Forbidden, Page, Record, State, Summary, Takeover,
    Tally, Transition,
};
use steadfast_core::store::delivery::{Backlog, Delivery, Heartbeat, Look, Peer, Sight, Version, Wakes};
use steadfast_core::store::maintenance::{Head, Maintenance, Noted, Place, Restore, Standing};
use steadfast_core::store::outbox::Outbox;
use steadfast_core::store::sealing::{Reseal, ResealedBatch, Sealing};
use steadfast_core::store::{Store, StoreError};

mod act;
mod address;
mod backlog;
mod batch;
mod bounds;
mod builder;
mod claim;
mod connect;
mod connections;
mod copying;
mod due;
mod durability;
mod failure;
mod heartbeat;
mod line;
mod look;
mod migrate;
mod names;
mod notify;
mod opening;
mod outbox;
mod password;
mod place;
mod purge;
mod read;
mod reseal;
mod restore;
mod roles;
mod row;
mod schema;
mod sealed;
mod sequence;
mod standing;
mod statements;
mod take;
mod thread;
mod time;
#[cfg(feature = "rustls")]
mod tls;
#[cfg(not(feature = "rustls"))]
#[path = "no_tls.rs"]
mod tls;
mod transaction;
mod transition;
mod turns;
mod wanted;
mod write;

#[doc(hidden)]
pub mod internal {
    //! Access for the client alone, which opens stores by their URLs.

    pub use crate::address::Address;

    /// Returns a builder of the store at `address`.
    pub fn at(address: Address) -> crate::PostgresBuilder {
        crate::PostgresBuilder::at(address)
    }
}

pub use builder::PostgresBuilder;

use batch::Queue;
use bounds::Bounds;
use claim::FirstClaim;
use connections::Connections;
use durability::Durability;
use notify::Notifications;
use statements::Statements;
use time::ServerTime;
use transition::PredictedTransition;
use turns::ContentionCache;

/// A store in a Postgres database, which any number of processes on any number of hosts may share.
///
/// A write that a method has acknowledged is committed, as durably as the server commits. The store overrides
/// `synchronous_commit = off`. Where `fsync` or `full_page_writes` is off, it logs one warning.
///
/// # Behaviour
///
/// - A claim and a settlement are a commit each. Those that come together share one, and a lone one is sent at
///   once.
/// - Times are the server's, to the millisecond. No host's clock is compared with a stored time. A time that is
///   far ahead of the last one frees no key and purges nothing for an hour.
/// - A claim that is dropped before it was sent leaves nothing. A settlement is written all the same.
/// - Where no answer comes, the write may be on record or not: the error's kind is then
///   [`Lost`](steadfast_core::store::StoreErrorKind::Lost).
///
/// # Bound
///
/// Only the server's disk bounds the store. Call [`purge`](Store::purge) now and then. It works in small
/// batches, and only the claim of a row that it removes waits for it.
#[derive(Clone, Debug)]
pub struct Postgres(Arc<Shared>);

/// State that all handles of a store share.
struct Shared {
    connections: Connections,
    seals: Seals,
    statements: Statements,
    time: ServerTime,
    bounds: Bounds,
    tenants: Tenants,
    durability: Durability,
    contention: ContentionCache,
    first_claims: Queue<FirstClaim>,
    transitions: Queue<PredictedTransition>,
    wakes: Wakes,
    notifications: Notifications,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared").field("connections", &self.connections).finish_non_exhaustive()
    }
}

impl Postgres {
    /// Returns a builder that opens the store at `url`, with options beside its defaults.
    ///
    /// # Errors
    ///
    /// `Invalid` if `url` is not the URL of a Postgres store.
    pub fn builder(url: &str) -> Result<PostgresBuilder, StoreError> {
        PostgresBuilder::parse(url)
    }

    /// Builds the store on connections to a schema that is up to date. Blocks while it compares the place and
    /// checks which seal keys the rows need. `creates` is true if the process that opens it also creates
    /// stores.
    fn on(
        connections: Connections,
        seals: Seals,
        (clock, creates): (Arc<dyn Clock>, bool),
    ) -> Result<Postgres, StoreError> {
        let shared = Arc::new(Shared {
            statements: Statements::of(connections.schema()),
            time: ServerTime::new(clock),
            bounds: Bounds::default(),
            tenants: Tenants::default(),
            durability: Durability::default(),
            contention: ContentionCache::default(),
            first_claims: Queue::default(),
            transitions: Queue::default(),
            wakes: Wakes::new(),
            notifications: Notifications::new(),
            seals,
            connections,
        });
        let own = Arc::clone(&shared);
        shared.connections.compare_places();
        shared.connections.run_blocking(async move {
            let client = own.connections.get().await?;
            place::check(&client, &own.connections.connect()).await?;
            drop(client);
            // Reads the server's time once, so that `time()` is the server's from now on.
            own.now().await?;
            sealed::check(&own, creates).await
        })?;
        Ok(Postgres(shared))
    }
}

#[async_trait]
impl Store for Postgres {
    async fn claim(&self, claim: Claim) -> Result<Claimed, StoreError> {
        let (due, now) = (claim.due, claim.now);
        let claimed = claim::claim(&self.0, claim).await?;
        if let (Some(due), Some(_)) = (due, claimed.changes()) {
            notify::notify_due(&self.0, due, now);
        }
        Ok(claimed)
    }

    async fn transition(
        &self,
        held: &Record,
        transition: Transition,
    ) -> Result<Result<Record, Declined>, StoreError> {
        let moved = transition::transition(&self.0, held, transition).await?;
        if let Ok(record) = &moved {
            notify::notify_ended(&self.0, record);
        }
        Ok(moved)
    }

    async fn take(&self, take: Takeover) -> Result<Vec<Record>, StoreError> {
        take::take(&self.0, take).await
    }

    async fn act(&self, id: &OperationId, act: Act) -> Result<Result<Record, Forbidden>, StoreError> {
        let acted = act::act(&self.0, id, act).await?;
        if let Ok(Record { state: State::Scheduled { at }, updated_at, .. }) = &acted {
            notify::notify_due(&self.0, *at, *updated_at);
        }
        Ok(acted)
    }

    async fn append_evidence(
        &self,
        id: &OperationId,
        reports: Vec<AttemptReport>,
    ) -> Result<Result<(), Declined>, StoreError> {
        self.0.append(id, &reports).await
    }

    async fn evidence(&self, id: &OperationId) -> Result<Vec<AttemptReport>, StoreError> {
        self.0.evidence(id).await
    }

    async fn get(&self, id: &OperationId) -> Result<Option<Record>, StoreError> {
        let stored = self.0.read(id).await?.stored;
        match &stored {
            Some(stored) => sealed::refresh_seals_for(&self.0, stored).await?,
            None => self.0.check_absent().await?,
        }
        stored.map(|stored| stored.whole(&self.0.seals)).transpose()
    }

    async fn list(
        &self,
        filter: &Filter,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Page<Summary>, StoreError> {
        self.0.list(filter, after, limit).await
    }

    async fn tally(&self) -> Result<Vec<Tally>, StoreError> {
        self.0.tally().await
    }

    async fn audit(
        &self,
        id: Option<&OperationId>,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Page<AuditEntry>, StoreError> {
        self.0.audit(id, after, limit).await
    }

    fn time(&self, now: Timestamp) -> Timestamp {
        self.0.time.now().unwrap_or(now)
    }

    async fn believed(&self, _: Timestamp) -> Result<Timestamp, StoreError> {
        self.0.now().await.map(|(_, believed)| believed)
    }

    async fn purge(&self, _: Timestamp, limit: usize) -> Result<usize, StoreError> {
        purge::expired(&self.0, limit).await
    }

    async fn register(&self, account: &str, terms: Option<&str>) -> Result<Option<String>, StoreError> {
        copying::register(&self.0, account, terms).await
    }

    fn delivery(&self) -> Option<&dyn Delivery> {
        Some(self)
    }

    fn outbox(&self) -> Option<&dyn Outbox> {
        Some(self)
    }

    fn sealing(&self) -> Option<&dyn Sealing> {
        Some(self)
    }

    fn maintenance(&self) -> Option<&dyn Maintenance> {
        Some(self)
    }
}

#[async_trait]
impl Delivery for Postgres {
    async fn look(&self, look: &Look) -> Result<Sight, StoreError> {
        // Only a dispatcher calls `look`, and a dispatcher is woken by notifications.
        notify::listen(&self.0);
        look::look(&self.0, look).await
    }

    async fn heartbeat(&self, heartbeat: &Heartbeat) -> Result<Vec<Peer>, StoreError> {
        heartbeat::heartbeat(&self.0, heartbeat).await
    }

    async fn backlog(&self, now: Timestamp) -> Result<Backlog, StoreError> {
        self.0.backlog(now).await
    }

    async fn versions(&self, ids: &[OperationId]) -> Result<Vec<Option<Version>>, StoreError> {
        notify::listen(&self.0);
        self.0.versions(ids).await
    }

    fn wakes(&self) -> &Wakes {
        &self.0.wakes
    }
}

#[async_trait]
impl Sealing for Postgres {
    async fn reseal(&self, reseal: &Reseal) -> Result<ResealedBatch, StoreError> {
        reseal::reseal(&self.0, reseal).await
    }

    async fn note_sealed(&self) -> Result<bool, StoreError> {
        sealed::record_sealed(&self.0).await
    }

    async fn wipe(&self) -> Result<(), StoreError> {
        purge::wipe(&self.0).await
    }
}

#[async_trait]
impl Maintenance for Postgres {
    fn warning(&self) -> Option<&'static str> {
        self.0.durability.warning()
    }

    async fn head(&self) -> Result<Head, StoreError> {
        copying::head(&self.0).await
    }

    async fn stand(&self, from: &Standing, to: &Standing) -> Result<Standing, StoreError> {
        copying::stand(&self.0, from, to).await
    }

    async fn restore(&self, restore: Restore) -> Result<(), StoreError> {
        copying::restore(&self.0, restore).await
    }

    async fn place(&self) -> Result<Place, StoreError> {
        place::place(&self.0).await
    }

    async fn set_place(&self, noted: &Noted) -> Result<(), StoreError> {
        place::set(&self.0, noted).await
    }
}
