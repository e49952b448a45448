//! Counting all records.

use std::collections::BTreeMap;

use super::Inner;
use crate::clock::Timestamp;
use crate::operation::record::{Phase, Tally};

impl Inner {
    pub(super) fn tally(&self) -> Vec<Tally> {
        let mut groups: BTreeMap<(String, Phase), (u64, Timestamp, u64)> = BTreeMap::new();
        for row in self.rows.values() {
            let record = &row.record;
            let group = (record.id.scope.vendor_path().to_owned(), record.phase());
            let (count, oldest, secrets) = groups.entry(group).or_insert((0, record.updated_at, 0));
            *count += 1;
            *secrets += u64::from(row.holds_secrets());
            *oldest = record.updated_at.min(*oldest);
        }
        let tally =
            |((vendor, phase), (count, oldest, secrets))| Tally { vendor, phase, count, oldest, secrets };
        groups.into_iter().map(tally).collect()
    }
}
