//! Calls in the store's outbox: made ready for the caller's transaction, and admitted by a dispatcher.

use std::sync::Arc;

use http::HeaderMap;

use steadfast_core::clock::Timestamp;
use steadfast_core::internal::decision::claim::{ClaimFailure, Intent, Meaning, claim_failure, meaning};
use steadfast_core::internal::error::{ADMIT_ROW, Kind};
use steadfast_core::internal::ext::{ErrorExt, InputErrorExt};
use steadfast_core::internal::guard::Guard;
use steadfast_core::internal::store::outbox_of;
use steadfast_core::operation::{Key, RedactedFields};
use steadfast_core::outbox::Database;
use steadfast_core::store::StoreError;
use steadfast_core::store::outbox::{Account, Outbox, OutboxRow, Statement};
use steadfast_core::transport::Request;
use steadfast_core::{Effect, Error, Input};

use super::claim::{Keyed, key_reused};
use super::enqueue::{Accepted, Row};
use super::entry::Stop;
use super::on_record::Standing;
use super::{Engine, Work};
use crate::limit;
use crate::telemetry::{self, Whose};

/// The statements for a caller's transaction, and the handle of its operation.
#[derive(Debug)]
pub(crate) struct Put {
    pub statements: Vec<Statement>,
    pub accepted: Accepted,
}

/// Why a row was not admitted.
pub(crate) enum NotAdmitted {
    /// It cannot be, however often it is tried.
    Rejected(Error),
    /// The operation that it starts over has not ended.
    NotYet,
    /// The store failed: it is tried again.
    Failed(Error),
}

impl Engine {
    /// The outbox of the client's store.
    pub(crate) fn outbox(&self) -> Option<&dyn Outbox> {
        self.store.outbox()
    }

    /// Whose rows this client admits.
    pub(crate) fn account(&self) -> Account {
        Account {
            namespace: self.namespace.clone(),
            vendor: self.vendor.name().to_owned(),
            account: self.vendor.account(&HeaderMap::new()).into_owned(),
        }
    }

    /// Makes a call ready for the outbox: all that a claim would refuse of it is refused now, but for what only the
    /// record knows.
    pub(crate) fn put(
        &self,
        request: &Request,
        work: &Work,
        (key, due): (Key, Option<Timestamp>),
        database: Database,
    ) -> Result<Put, Error> {
        let refused = |error| self.in_context(error, request, None);
        let outbox = outbox_of(&*self.store).map_err(|lacks| {
            let problem =
                format!("{lacks}; take a store::Sqlite or store::Postgres in the transaction's own database");
            refused(Error::invalid(Input::Other("store"), problem))
        })?;
        let row = self.row(request, work, &key, due).map_err(refused)?;
        self.disagreement.check()?;
        let mut stamped = request.clone();
        let formers = self.former_names(request, work, &key)?;
        let named = self.name(&mut stamped, work, key)?;
        let stamped = Arc::new(stamped);
        let statements = outbox.put(&self.account(), &row).map_err(|source| {
            let failed = Error::new(Kind::Store { doing: MAKE_READY }, Effect::None).with_source(source);
            self.named(failed, named.offered(&stamped))
        })?;
        if let Some(other) = statements.iter().find(|statement| statement.database != database) {
            let problem =
                format!("the client's store is {} and the transaction is {database}", other.database);
            return Err(refused(Error::invalid(Input::Other("store"), problem)));
        }
        telemetry::outbox::put_in_outbox(Whose {
            vendor: &**self.vendor,
            request: &stamped,
            operation: Some((&named.id, &named.wire_key)),
        });
        let accepted = Accepted {
            named,
            formers,
            request: stamped,
            is_new: true,
            in_outbox: Some(Row { since: self.clock.now(), written: self.wall() }),
            by_name: false,
        };
        Ok(Put { statements, accepted })
    }

    /// Says whose an error of a call is that was made ready.
    pub(crate) fn named_put(&self, error: Error, accepted: &Accepted) -> Error {
        self.named(error, accepted.named.offered(&accepted.request))
    }

    /// The row of a call that is not stamped yet, if it is enqueued into a sequence and the store has an outbox.
    pub(super) fn row_of_sequence(
        &self,
        request: &Request,
        work: &Work,
        (key, due): (&Key, Timestamp),
    ) -> Result<Option<OutboxRow>, Error> {
        if work.sequence.is_none() || self.outbox().is_none() {
            return Ok(None);
        }
        let row = self.row(request, work, key, Some(due));
        row.map(Some).map_err(|error| self.in_context(error, request, None))
    }

    /// Enqueues a call behind the rows of its sequence that were committed before it and are not recorded yet. It
    /// becomes a row itself, since an operation would overtake them. Whether it is one now; `None` if there are no
    /// such rows.
    ///
    /// A record under its key is reported as by a claim.
    pub(super) async fn record_behind_rows(
        &self,
        call: &Keyed<'_>,
        row: &OutboxRow,
    ) -> Result<Option<bool>, Error> {
        let Some((outbox, sequence)) = self.outbox().zip(row.sequence.as_ref()) else { return Ok(None) };
        let (account, deadline) = (self.account(), call.offered.deadline);
        let failed = || Error::new(Kind::Store { doing: LOOK_AHEAD }, Effect::None);
        let asked = limit::within(&*self.clock, deadline, outbox.holds_back(&account, sequence.name())).await;
        match asked.ok_or_else(failed).and_then(|held| held.map_err(|source| failed().with_source(source))) {
            Ok(false) => return Ok(None),
            Ok(true) => {}
            // Nothing was written, and an earlier call's record may be there all the same.
            Err(failed) => {
                let told = Box::pin(self.refused_before_claim(self.named(failed, call.offered), *call)).await;
                return told.map(|_| Some(false)).map_err(Stop::into_error);
            }
        }
        match self.standing(call.offered).await {
            Standing::Final { outcome, is_over: false, .. } => return (*outcome).map(|_| Some(false)),
            Standing::Open(_) => return Ok(Some(false)),
            Standing::CannotSay => {
                return Err(self.named(failed().with_effect(Effect::Unknown), call.offered));
            }
            Standing::Final { .. } | Standing::Free(_) | Standing::Absent => {}
        }
        let written = match outbox.put(&account, row) {
            Ok(statements) => limit::within(&*self.clock, deadline, outbox.write(statements)).await,
            Err(source) => Some(Err(source)),
        };
        if written.as_ref().is_none_or(Result::is_err) {
            let told = Box::pin(self.not_claimed(written.and_then(Result::err), *call)).await;
            return told.map(|_| Some(false)).map_err(Stop::into_error);
        }
        telemetry::outbox::put_in_outbox(call.whose(&self.vendor));
        self.wakes.wake(None, self.wall());
        Ok(Some(true))
    }

    /// The row of a call that is not stamped yet.
    fn row(
        &self,
        request: &Request,
        work: &Work,
        key: &Key,
        due: Option<Timestamp>,
    ) -> Result<OutboxRow, Error> {
        let base = self.vendor.base_url().path().trim_end_matches('/');
        let path = request.url.path();
        let mut path = path.strip_prefix(base).unwrap_or(path).to_owned();
        if let Some(query) = request.url.query() {
            path.extend(["?", query]);
        }
        let mut headers = Vec::with_capacity(request.headers.len());
        for (name, value) in &request.headers {
            let value = std::str::from_utf8(value.as_bytes()).map_err(|_| {
                Error::invalid(
                    Input::Header,
                    format!("{name}: an outbox keeps texts, and this value is not UTF-8"),
                )
            })?;
            headers.push((name.as_str().to_owned(), value.to_owned()));
        }
        if work.redact.names().len() > RedactedFields::COUNT_MAX {
            let problem = format!(
                "{} fields with those of the client; at most {} are allowed",
                work.redact.names().len(),
                RedactedFields::COUNT_MAX
            );
            return Err(Error::invalid(Input::Redact, problem));
        }
        Ok(OutboxRow {
            number: 0,
            method: request.method.as_str().to_owned(),
            path,
            key: key.as_str().to_owned(),
            headers,
            body: request.body.clone(),
            due,
            on_unknown: Some(work.on_unknown),
            keep: work.retention,
            redact: work.redact.names().to_vec(),
            supersedes: work.predecessor.as_ref().map(|key| key.as_str().to_owned()),
            origin: Some(self.origin()),
            sequence: work.sequence.clone(),
            enqueued_at: self.wall(),
            problem: None,
        })
    }

    /// Records the operation that a row asks for, as [`enqueue`](Engine::enqueue) does, and removes the row. Whether
    /// this did.
    pub(crate) async fn admit(
        &self,
        mut request: Request,
        work: &Work,
        (key, due): (Key, Option<Timestamp>),
        row: (&dyn Outbox, u64),
    ) -> Result<bool, NotAdmitted> {
        let (started, wall) = (self.clock.now(), self.wall());
        let deadline = started.plus(work.time_allowed(&self.policy, started));
        let due = due.map_or(wall, |due| due.max(wall));
        let named = self.name_on_record(&mut request, work, key, deadline).await.map_err(|error| {
            let is_stores = Guard::FailureRejectsNothing.keeps(error.is_store());
            if is_stores { NotAdmitted::Failed(error) } else { NotAdmitted::Rejected(error) }
        })?;
        // They may agree again, and the row is not to blame. Right before the claim: they may have been told meanwhile.
        Guard::TermsBeforeRows.or(self.disagreement.check(), Ok(())).map_err(NotAdmitted::Failed)?;
        let request = Arc::new(request);
        let call =
            Keyed { due: Some(due), row: Some(row), ..named.call(&request, work, (started, deadline)) };
        let rejected = |error| Err(NotAdmitted::Rejected(self.named(error, call.offered)));
        let claimed = match self.claim(&call).await {
            Ok(claimed) => *claimed,
            Err(source) => return Err(self.not_admitted(source, call)),
        };
        let is_new = match meaning(claimed, Intent::Admit) {
            Meaning::Send(record) | Meaning::CarryOn { record, .. } | Meaning::Recorded(record) => {
                self.wake_for(&record, due);
                true
            }
            Meaning::OnRecord | Meaning::Held { .. } | Meaning::Ended(_) => false,
            Meaning::OtherRequest { held, effect, next } => {
                return rejected(key_reused(held, call.offered.fingerprint, (effect, next)));
            }
            Meaning::Later => return Err(NotAdmitted::NotYet),
            Meaning::InTheWay { obstacle, effect } => {
                return rejected(self.in_the_way(work, obstacle, effect));
            }
        };
        telemetry::outbox::enqueued(call.whose(&self.vendor), is_new);
        Ok(is_new)
    }

    /// Why a row was not admitted whose claim failed, or was not answered in time.
    fn not_admitted(&self, source: Option<StoreError>, call: Keyed<'_>) -> NotAdmitted {
        let failure = claim_failure(source.as_ref());
        let effect = if failure == ClaimFailure::PerhapsClaimed { Effect::Unknown } else { Effect::None };
        let failed = Error::new(Kind::Store { doing: ADMIT_ROW }, effect).with_cause(source);
        let failed = self.named(failed, call.offered);
        match failure {
            ClaimFailure::NotHeld => NotAdmitted::Rejected(failed),
            _ => NotAdmitted::Failed(failed),
        }
    }
}

const MAKE_READY: &str = "make the call ready for the outbox";
const LOOK_AHEAD: &str = "look for what is ahead in its sequence";
