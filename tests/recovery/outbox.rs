//! The transactional outbox on SQLite: a business row and a vendor call commit or vanish together.

mod admission;
mod age;
mod bench;
mod busy;
mod copying;
mod dispatching;
mod from_sql;
mod same_request;
mod sealed;
mod sequences;
#[cfg(feature = "sqlx-sqlite")]
mod sqlx;
mod transactions;
