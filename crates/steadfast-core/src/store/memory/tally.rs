//! Counting all records.

use std::collections::BTreeMap;

use super::Inner;
use crate::clock::Timestamp;
use crate::operation::record::{Phase, Tally};

impl Inner {
    pub(super) fn tally(&self) -> Vec<Tally> {
        let mut groups: BTreeMap<(String, Phase), (u64, Timestamp)> = BTreeMap::new();
        for row in self.rows.values() {
            let record = &row.record;
            let group = (record.id.scope.vendor_path().to_owned(), record.phase());
            let (count, oldest) = groups.entry(group).or_insert((0, record.updated_at));
            *count += 1;
            *oldest = record.updated_at.min(*oldest);
        }
        let tally = |((vendor, phase), (count, oldest))| Tally { vendor, phase, count, oldest };
        groups.into_iter().map(tally).collect()
    }
}
