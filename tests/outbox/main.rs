//! The transactional outbox on SQLite: a business row and a vendor call commit or vanish together.

mod admission;
mod age;
mod bench;
mod busy;
#[path = "../hosts/commands.rs"]
#[allow(dead_code, reason = "shared with tests that use the rest of it")]
mod commands;
mod copying;
mod dispatching;
mod from_sql;
#[path = "../hosts/rig.rs"]
#[allow(dead_code, reason = "shared with tests that use the rest of it")]
mod rig;
mod same_request;
mod sealed;
mod sequences;
#[cfg(feature = "sqlx-sqlite")]
mod sqlx;
mod transactions;
