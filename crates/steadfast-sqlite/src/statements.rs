//! SQL that writes rows.

pub(super) const INSERT: &str = "INSERT INTO operation (scope, key, vendor, fingerprint, wire_key, phase, until_ms, fence, \
     attempts, effect, claimed_at_ms, updated_at_ms, retention_ms, on_unknown, request, redact, first_fence, \
     resends_left, attempt_max_ms, vendor_clock_ms, predecessor, holder) \
     VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?8, ?17, ?18, ?19, ?20, ?21) \
     ON CONFLICT (scope, key) DO NOTHING";

pub(super) const UPDATE_KEEPING_ANSWER: &str = "UPDATE operation SET phase = ?2, until_ms = ?3, fence = ?4, attempts = ?5, \
     effect = ?6, claimed_at_ms = ?7, updated_at_ms = ?8, on_unknown = ?9, detail = ?10, status = ?11, \
     resolved = ?12, unknown_since_ms = ?13, lookups = ?14, resends_left = ?15, attempt_max_ms = ?16, \
     vendor_clock_ms = ?17, holder = ?18 WHERE number = ?1";

pub(super) const UPDATE: &str = "UPDATE operation SET phase = ?2, until_ms = ?3, fence = ?4, attempts = ?5, \
     effect = ?6, claimed_at_ms = ?7, updated_at_ms = ?8, on_unknown = ?9, detail = ?10, status = ?11, \
     resolved = ?12, unknown_since_ms = ?13, lookups = ?14, resends_left = ?15, attempt_max_ms = ?16, \
     vendor_clock_ms = ?17, holder = ?18, answer = ?19 WHERE number = ?1";

/// Sets the columns that a holder's transition can change. The phase is that of
/// [`Phase::InProgress`](crate::operation::record::Phase::InProgress).
pub(super) const UPDATE_HELD: &str = "UPDATE operation SET phase = ?4, until_ms = ?5, attempts = ?6, effect = ?7, \
     updated_at_ms = ?8, detail = ?9, status = ?10, resolved = NULL, answer = ?11, \
     reports = reports || ?12, claimed_at_ms = ?13, unknown_since_ms = ?14, lookups = ?15, resends_left = ?16 \
     WHERE scope = ?1 AND key = ?2 AND fence = ?3 AND phase = 1";

pub(super) const APPEND: &str = "UPDATE operation SET reports = reports || ?3 WHERE scope = ?1 AND key = ?2";

/// Copies a row under another name. Blobs are sealed for a name, so they are passed anew.
pub(super) const COPY: &str = "INSERT INTO operation (scope, vendor, request, answer, first_fence, first_scope, \
     key, fingerprint, wire_key, phase, until_ms, fence, attempts, effect, claimed_at_ms, updated_at_ms, retention_ms, \
     on_unknown, detail, status, resolved, redact, reports, unknown_since_ms, lookups, resends_left, \
     attempt_max_ms, vendor_clock_ms, predecessor, holder) \
     SELECT ?2, ?3, ?4, ?5, ?6, ?7, \
     key, fingerprint, wire_key, phase, until_ms, fence, attempts, effect, claimed_at_ms, updated_at_ms, retention_ms, \
     on_unknown, detail, status, resolved, redact, reports, unknown_since_ms, lookups, resends_left, \
     attempt_max_ms, vendor_clock_ms, predecessor, holder FROM operation WHERE number = ?1";
