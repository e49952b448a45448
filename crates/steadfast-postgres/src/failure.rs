//! Store errors from Postgres' errors.
//!
//! One question decides about a vendor call: is it certain that nothing was written? An *error* of the server
//! has undone its transaction, so it is certain. After a broken connection it is not: the commit may have been
//! the last thing that the server did. So every `FATAL`, and every end without an answer, is
//! [`Lost`](StoreErrorKind::Lost).
//!
//! Severity, code and text of the server's error are kept. Its detail is not: it quotes rows, and a row holds a
//! request.

use std::{fmt, io};

use tokio_postgres::Error;
use tokio_postgres::error::{DbError, Severity};

use steadfast_core::store::{StoreError, StoreErrorKind};

/// Returns the error of a statement that failed; `doing` names its purpose.
#[allow(clippy::needless_pass_by_value, reason = "it stands in map_err")]
pub(super) fn failure(doing: &'static str, error: Error) -> StoreError {
    let Some(server_error) = error.as_db_error().map(ServerError::from) else {
        let problem = format!("Postgres could not {doing}: {}", advice(StoreErrorKind::Lost));
        return StoreError::with_source(problem, causes(&error)).of_kind(StoreErrorKind::Lost);
    };
    let kind = server_error.kind();
    let advice = if server_error.code == NO_RIGHT { NEEDS_A_RIGHT } else { advice(kind) };
    let problem = format!("Postgres could not {doing}: {advice}");
    StoreError::with_source(problem, server_error).of_kind(kind)
}

/// Returns the error of a server that did not answer in time.
pub(super) fn silent(doing: &'static str) -> StoreError {
    let problem = format!("Postgres did not {doing} in time: {}", advice(StoreErrorKind::Lost));
    StoreError::new(problem).of_kind(StoreErrorKind::Lost)
}

/// Returns the error of a read-only server that is asked about an operation whose claim it could not take.
pub(super) fn read_only(doing: &'static str) -> StoreError {
    let problem = format!("Postgres could not {doing}: {}", advice(StoreErrorKind::ReadOnly));
    StoreError::new(problem).of_kind(StoreErrorKind::ReadOnly)
}

/// Returns the error of a connection to `place` that failed.
#[allow(clippy::needless_pass_by_value, reason = "it stands in map_err")]
pub(super) fn no_connection(place: &str, error: Error) -> StoreError {
    let Some(server_error) = error.as_db_error().map(ServerError::from) else {
        // The driver has no type for these, and no address or password in these texts.
        let kind = match error.to_string().as_str() {
            "authentication error" | "invalid configuration" => StoreErrorKind::Denied,
            "error performing TLS handshake" if !is_broken(&error) => StoreErrorKind::Untrusted,
            _ => StoreErrorKind::Unreachable,
        };
        let causes = causes(&error);
        let advice = if causes.contains("password missing") { NO_PASSWORD } else { advice(kind) };
        let problem = format!("no connection to Postgres at {place}: {advice}");
        return StoreError::with_source(problem, causes).of_kind(kind);
    };
    let kind = match server_error.kind() {
        // No statement was on its way: that connection is not lost, there was none.
        StoreErrorKind::Lost | StoreErrorKind::Other => StoreErrorKind::Unreachable,
        kind => kind,
    };
    let problem = format!("no connection to Postgres at {place}: {}", advice(kind));
    StoreError::with_source(problem, server_error).of_kind(kind)
}

/// Returns the error and all its causes in one text: several callers get the same failure, and each of them
/// needs the last cause.
fn causes(error: &Error) -> String {
    let first = std::error::Error::source(error);
    let all = std::iter::successors(first, |error| error.source());
    all.fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}

/// Returns true if the handshake ended because the connection did. A certificate that is refused gives
/// `InvalidData`, and a server without TLS gives no I/O error.
fn is_broken(error: &Error) -> bool {
    let source = std::error::Error::source(error).and_then(|source| source.downcast_ref::<io::Error>());
    source.is_some_and(|source| source.kind() != io::ErrorKind::InvalidData)
}

/// Returns the problem of a kind, and what to do about it.
pub(super) fn advice(kind: StoreErrorKind) -> &'static str {
    match kind {
        StoreErrorKind::Absent => {
            "the database, the schema or a table is not there; create the database, and run `steadfast migrate`"
        }
        StoreErrorKind::Busy => {
            "no connection was free in time; raise the server's or the pooler's limit, or use fewer connections"
        }
        StoreErrorKind::Corrupt => "the server's files are damaged; check its log",
        StoreErrorKind::Denied => {
            "the server refused the user; check name and password, the right to connect to the database, and pg_hba.conf"
        }
        StoreErrorKind::Full => "the server has no room left on its disk",
        StoreErrorKind::Invalid => {
            "the server cannot store or index a value; shorten the value, or change its characters"
        }
        StoreErrorKind::Locked => "another transaction held a lock for too long; retry",
        StoreErrorKind::Lost => {
            "the connection broke before the answer came; the write may be on record or not"
        }
        StoreErrorKind::Older => "the schema is not what this release needs; run `steadfast migrate`",
        StoreErrorKind::ReadOnly => {
            "the server, or the role (default_transaction_read_only), may only read; name the primary, or add \
             target_session_attrs=read-write"
        }
        StoreErrorKind::Sealed => "give each process of the service its key",
        StoreErrorKind::TimedOut => "the statement took too long and was rolled back; retry",
        StoreErrorKind::Unreachable => {
            "no server answers there; check host and port, and whether the server runs"
        }
        StoreErrorKind::Untrusted => {
            "its certificate does not satisfy `sslmode`; check the certificate, and name its root with sslrootcert"
        }
        StoreErrorKind::Unsupported => "the server cannot do this; is it Postgres 13 or newer?",
        _ => "the server refused the statement",
    }
}

/// `insufficient_privilege`.
const NO_RIGHT: &str = "42501";

const NEEDS_A_RIGHT: &str = "the role lacks the right; make it a member of a role that has it, such as SCHEMA_dispatcher (`steadfast \
                             migrate --roles` makes those, as a superuser or with CREATEROLE)";

/// Returns true if the server asked for a password, and there was none.
pub(super) fn lacks_password(error: &StoreError) -> bool {
    error.to_string().contains(NO_PASSWORD)
}

const NO_PASSWORD: &str =
    "the server asks for a password, and none was given; set PGPASSWORD, or name a passfile";

/// The server's error, without its detail.
#[derive(Debug)]
struct ServerError {
    severity: String,
    is_fatal: bool,
    code: String,
    text: String,
}

impl ServerError {
    fn kind(&self) -> StoreErrorKind {
        kind(&self.code, self.is_fatal, &self.text)
    }
}

impl From<&DbError> for ServerError {
    fn from(error: &DbError) -> ServerError {
        let is_fatal = match error.parsed_severity() {
            Some(severity) => matches!(severity, Severity::Fatal | Severity::Panic),
            // Before Postgres 9.6, and from poolers: the server's severity may be translated, but a pooler's is
            // not.
            None => matches!(error.severity(), "FATAL" | "PANIC"),
        };
        ServerError {
            severity: error.severity().to_owned(),
            is_fatal,
            code: error.code().code().to_owned(),
            text: error.message().to_owned(),
        }
    }
}

impl fmt::Display for ServerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}: {}", self.severity, self.code, self.text)
    }
}

impl std::error::Error for ServerError {}

/// Returns the kind of an SQLSTATE (<https://www.postgresql.org/docs/current/errcodes-appendix.html>).
fn kind(code: &str, is_fatal: bool, text: &str) -> StoreErrorKind {
    match code {
        // The server ends with this session, perhaps after the commit was in its log: a log that could not grow.
        "53000" | "53100" | "53200" | "53400" if is_fatal => StoreErrorKind::Lost,
        // A read-only transaction: a replica, or `default_transaction_read_only`.
        "25006" => StoreErrorKind::ReadOnly,
        // No such database, schema, table, function.
        "3D000" | "3F000" | "42P01" | "42883" => StoreErrorKind::Absent,
        // No such column, or two that are the same: a schema of another release.
        "42703" | "42702" => StoreErrorKind::Older,
        // No right; no such user, no entry in pg_hba.conf; a wrong password.
        NO_RIGHT | "28000" | "28P01" => StoreErrorKind::Denied,
        "53100" => StoreErrorKind::Full,
        // Resources, memory, connections, a limit of the configuration.
        "53000" | "53200" | "53300" | "53400" => StoreErrorKind::Busy,
        // Rollback, serialization, deadlock, lock not available, object in use.
        "40000" | "40001" | "40P01" | "55P03" | "55006" => StoreErrorKind::Locked,
        // Cancelled, by `statement_timeout` or by the store: before the commit, or it would not be an error.
        "57014" => StoreErrorKind::TimedOut,
        // Starting up, shutting down or recovering: it takes no connections.
        "57P03" => StoreErrorKind::Unreachable,
        // A duplicate comes from another transaction.
        "23505" => StoreErrorKind::Other,
        // The row itself: its data, a constraint, more than the server can hold or index. A retry fails too.
        _ if !is_fatal && ["22", "23", "54"].iter().any(|class| code.starts_with(class)) => {
            StoreErrorKind::Invalid
        }
        // It is not known if the transaction was committed.
        "40003" | "08007" => StoreErrorKind::Lost,
        "0A000" => StoreErrorKind::Unsupported,
        "XX001" | "XX002" => StoreErrorKind::Corrupt,
        // Raised by the schema: a process without a key writes to a sealed store.
        "ST001" => StoreErrorKind::Sealed,
        "08P01" => kind_by_pooler(text),
        _ if is_fatal || code.starts_with("08") => StoreErrorKind::Lost,
        _ => StoreErrorKind::Other,
    }
}

/// Returns the kind by the text: PgBouncer has one code for all errors of its own (`src/client.c`,
/// `src/objects.c`, 1.18).
fn kind_by_pooler(text: &str) -> StoreErrorKind {
    let contains_any = |what: &[&str]| what.iter().any(|what| text.contains(what));
    if contains_any(&["query_wait_timeout", "no more connections allowed"]) {
        StoreErrorKind::Busy
    } else if contains_any(&[
        "server login",
        "login failed",
        "cannot connect to server",
        "client_login_timeout",
    ]) {
        StoreErrorKind::Unreachable
    } else if contains_any(&["no such user", "password authentication failed", "auth failed"]) {
        StoreErrorKind::Denied
    } else if contains_any(&["no such database", "does not exist"]) {
        StoreErrorKind::Absent
    } else {
        StoreErrorKind::Lost
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_code_has_its_kind() {
        for (code, is_fatal, text, expected) in [
            ("25006", false, "", StoreErrorKind::ReadOnly),
            ("3D000", true, "", StoreErrorKind::Absent),
            ("3F000", false, "", StoreErrorKind::Absent),
            ("42P01", false, "", StoreErrorKind::Absent),
            ("42883", false, "", StoreErrorKind::Absent),
            ("42703", false, "", StoreErrorKind::Older),
            ("42501", false, "", StoreErrorKind::Denied),
            ("28000", true, "", StoreErrorKind::Denied),
            ("28P01", true, "", StoreErrorKind::Denied),
            ("53100", false, "", StoreErrorKind::Full),
            ("53100", true, "", StoreErrorKind::Lost),
            ("53200", false, "", StoreErrorKind::Busy),
            ("53200", true, "", StoreErrorKind::Lost),
            ("53300", true, "", StoreErrorKind::Busy),
            ("40001", false, "", StoreErrorKind::Locked),
            ("40P01", false, "", StoreErrorKind::Locked),
            ("55P03", false, "", StoreErrorKind::Locked),
            ("57014", false, "", StoreErrorKind::TimedOut),
            ("57P01", true, "", StoreErrorKind::Lost),
            ("57P02", true, "", StoreErrorKind::Lost),
            ("57P03", true, "", StoreErrorKind::Unreachable),
            ("25P03", true, "", StoreErrorKind::Lost),
            ("40003", false, "", StoreErrorKind::Lost),
            ("08007", false, "", StoreErrorKind::Lost),
            ("08006", false, "", StoreErrorKind::Lost),
            ("0A000", false, "", StoreErrorKind::Unsupported),
            ("XX001", false, "", StoreErrorKind::Corrupt),
            ("XX000", true, "", StoreErrorKind::Lost),
            ("XX000", false, "", StoreErrorKind::Other),
            ("23505", false, "", StoreErrorKind::Other),
            ("22021", false, "", StoreErrorKind::Invalid),
            ("22P05", false, "", StoreErrorKind::Invalid),
            ("23514", false, "", StoreErrorKind::Invalid),
            ("54000", false, "", StoreErrorKind::Invalid),
            ("54000", true, "", StoreErrorKind::Lost),
            ("08P01", true, "query_wait_timeout", StoreErrorKind::Busy),
            ("08P01", true, "no more connections allowed (max_client_conn)", StoreErrorKind::Busy),
            ("08P01", true, "server login has been failing, try again later", StoreErrorKind::Unreachable),
            ("08P01", true, "no such user: x", StoreErrorKind::Denied),
            ("08P01", true, "server conn crashed?", StoreErrorKind::Lost),
        ] {
            assert_eq!(kind(code, is_fatal, text), expected, "{code} {text}");
        }
    }
}
