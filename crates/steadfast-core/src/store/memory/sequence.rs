//! Sequences: see [`record::turn`](crate::operation::record::turn).
//!
//! A record that waits for its turn is in no index by time, so that a take never walks through a line of them.

use std::collections::BTreeMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use super::Inner;
use super::ending::move_time;
use crate::operation::OperationId;
use crate::operation::record::{Ahead, Phase, Place, Record, turn};

/// A sequence's account and its name.
pub(super) type Name = (String, String);

/// A sequence, as long as any of its records is there.
#[derive(Default)]
pub(super) struct Line {
    /// Its records, ended ones included.
    members: usize,
    /// The highest position that any of them was given.
    last: u64,
    /// Operations that hold it, by position.
    holding: BTreeMap<u64, Arc<OperationId>>,
    /// The one whose turn it is.
    turn: Option<Arc<OperationId>>,
}

fn name_of(record: &Record) -> Option<Name> {
    let place = record.sequence.as_deref()?;
    Some((record.id.scope.account_path().to_owned(), place.sequence.name().to_owned()))
}

impl Inner {
    /// A record that is new joins the end of its sequence, or takes the place of the one that it starts over. A copied one
    /// has its position.
    pub(super) fn enter_sequence(&mut self, id: &Arc<OperationId>) {
        let Some(name) = self.rows.get(id).and_then(|row| name_of(&row.record)) else { return };
        let predecessor = self.rows.get(id).and_then(|row| row.record.predecessor.clone());
        let place = self.rows.get(id).and_then(|row| row.record.sequence.as_deref());
        let copied = place.map(|place| place.position).filter(|position| *position > 0);
        let predecessor = predecessor.map(|key| OperationId::new(id.scope.clone(), key));
        let inherited = predecessor.and_then(|old| {
            let old = &self.rows.get(&old)?.record;
            (name_of(old)? == name).then_some(old.sequence.as_deref()?.position)
        });
        let line = self.sequences.entry(name).or_default();
        line.members += 1;
        let position = copied.or(inherited).unwrap_or(line.last + 1);
        line.last = line.last.max(position);
        if let Some(place) = self.rows.get_mut(id).and_then(|row| row.record.sequence.as_deref_mut()) {
            place.position = position;
        }
        self.set_waits(id, true);
        self.moved_in_sequence(id);
    }

    /// A record of a sequence has moved: who holds the sequence, and whose turn it is.
    pub(super) fn moved_in_sequence(&mut self, id: &OperationId) {
        let Some(row) = self.rows.get(id) else { return };
        let Some((name, place)) = name_of(&row.record).zip(row.record.sequence.as_deref()) else { return };
        let Some(id) = self.order.get(&row.number).cloned() else { return };
        let (holds, position) = (row.record.holds_sequence(), place.position);
        let Some(line) = self.sequences.get_mut(&name) else { return };
        if holds {
            line.holding.insert(position, id);
        } else if line.holding.get(&position) == Some(&id) {
            line.holding.remove(&position);
        }
        self.pass_turn(&name);
    }

    /// A record of a sequence is gone.
    pub(super) fn leave_sequence(&mut self, record: &Record) {
        let Some((name, place)) = name_of(record).zip(record.sequence.as_deref()) else { return };
        let Entry::Occupied(mut entry) = self.sequences.entry(name.clone()) else { return };
        let line = entry.get_mut();
        line.members -= 1;
        if line.holding.get(&place.position).is_some_and(|id| **id == record.id) {
            line.holding.remove(&place.position);
        }
        if line.members == 0 {
            entry.remove();
        } else {
            self.pass_turn(&name);
        }
    }

    fn pass_turn(&mut self, name: &Name) {
        let Some(line) = self.sequences.get(name) else { return };
        let phase = |id: &Arc<OperationId>| {
            let row = self.rows.get(id)?;
            row.record.holds_sequence().then(|| (id.clone(), row.record.phase()))
        };
        let (current, first) = (line.turn.as_ref().and_then(phase), line.holding.values().next().cloned());
        let next = turn(current, first);
        if line.turn == next {
            return;
        }
        let last =
            self.sequences.get_mut(name).and_then(|line| std::mem::replace(&mut line.turn, next.clone()));
        if let Some(last) = last {
            self.set_waits(&last, true);
        }
        if let Some(next) = next {
            self.set_waits(&next, false);
        }
    }

    fn set_waits(&mut self, id: &OperationId, waits: bool) {
        let Some(row) = self.rows.get_mut(id) else { return };
        let before = row.ends();
        row.waits = waits;
        move_time(&mut self.ending, (row.number, id.scope.account_path()), before, row.ends());
    }

    /// Fills in the operation that has the turn in place of this record.
    pub(super) fn fill_place(&self, record: &mut Record) {
        let Some(name) = name_of(record) else { return };
        let Some(row) = self.rows.get(&record.id) else { return };
        let position = row.record.sequence.as_deref().map_or(0, |place| place.position);
        let ahead = self.sequences.get(&name).and_then(|line| line.turn.as_ref());
        let ahead = ahead.filter(|id| ***id != record.id).and_then(|id| self.rows.get(id));
        let behind = ahead.map(|row| {
            let record = &row.record;
            let open = matches!(record.phase(), Phase::InProgress | Phase::Scheduled);
            Ahead::new(record.id.clone(), record.phase(), record.until().filter(|_| open))
        });
        if let Some(place) = record.sequence.as_deref_mut() {
            *place = Place::new(place.sequence.clone(), position, behind);
        }
    }

    /// Returns a record that is in the store, filled as by [`fill_place`](Inner::fill_place).
    pub(super) fn placed(&self, mut record: Record) -> Record {
        self.fill_place(&mut record);
        record
    }
}

/// A record as it is kept: who has the turn is no part of it.
pub(super) fn without_turn(record: &mut Record) {
    if let Some(place) = record.sequence.as_deref_mut() {
        place.behind = None;
    }
}
