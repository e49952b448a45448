//! The reason for which a database did not take a row of the outbox, as far as its driver gives a code for it.

use std::error::Error as StdError;

/// Reason that the caller can act on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WhyNot {
    /// The database has no outbox.
    Absent,
    /// The role may not write to it.
    Denied,
}

/// `None` if it is another reason, or the error of a driver that this crate does not know.
pub fn why_not(error: &(dyn StdError + 'static)) -> Option<WhyNot> {
    let mut next = Some(error);
    while let Some(error) = next {
        if is_no_such_table(error) {
            return Some(WhyNot::Absent);
        }
        if let Some(code) = sqlstate(error) {
            return by_sqlstate(&code);
        }
        next = error.source();
    }
    None
}

/// The codes are Postgres's (manual, appendix A): an undefined function, an invalid schema name, a privilege that
/// lacks.
fn by_sqlstate(code: &str) -> Option<WhyNot> {
    match code {
        "42883" | "3F000" => Some(WhyNot::Absent),
        "42501" => Some(WhyNot::Denied),
        _ => None,
    }
}

fn sqlstate(error: &(dyn StdError + 'static)) -> Option<String> {
    #[cfg(feature = "postgres")]
    if let Some(code) = error.downcast_ref::<tokio_postgres::Error>().and_then(|error| error.code()) {
        return Some(code.code().to_owned());
    }
    #[cfg(feature = "sqlx-postgres")]
    if let Some(error) = error.downcast_ref::<sqlx::Error>().and_then(|error| error.as_database_error()) {
        return error.code().map(Into::into);
    }
    let _ = error;
    None
}

/// Returns true if the table is missing; SQLite has one code for each mistake in a statement. Only its text
/// distinguishes them.
fn is_no_such_table(error: &(dyn StdError + 'static)) -> bool {
    error.to_string().contains("no such table: steadfast_outbox")
}
