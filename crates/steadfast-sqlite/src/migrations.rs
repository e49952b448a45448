//! Versions of the schema.

/// Migrations, each applied once and in this order. A released one never changes.
pub(super) const MIGRATIONS: [&str; 1] = [include_str!("migrations/0020_first.sql")];

/// Version of a file after the first migration. Versions below it were never published.
pub(super) const FIRST_VERSION: i64 = 20;

/// Version of a file after all migrations.
pub(super) const SCHEMA_VERSION: i64 = FIRST_VERSION - 1 + MIGRATIONS.len() as i64;
