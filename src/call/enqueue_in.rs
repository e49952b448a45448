//! A call that is recorded if the caller's own transaction commits.

use std::sync::Arc;

use steadfast_core::internal::error::{BoxError, Kind};
use steadfast_core::internal::ext::ErrorExt;
use steadfast_core::internal::outbox::{WhyNot, why_not};
use steadfast_core::internal::store::{Database, Statement};
use steadfast_core::outbox::Transaction;
use steadfast_core::{Effect, Error};

use super::Call;
use super::enqueue::check_is_on_record;
use crate::engine::{Engine, Put};
use crate::outbox::Uncommitted;
#[cfg(feature = "sqlite")]
use crate::outbox::rusqlite;
use crate::telemetry;

impl Call {
    /// [Enqueues](Call::enqueue) the call within a transaction of the caller's own: the call is made if that commits,
    /// and never if it is rolled back. The business row and the vendor call are one.
    ///
    /// ```
    #[doc = include_str!("../docs/setup/outbox.md")]
    /// let transaction = shop.transaction()?;
    /// transaction.execute("INSERT INTO orders (number) VALUES (42)", [])?;
    /// let form = [("amount", "1000"), ("currency", "usd")];
    /// let charge = stripe.post("/v1/charges").key("order-42/charge").form(&form);
    /// let charge = charge.blocking_enqueue_in(&transaction)?; // sqlx: charge.enqueue_in(&mut transaction).await?
    /// transaction.commit()?;
    ///
    /// // Wakes the dispatcher of this process, which would else find the call at its next look.
    /// let charge = charge.committed();
    /// let _dispatcher = stripe.keep_recovering(steadfast::dispatcher::PERIOD);
    /// let reply = charge.wait(std::time::Duration::from_secs(60)).await?;
    /// assert_eq!(reply.status(), 200);
    #[doc = include_str!("../docs/setup/outbox_end.md")]
    /// ```
    ///
    /// It writes one row into the store's [outbox](crate::outbox), through the transaction and nothing else. So the
    /// transaction must be in the store's own database: for a store in an SQLite file, in the same file. A
    /// dispatcher, in this process or another one, finds the row once it is committed, records the operation and
    /// sends it. Until then no store call, no lock and no gate is involved but the transaction's own.
    ///
    /// The rules of [`enqueue`](Call::enqueue) for keys, times, sequences and the client's policy hold here too. The
    /// terms of the account are not registered, because nothing but the transaction is asked. Instead the row says
    /// for which host it was written, and a dispatcher whose client calls another host rejects it. The order in a
    /// sequence is that of the commits; of two transactions that overlap either may be first.
    ///
    /// # Errors
    ///
    /// A mistake in the call. [`is_validation`](Error::is_validation) too if the client's store has no outbox, or is
    /// another kind of database than the transaction. [`is_store`](Error::is_store) if the transaction could not write:
    /// whether it can go on is its driver's rule. All have effect none: nothing is on record.
    ///
    /// A conflict that only the record knows is found later, and then there is no caller to tell: the key may belong to another
    /// request. Such a row is kept aside, see [`outbox`](crate::outbox).
    ///
    /// # Cancellation safety
    ///
    /// Dropping the future may leave the row written in the transaction, which says what becomes of it.
    pub async fn enqueue_in<T: Transaction>(self, transaction: &mut T) -> Result<Uncommitted, Error> {
        let (engine, put) = self.put(T::DATABASE)?;
        for Statement { sql, values, .. } in &put.statements {
            if let Err(source) = transaction.execute(sql, values).await {
                return Err(failed(&engine, &put, source));
            }
        }
        Ok(Uncommitted::new(engine, put.accepted))
    }

    /// Enqueues as [`enqueue_in`](Call::enqueue_in) does, for rusqlite, whose transactions block and stay on their
    /// thread. It takes a `rusqlite::Transaction` as it is, and any other
    /// [`rusqlite::Connection`](crate::outbox::rusqlite::Connection).
    ///
    /// # Errors
    ///
    /// As there.
    #[cfg(feature = "sqlite")]
    pub fn blocking_enqueue_in(self, connection: &rusqlite::Connection) -> Result<Uncommitted, Error> {
        let (engine, put) = self.put(Database::Sqlite)?;
        for Statement { sql, values, .. } in &put.statements {
            if let Err(source) = steadfast_core::internal::outbox::execute(connection, sql, values) {
                return Err(failed(&engine, &put, source));
            }
        }
        Ok(Uncommitted::new(engine, put.accepted))
    }

    /// Checks the call, and makes it ready for the outbox.
    fn put(mut self, database: Database) -> Result<(Arc<Engine>, Put), Error> {
        self.check_parts(false);
        let engine = Arc::clone(&self.prepared.engine);
        let span = telemetry::call_span(&**engine.vendor, &self.prepared.request);
        let _entered = span.enter();
        if let Err(mistake) = check_is_on_record(&self.prepared.work) {
            self.note(mistake);
        }
        let mut prepared = self.prepared;
        prepared.check()?;
        let key = prepared.take_key()?;
        let due = prepared.due.map(|due| due.time(engine.wall()));
        let put = engine.put(&prepared.request, &prepared.work, (key, due), database)?;
        Ok((engine, put))
    }
}

/// The transaction did not take it.
fn failed(engine: &Engine, put: &Put, source: BoxError) -> Error {
    let doing = match why_not(&*source) {
        Some(WhyNot::Absent) => NO_OUTBOX,
        Some(WhyNot::Denied) => NO_RIGHT,
        None => WRITE,
    };
    let failed = Error::new(Kind::Store { doing }, Effect::None).with_source(source);
    engine.named_put(failed, &put.accepted)
}

const WRITE: &str = "write the call into the outbox";
const NO_RIGHT: &str =
    "write the call into the outbox, because the role lacks the right, which members of SCHEMA_app have";
const NO_OUTBOX: &str = "write the call, because this database has no outbox: the transaction must be in the store's own file or database";
