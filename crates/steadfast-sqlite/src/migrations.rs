//! The schema's versions.

/// The migrations, each applied once and in this order. A released one never changes.
pub(super) const MIGRATIONS: [&str; 1] = [include_str!("migrations/0020_first.sql")];

/// The version of a file to which the first of them was applied. Versions below it were never published.
pub(super) const FIRST_VERSION: i64 = 20;

/// The version of a file to which all of them were applied.
pub(super) const SCHEMA_VERSION: i64 = FIRST_VERSION - 1 + MIGRATIONS.len() as i64;
