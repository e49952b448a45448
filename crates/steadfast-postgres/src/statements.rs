//! SQL statements, with the names of one schema.
//!
//! None is prepared under a name, because a pooler in transaction mode gives sessions to other clients. Also, a
//! plan that was made for a small table is not kept after the table has grown. The statements of every call are
//! functions of the schema, whose plans a session keeps, and which do not depend on a table's size. Statements
//! over many rows take arrays as values.

use super::durability::MAY_LOSE_COMMITS;
use super::place::here;
use super::row::{self, BLOBS, Changes, OPERATION};
use super::schema::Schema;
use super::standing::CLOSED;
use super::{outbox, sequence};

/// Statements that are used often, or from several places.
#[derive(Debug)]
pub(super) struct Statements {
    /// See [`claim`](super::claim).
    pub(super) first_claim: String,
    /// See [`transition`](super::transition).
    pub(super) transition: String,
    /// See [`due`](super::due).
    pub(super) due: String,
    /// Reads one operation with the time, the time that the store believes, and a flag of a read-only server.
    /// Parameters: scope, key.
    pub(super) read: String,
    /// Locks operations, in the order of their names. Parameters: scopes, keys. Read the rest of their rows in
    /// a later statement.
    pub(super) lock: String,
    /// Reads the first claims of operations, and their blobs. Parameters: scopes, keys.
    pub(super) rest: String,
    /// Reads the time, the time that the store believes, the highest purged fence, the copy state if the store
    /// is closed, and [`MAY_LOSE_COMMITS`]. Writes nothing.
    pub(super) notes: String,
    /// Form of `notes` for a command, whose time the store records.
    pub(super) see: String,
    /// Updates operations. Parameters: [`Changes`].
    pub(super) update: String,
    /// Inserts an operation. Parameters: [`Changes`], then vendor and seal. Returns a row if the name was free.
    pub(super) insert: String,
    /// Inserts the request of a first claim; see [`write`](super::write).
    pub(super) insert_request: String,
    /// Replaces the request for another life of the key, with a new number.
    pub(super) replace_request: String,
    /// Adds to the log, and leaves the answer. Parameters: scope, key, reports.
    pub(super) append: String,
    /// Adds to the log, and sets the answer. Parameters: scope, key, reports, answer.
    pub(super) answer: String,
    /// Removes answers. Parameters: scopes, keys.
    pub(super) clear_answers: String,
    /// See [`write::append_audit`](super::write::append_audit).
    pub(super) audit: String,
    /// See [`purge`](super::purge).
    pub(super) purge: String,
    pub(super) sequence: sequence::Statements,
}

impl Statements {
    pub(super) fn of(schema: &Schema) -> Statements {
        let (request, here) = (row::request(schema), here(schema));
        Statements {
            first_claim: seeing(schema, &function(schema, "start_operations", 16)),
            transition: format!("SELECT * FROM {}", function(schema, "move_operations", 15)),
            due: format!(
                "SELECT h.here, f.* FROM {schema}.see_time() s, (SELECT {here} OFFSET 0) AS h (here), {schema}.take_due($1, \
                 $2, $3, $4, $5, CASE WHEN $11 <> h.here THEN 0 ELSE $6 END, $7, $8, $9, $10, $12) f"
            ),
            read: format!(
                "SELECT {schema}.store_now(), c.believed_ms, current_setting('transaction_read_only') = 'on', \
                 o.key IS NOT NULL, {OPERATION}, {request}, {BLOBS} FROM {schema}.clock c \
                 LEFT JOIN {schema}.operation o ON o.scope = $1 AND o.key = $2 \
                 LEFT JOIN {schema}.request r ON r.scope = o.scope AND r.key = o.key \
                 LEFT JOIN {schema}.outcome a ON a.scope = o.scope AND a.key = o.key WHERE c.sole"
            ),
            lock: format!(
                "SELECT {OPERATION} FROM unnest($1, $2) AS n (scope, key) JOIN {schema}.operation o \
                 ON o.scope = n.scope AND o.key = n.key ORDER BY o.scope, o.key FOR UPDATE OF o"
            ),
            rest: format!(
                "SELECT r.scope, r.key, {request}, {BLOBS} FROM unnest($1, $2) AS n (scope, key) \
                 JOIN {schema}.request r ON r.scope = n.scope AND r.key = n.key \
                 LEFT JOIN {schema}.outcome a ON a.scope = n.scope AND a.key = n.key"
            ),
            notes: format!(
                "SELECT {schema}.store_now(), c.believed_ms, p.purged_fence, {CLOSED}, {MAY_LOSE_COMMITS}, {here} \
                 FROM {schema}.store_state p, {schema}.clock c"
            ),
            see: format!(
                "SELECT s.now_ms, s.believed_ms, p.purged_fence, {CLOSED}, {MAY_LOSE_COMMITS}, {here} FROM {schema}.see_time() s, \
                 {schema}.store_state p"
            ),
            update: update(schema),
            insert: insert(schema),
            insert_request: format!(
                "INSERT INTO {schema}.request (scope, key, retention_ms, first_fence, fingerprint, wire_key, redact, \
                 predecessor, request) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)"
            ),
            replace_request: format!(
                "UPDATE {schema}.request SET number = DEFAULT, retention_ms = $3, first_fence = $4, \
                 fingerprint = $5, wire_key = $6, redact = $7, predecessor = $8, request = $9, first_scope = NULL \
                 WHERE scope = $1 AND key = $2"
            ),
            append: format!(
                "INSERT INTO {schema}.outcome AS a (scope, key, reports) VALUES ($1, $2, $3) \
                 ON CONFLICT (scope, key) DO UPDATE SET reports = a.reports || excluded.reports"
            ),
            answer: format!(
                "INSERT INTO {schema}.outcome AS a (scope, key, reports, answer) VALUES ($1, $2, $3, $4) ON CONFLICT \
                 (scope, key) DO UPDATE SET reports = a.reports || excluded.reports, answer = excluded.answer"
            ),
            clear_answers: format!(
                "UPDATE {schema}.outcome a SET answer = NULL FROM unnest($1, $2) AS n (scope, key) \
                 WHERE a.scope = n.scope AND a.key = n.key AND a.answer IS NOT NULL"
            ),
            audit: format!(
                "INSERT INTO {schema}.audit (scope, key, action, by, why, at_ms, before, after) \
                 VALUES ($1, $2, $3, $4, $5, $6, $7, $8)"
            ),
            purge: purge(schema),
            sequence: sequence::Statements::of(schema),
        }
    }
}

/// Returns a call of a function of the schema, whose plan a session keeps: see the migration.
fn function(schema: &Schema, name: &str, arguments: usize) -> String {
    let places: Vec<String> = (1..=arguments).map(|nth| format!("${nth}")).collect();
    format!("{schema}.{name}({})", places.join(", "))
}

/// Returns a statement with a function's rows that also records the time.
fn seeing(schema: &Schema, function: &str) -> String {
    format!("SELECT f.* FROM {schema}.see_time() s, {function} f")
}

fn update(schema: &Schema) -> String {
    let (names, places) = (Changes::NAMES, Changes::PLACES);
    format!(
        "UPDATE {schema}.operation o SET phase = c.phase::smallint, until_ms = c.until_ms, wake_ms = c.until_ms, \
         fence = c.fence, attempts = c.attempts, effect = c.effect::smallint, claimed_at_ms = c.claimed_at_ms, \
         updated_at_ms = c.updated_at_ms, on_unknown = c.on_unknown::smallint, detail = c.detail::smallint, \
         status = c.status::smallint, resolved = c.resolved, unknown_since_ms = c.unknown_since_ms, \
         lookups = c.lookups, resends_left = c.resends_left, attempt_max_ms = c.attempt_max_ms, \
         vendor_clock_ms = c.vendor_clock_ms, holder = c.holder FROM unnest({places}) AS c ({names}) \
         WHERE o.scope = c.scope AND o.key = c.key"
    )
}

fn insert(schema: &Schema) -> String {
    let (names, places) = (Changes::NAMES, Changes::PLACES);
    format!(
        "INSERT INTO {schema}.operation ({names}, wake_ms, vendor, seal) SELECT scope, key, phase::smallint, until_ms, \
         fence, attempts, effect::smallint, claimed_at_ms, updated_at_ms, on_unknown::smallint, detail::smallint, \
         status::smallint, resolved, unknown_since_ms, lookups, resends_left, attempt_max_ms, vendor_clock_ms, holder, \
         until_ms, $20, $21 FROM unnest({places}) AS c ({names}) ON CONFLICT (scope, key) DO NOTHING RETURNING 1"
    )
}

/// Returns the purge's SQL. Parameters: the lower bound, and the limit. The fence is recorded and the rows are
/// removed in one commit, and only where the store is open. An ended operation holds no sequence, so its
/// removal gives no operation the turn.
///
/// An outbox row protects the record of its key, and an uncommitted row cannot be seen. So while any
/// transaction has written to the outbox, a record that expired within [`WRITERS_HAVE_MS`] stays.
fn purge(schema: &Schema) -> String {
    let names_gone = |table: &str| {
        format!("DELETE FROM {schema}.{table} t USING gone g WHERE t.scope = g.scope AND t.key = g.key")
    };
    let is_written_to = format!(
        "EXISTS (SELECT FROM pg_catalog.pg_locks l WHERE l.relation = '{schema}.outbox'::regclass \
         AND l.database = (SELECT d.oid FROM pg_catalog.pg_database d WHERE d.datname = current_database()) \
         AND l.mode = 'RowExclusiveLock')"
    );
    format!(
        "WITH seen AS MATERIALIZED (SELECT now_ms, least(now_ms, believed_ms) \
         - CASE WHEN {is_written_to} THEN {WRITERS_HAVE_MS} ELSE 0 END AS believed_ms FROM {schema}.see_time()), \
         expired AS MATERIALIZED (SELECT scope, key FROM {schema}.operation o WHERE phase > 2 \
         AND (SELECT stage FROM {schema}.store_state) = 0 AND wake_ms >= $1 AND wake_ms <= (SELECT believed_ms FROM seen) AND {} ORDER BY wake_ms LIMIT $2 \
         FOR UPDATE SKIP LOCKED), \
         gone AS (DELETE FROM {schema}.operation o USING expired e WHERE o.scope = e.scope AND o.key = e.key \
         RETURNING o.scope, o.key, o.fence, o.wake_ms), \
         highest AS (SELECT fence FROM gone ORDER BY fence DESC LIMIT 1), \
         noted AS (UPDATE {schema}.store_state p SET purged_fence = h.fence FROM highest h WHERE p.purged_fence < h.fence), \
         requests AS ({}), outcomes AS ({}), places AS ({}) SELECT count(*), max(wake_ms), \
         (SELECT now_ms FROM seen), (SELECT believed_ms FROM seen), (SELECT {CLOSED} FROM {schema}.store_state p) FROM gone",
        outbox::not_spared(schema),
        names_gone("request"),
        names_gone("outcome"),
        names_gone("sequenced")
    )
}

/// Time for which a transaction may stay open after it has enqueued a call: an hour. If it commits later, and
/// the record of its key has expired meanwhile, its call is a new one.
const WRITERS_HAVE_MS: u64 = 3_600_000;

/// Maximum error of the holder's idea of the server's time. The error is the delay of one answer, and no rule
/// of the state machine depends on so short a time: its limits are minutes.
pub(super) const SKEW_MAX_MS: u64 = 30_000;

#[cfg(test)]
mod tests {
    use super::SKEW_MAX_MS;

    #[test]
    fn the_schema_and_the_program_allow_the_same_clock_skew() {
        let allowed = format!("BETWEEN -{SKEW_MAX_MS} AND {SKEW_MAX_MS}");
        assert!(include_str!("migrations/0020_first.sql").contains(&allowed), "{allowed}");
    }
}
