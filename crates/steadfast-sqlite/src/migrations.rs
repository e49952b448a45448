//! The schema's versions.

/// The migrations, each applied once and in this order. A released one never changes.
pub(super) const MIGRATIONS: [&str; 19] = [
    include_str!("migrations/0001_operations.sql"),
    include_str!("migrations/0002_seal.sql"),
    include_str!("migrations/0003_reports.sql"),
    include_str!("migrations/0004_lives.sql"),
    include_str!("migrations/0005_names.sql"),
    include_str!("migrations/0006_time.sql"),
    include_str!("migrations/0007_secrets.sql"),
    include_str!("migrations/0008_standing.sql"),
    include_str!("migrations/0009_sequences.sql"),
    include_str!("migrations/0010_outbox.sql"),
    include_str!("migrations/0011_heartbeats.sql"),
    include_str!("migrations/0012_tenants.sql"),
    include_str!("migrations/0013_outbox_keys.sql"),
    include_str!("migrations/0014_outbox_holding.sql"),
    include_str!("migrations/0015_place.sql"),
    include_str!("migrations/0016_outbox_spares.sql"),
    include_str!("migrations/0017_waits.sql"),
    include_str!("migrations/0018_outbox_choice.sql"),
    include_str!("migrations/0019_holder.sql"),
];

/// The version of a file to which all of them were applied.
pub(super) const SCHEMA_VERSION: i64 = MIGRATIONS.len() as i64;
