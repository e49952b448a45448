//! [`Migrated`]: what became of a schema.

/// What [`StoreUrl::migrate`](super::StoreUrl::migrate) did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Migrated {
    /// The schema's version before; 0 if there was none.
    pub from: u32,
    /// The schema's version now, which is this release's.
    pub to: u32,
}
