//! Sequences: see [`record::turn`](crate::operation::record::turn), and the migration for the tables.
//!
//! A change to an operation of a sequence calls [`operation_updated`] in the same transaction. The transaction locks the
//! sequence first, and the operation after that: [`Transaction::lock`] does both. A take locks operations alone, and
//! changes neither the holding nor the turn of a sequence. So the write that passes the turn on locks the
//! operation that has it: a concurrent take has committed by then, or skips it.
//!
//! A waiting operation has no `wake_ms`, so that it is not in the index of due operations.

use std::collections::BTreeSet;

use sha2::{Digest, Sha256};
use tokio_postgres::types::Type;

use steadfast_core::internal::store::{RowReader, read_place};
use steadfast_core::operation::record::{Claimed, Record, turn};
use steadfast_core::operation::{Key, OperationId};
use steadfast_core::store::StoreError;

use super::row::{Reader, Value};
use super::schema::Schema;
use super::transaction::Transaction;

/// SQL of a schema's sequences.
#[derive(Debug)]
pub(super) struct Statements {
    /// SQL that locks the sequences of these operations, and these slots. Parameters: scopes, keys, slots.
    pub(super) lock: String,
    /// SQL that reads the place of an operation. Parameters: scope, key.
    place: String,
    /// SQL of [`enter`].
    enter: String,
    /// SQL that removes the place of an operation that is in no sequence any more. Parameters: scope, key.
    leave: String,
    /// SQL that removes places. Parameters: scopes, keys. Returns the sequences, each with its account.
    remove: String,
    /// SQL that sets if the operations behind this one wait for it. Parameters: scope, key, true if they wait.
    hold: String,
    /// SQL that removes an operation from the due ones, unless it has the turn. Parameters: scope, key.
    wait: String,
    /// SQL that reads and locks the operation that has the turn. Parameters: account, sequence.
    turn: String,
    /// SQL that reads the first operation that holds a sequence. Parameters: account, sequence.
    first: String,
    /// SQL that revokes the turn. Parameters: scope, key.
    revoke_turn: String,
    /// SQL that grants the turn. Parameters: scope, key.
    grant_turn: String,
}

impl Statements {
    pub(super) fn of(schema: &Schema) -> Statements {
        // Found by name, without an index of times: see `move_operations`.
        let turn_of = |has: bool, wake: &str| {
            format!(
                "WITH own AS (UPDATE {schema}.sequenced SET turn = {has} WHERE scope = $1 AND key = $2) \
                 UPDATE {schema}.operation SET wake_ms = {wake} WHERE scope = $1 AND key = $2 AND phase + 0 = 2"
            )
        };
        Statements {
            lock: format!(
                "SELECT FROM {schema}.sequence_lock WHERE slot = ANY ($3) OR slot IN (SELECT m.slot \
                 FROM unnest($1, $2) AS n (scope, key) JOIN {schema}.sequenced m \
                 ON m.scope = n.scope AND m.key = n.key AND m.sequence IS NOT NULL) ORDER BY slot FOR UPDATE"
            ),
            place: format!("SELECT {} FROM (SELECT $1 AS scope, $2 AS key) AS r", place_of(schema)),
            enter: enter_statement(schema),
            leave: format!(
                "UPDATE {schema}.sequenced SET sequence = NULL, holds = false, turn = false \
                 WHERE scope = $1 AND key = $2"
            ),
            remove: format!(
                "DELETE FROM {schema}.sequenced m USING unnest($1, $2) AS n (scope, key) \
                 WHERE m.scope = n.scope AND m.key = n.key RETURNING m.account, m.sequence"
            ),
            hold: format!("UPDATE {schema}.sequenced SET holds = $3 WHERE scope = $1 AND key = $2"),
            wait: format!(
                "UPDATE {schema}.operation o SET wake_ms = NULL FROM {schema}.sequenced m WHERE o.scope = $1 \
                 AND o.key = $2 AND o.phase + 0 = 2 AND m.scope = $1 AND m.key = $2 AND NOT m.turn"
            ),
            turn: format!(
                "SELECT o.scope, o.key, o.phase, m.holds FROM {schema}.sequenced m JOIN {schema}.operation o \
                 ON o.scope = m.scope AND o.key = m.key WHERE m.account = $1 AND m.sequence = $2 AND m.turn \
                 FOR UPDATE OF o"
            ),
            first: format!(
                "SELECT scope, key FROM {schema}.sequenced WHERE account = $1 AND sequence = $2 AND holds \
                 ORDER BY position LIMIT 1"
            ),
            revoke_turn: turn_of(false, "NULL"),
            // Not from its due time: a take does not read the index that far back each time.
            grant_turn: turn_of(true, &format!("greatest(until_ms, {schema}.store_now())")),
        }
    }
}

/// Returns the SQL for a row that is new, or another life of its key. Its position is behind the last one, or
/// that of the operation of the same sequence that it supersedes. A copied row has its position.
fn enter_statement(schema: &Schema) -> String {
    format!(
        "INSERT INTO {schema}.sequenced (scope, key, account, sequence, slot, skips, position, holds, turn) \
         SELECT $1, $2, $3, $4, $5, $6, coalesce(nullif($7, 0), \
         (SELECT position FROM {schema}.sequenced WHERE scope = $1 AND key = $8 AND account = $3 AND sequence = $4), \
         (SELECT max(position) FROM {schema}.sequenced WHERE account = $3 AND sequence = $4) + 1, 1), false, false \
         ON CONFLICT (scope, key) DO UPDATE SET account = excluded.account, sequence = excluded.sequence, \
         slot = excluded.slot, skips = excluded.skips, position = excluded.position, holds = false, turn = false"
    )
}

/// Returns a column with an operation's place, null for most, as [`read_place`] reads it. For a statement with
/// the names of operations in `r`.
pub(super) fn place_of(schema: &Schema) -> String {
    format!(
        "(SELECT json_build_array(own.sequence, own.skips, own.position, ahead.scope, ahead.key, ahead.phase, \
         ahead.until_ms)::text FROM {schema}.sequenced own LEFT JOIN {schema}.sequenced other \
         ON other.account = own.account AND other.sequence = own.sequence AND other.turn \
         AND (other.scope, other.key) <> (own.scope, own.key) LEFT JOIN {schema}.operation ahead \
         ON ahead.scope = other.scope AND ahead.key = other.key \
         WHERE own.scope = r.scope AND own.key = r.key AND own.sequence IS NOT NULL)"
    )
}

/// Returns the row of `sequence_lock` for a sequence. All processes must compute the same row: this must never
/// change.
pub(super) fn slot_of(account: &str, sequence: &str) -> i16 {
    let hash = Sha256::digest(format!("{account}\0{sequence}"));
    let number = u16::from_be_bytes([hash[0], hash[1]]) % SLOTS;
    number.cast_signed()
}

/// Enters a new life of a key into its record's sequence, and removes it from that of the life before. The row
/// was just written.
pub(super) async fn enter(transaction: &Transaction, record: &Record) -> Result<(), StoreError> {
    let (doing, statements) = ("enter a sequence", &transaction.shared.statements.sequence);
    let Some(place) = record.sequence.as_deref() else { return Ok(()) };
    let (scope, key) = (record.id.scope.as_str(), record.id.key.as_str());
    let slot = slot_of(record.id.scope.account_path(), place.sequence.name());
    // An adopted operation enters another sequence than it was in.
    transaction.lock_slots((&[], &[]), &[slot]).await?;
    let predecessor = record.predecessor.as_ref().map(Key::as_str);
    let values: [Value<'_>; 8] = [
        (&scope, Type::TEXT),
        (&key, Type::TEXT),
        (&record.id.scope.account_path(), Type::TEXT),
        (&place.sequence.name(), Type::TEXT),
        (&slot, Type::INT2),
        (&place.sequence.skips_dead_letters(), Type::BOOL),
        (&i64::try_from(place.position).unwrap_or(i64::MAX), Type::INT8),
        (&predecessor, Type::TEXT),
    ];
    transaction.query(doing, &statements.enter, &values).await?;
    operation_updated(transaction, record).await
}

/// Enters another life of a key. The life before has ended, and holds nothing.
pub(super) async fn reenter(transaction: &Transaction, record: &Record) -> Result<(), StoreError> {
    if record.sequence.is_some() {
        return enter(transaction, record).await;
    }
    let statement = &transaction.shared.statements.sequence.leave;
    transaction.query("leave a sequence", statement, &OperationName::of(&record.id).values()).await.map(drop)
}

/// Updates the holding and the turn of a sequence, after the row of `record` was written.
pub(super) async fn operation_updated(transaction: &Transaction, record: &Record) -> Result<(), StoreError> {
    let Some(place) = record.sequence.as_deref() else { return Ok(()) };
    let (doing, statements) = ("pass the turn of a sequence", &transaction.shared.statements.sequence);
    let (account, sequence) = (record.id.scope.account_path(), place.sequence.name());
    let (name, holds) = (OperationName::of(&record.id), record.holds_sequence());
    let values = name.values();
    let [scope, key] = name.values();
    let held: [Value<'_>; 3] = [scope, key, (&holds, Type::BOOL)];
    // Sent at once, and carried out one after the other.
    tokio::try_join!(
        biased;
        transaction.query(doing, &statements.hold, &held),
        transaction.query(doing, &statements.wait, &values),
        pass_turn(transaction, account, sequence),
    )
    .map(drop)
}

/// Removes operations from their sequences.
pub(super) async fn leave(
    transaction: &Transaction,
    ids: impl IntoIterator<Item = &OperationId>,
) -> Result<(), StoreError> {
    let (scopes, keys): (Vec<&str>, Vec<&str>) =
        ids.into_iter().map(|id| (id.scope.as_str(), id.key.as_str())).unzip();
    let values: [Value<'_>; 2] = [(&scopes, Type::TEXT_ARRAY), (&keys, Type::TEXT_ARRAY)];
    let statement = &transaction.shared.statements.sequence.remove;
    let mut lines = BTreeSet::new();
    for row in transaction.query("leave sequences", statement, &values).await? {
        let mut from = Reader::of(&row);
        let (account, sequence): (String, Option<String>) = (from.next()?, from.next()?);
        lines.extend(sequence.map(|sequence| (account, sequence)));
    }
    for (account, sequence) in lines {
        pass_turn(transaction, &account, &sequence).await?;
    }
    Ok(())
}

/// Gives the turn to the first operation that holds the sequence.
async fn pass_turn(transaction: &Transaction, account: &str, sequence: &str) -> Result<(), StoreError> {
    let (doing, statements) = ("pass the turn of a sequence", &transaction.shared.statements.sequence);
    let line: [Value<'_>; 2] = [(&account, Type::TEXT), (&sequence, Type::TEXT)];
    let (current, first) = tokio::try_join!(
        biased;
        transaction.query(doing, &statements.turn, &line),
        transaction.query(doing, &statements.first, &line),
    )?;
    let (mut last, mut current_holds) = (None, None);
    if let Some(row) = current.first() {
        let mut from = Reader::of(row);
        let (id, phase) = (from.id()?, from.phase()?);
        current_holds = from.flag()?.then(|| (id.clone(), phase));
        last = Some(id);
    }
    let first = first.first().map(|row| Reader::of(row).id()).transpose()?;
    let next = turn(current_holds, first);
    if last == next {
        return Ok(());
    }
    // One at a time: a unique index allows a sequence one turn.
    if let Some(last) = last {
        transaction.query(doing, &statements.revoke_turn, &OperationName::of(&last).values()).await?;
    }
    if let Some(next) = next {
        transaction.query(doing, &statements.grant_turn, &OperationName::of(&next).values()).await?;
    }
    Ok(())
}

/// Adds the current place in the sequence to a claim's result.
pub(super) async fn with_place(
    transaction: &Transaction,
    mut claimed: Claimed,
) -> Result<Claimed, StoreError> {
    if let Claimed::Fresh(record) | Claimed::TakenOver(record) | Claimed::Freed(record) = &mut claimed
        && record.sequence.is_some()
    {
        let statement = &transaction.shared.statements.sequence.place;
        let rows = transaction
            .query("read a place in a sequence", statement, &OperationName::of(&record.id).values())
            .await?;
        record.sequence = read_place(&mut Reader::first(&rows)?)?;
    }
    Ok(claimed)
}

/// An operation's name, as values of a statement.
struct OperationName<'a>(&'a str, &'a str);

impl<'a> OperationName<'a> {
    fn of(id: &'a OperationId) -> OperationName<'a> {
        OperationName(id.scope.as_str(), id.key.as_str())
    }

    fn values(&self) -> [Value<'_>; 2] {
        [(&self.0, Type::TEXT), (&self.1, Type::TEXT)]
    }
}

/// Number of rows of `sequence_lock`.
const SLOTS: u16 = 1024;

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn a_sequence_keeps_its_slot_for_ever() {
        assert_eq!(slot_of("prod/stripe/acct_1", "customer-7"), 268);
        assert_ne!(slot_of("a/b", "c"), slot_of("a/bc", ""));
        let slots = (0..10_000).map(|nth| slot_of("a", &nth.to_string()));
        assert_eq!(slots.collect::<BTreeSet<_>>().len(), usize::from(SLOTS));
    }
}
