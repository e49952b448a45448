//! The place of a store: facts that distinguish a copy from the original, and that routine does not change.
//!
//! Two stores with the same records would each send what is due. A store notes its place within itself, and a copy
//! carries the note along. Each opening, and each connection, compares the note with what it finds.
//!
//! Only facts count that ordinary life leaves as they are. A device's number changes with a reboot, a path with a
//! rename, a host's name with a failover, a timeline too. Inode and birth time of a file do not, and neither do the
//! system identifier of a Postgres cluster and the oids of database and schema. If one side lacks such a fact, no
//! difference is reported: a false alarm stops a service, and is as bad as a miss.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::clock::Timestamp;
use crate::guard::Guard;
use crate::store::{StoreError, StoreErrorKind};

/// Facts about the place of a store, as its driver has found them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Facts {
    /// The system has no such facts, or the file system makes them up.
    #[default]
    Unknown,
    /// A file.
    File {
        /// Its number in its file system.
        inode: u64,
        /// Time at which it was made, in nanoseconds since the Unix epoch.
        born_ns: u64,
    },
    /// A schema in a database.
    Database {
        /// The cluster's identifier, which `initdb` draws; `None` where the server does not say.
        system: Option<String>,
        /// The database's oid.
        database: i64,
        /// The schema's oid.
        schema: i64,
    },
}

/// The place on record.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Noted {
    /// The facts when it was noted.
    pub facts: Facts,
    /// Time until which one announced move is expected: the next other place is taken for the store's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub moves_until_ms: Option<u64>,
    /// Last statement of a person, or a script, about the place; `None` without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub said: Option<String>,
}

/// The place on record beside what was found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// `None` where none was noted.
    pub noted: Option<Noted>,
    /// The facts now.
    pub found: Facts,
}

/// Consequence of the place for an opening.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Judged {
    /// The place is the same, or cannot be distinguished from it.
    Same,
    /// The place that was found is to be noted.
    Note(Noted),
    /// The place is another one, for this reason. Nothing may be taken, admitted or claimed.
    Displaced(String),
}

impl Place {
    /// Decides about the place that an opening or a connection has found. `now` is by the store's clock.
    ///
    /// `is_used` is whether anything is on record. It is asked for only where the places differ: an empty store that
    /// was copied is a template.
    ///
    /// # Errors
    ///
    /// Those of `is_used`.
    pub fn judge<E>(&self, now: Timestamp, is_used: impl FnOnce() -> Result<bool, E>) -> Result<Judged, E> {
        match self.difference() {
            Some(why) => Ok(self.judge_other(now, is_used()?, why)),
            None => Ok(self.judge_same()),
        }
    }

    /// Decides as [`judge`](Place::judge) does, if the places do not differ.
    fn judge_same(&self) -> Judged {
        match &self.noted {
            None if self.found != Facts::Unknown => Judged::Note(self.as_noted()),
            // What noted it last could not read as much.
            Some(noted) if noted.facts.lack(&self.found) => {
                Judged::Note(Noted { facts: self.found.clone(), ..noted.clone() })
            }
            _ => Judged::Same,
        }
    }

    /// Decides as [`judge`](Place::judge) does, if they differ, for this reason.
    pub fn judge_other(&self, now: Timestamp, is_used: bool, why: String) -> Judged {
        let announced = self.noted.as_ref().and_then(|noted| noted.moves_until_ms);
        if !is_used || announced.is_some_and(|until| now.as_millis() < until) || Guard::OwnPlace.is_out() {
            return Judged::Note(self.as_noted());
        }
        Judged::Displaced(why)
    }

    /// Returns the difference, for people; `None` if the places are the same or cannot be distinguished.
    pub fn difference(&self) -> Option<String> {
        let noted = &self.noted.as_ref()?.facts;
        match (noted, &self.found) {
            (Facts::File { .. }, Facts::File { .. }) if *noted != self.found => {
                Some(format!("the file is another one, {}; its records are from {noted}", self.found))
            }
            (
                Facts::Database { system, database, schema },
                Facts::Database { system: other_system, database: other, schema: other_schema },
            ) => {
                let is_other_system =
                    system.as_ref().zip(other_system.as_ref()).is_some_and(|(noted, found)| noted != found);
                let what = if is_other_system {
                    "server (system identifier)"
                } else if database != other {
                    "database (oid)"
                } else if schema != other_schema {
                    "schema (oid)"
                } else {
                    return None;
                };
                Some(format!("the {what} is another one, {}; its records are from {noted}", self.found))
            }
            _ => None,
        }
    }

    /// Returns the note of the place that was found. An announced move is used up.
    pub fn as_noted(&self) -> Noted {
        let said = self.noted.as_ref().and_then(|noted| noted.said.clone());
        Noted { facts: self.found.clone(), moves_until_ms: None, said }
    }
}

impl Facts {
    /// Whether they lack something that was found, of what may be the same place.
    fn lack(&self, found: &Facts) -> bool {
        match (self, found) {
            (Facts::Unknown, found) => *found != Facts::Unknown,
            (Facts::Database { system: None, .. }, Facts::Database { system, .. }) => system.is_some(),
            _ => false,
        }
    }
}

impl Noted {
    /// Encodes the note as one line of text, for a store's column.
    ///
    /// # Errors
    ///
    /// A [`StoreError`] if it cannot be written.
    pub fn to_text(&self) -> Result<String, StoreError> {
        serde_json::to_string(self)
            .map_err(|error| StoreError::with_source("the store's place cannot be written", error))
    }

    /// Decodes the text of [`to_text`](Noted::to_text).
    ///
    /// # Errors
    ///
    /// [`StoreErrorKind::Newer`] for what this release does not know.
    pub fn from_text(text: &str) -> Result<Noted, StoreError> {
        serde_json::from_str(text).map_err(|error| {
            StoreError::with_source("this release cannot read the store's place", error)
                .of_kind(StoreErrorKind::Newer)
        })
    }
}

impl fmt::Display for Facts {
    /// Writes the facts for people, such as `inode 7 of 2026-11-27T08:54:28Z`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Facts::Unknown => f.write_str("a place that cannot be told from others"),
            Facts::File { inode, born_ns } => {
                let born = std::time::UNIX_EPOCH + std::time::Duration::from_nanos(*born_ns);
                write!(f, "inode {inode}, made {}", httpdate::fmt_http_date(born))
            }
            Facts::Database { system, database, schema } => {
                if let Some(system) = system {
                    write!(f, "system {system}, ")?;
                }
                write!(f, "database {database}, schema {schema}")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: u64 = 1_000_000;

    fn file(inode: u64, born_ns: u64) -> Facts {
        Facts::File { inode, born_ns }
    }

    fn database(system: Option<&str>, database: i64, schema: i64) -> Facts {
        Facts::Database { system: system.map(str::to_owned), database, schema }
    }

    fn judged(noted: Option<Noted>, found: Facts, is_used: bool) -> &'static str {
        let place = Place { noted, found };
        let judged = place.judge(Timestamp::from_millis(NOW), || Ok::<_, ()>(is_used)).expect("is known");
        match judged {
            Judged::Same => "same",
            Judged::Note(noted) => {
                assert_eq!((noted.facts, noted.moves_until_ms), (place.found, None));
                "noted"
            }
            Judged::Displaced(why) if why.starts_with("the file is another") => "another file",
            Judged::Displaced(why) if why.starts_with("the server") => "another server",
            Judged::Displaced(why) if why.starts_with("the database") => "another database",
            Judged::Displaced(why) if why.starts_with("the schema") => "another schema",
            Judged::Displaced(why) => panic!("{why}"),
        }
    }

    /// Each case: its name, the place on record, the place found, and the decision for a store with records.
    #[test]
    fn a_copy_is_detected_and_routine_is_not_a_copy() {
        let unknown = || Facts::Unknown;
        for (what, noted, found, expected) in [
            // A reboot, another node, a rename, a VACUUM: neither device nor path is a fact.
            ("the same file", file(7, 5), file(7, 5), "same"),
            ("a copy beside it", file(7, 5), file(8, 9), "another file"),
            (
                "a copy on another volume, by chance under the same inode",
                file(7, 5),
                file(7, 9),
                "another file",
            ),
            ("a file made at the same moment", file(7, 5), file(8, 5), "another file"),
            ("to where the file system makes inodes up", file(7, 5), unknown(), "same"),
            ("from there, and noted now", unknown(), file(7, 5), "noted"),
            ("no side can tell", unknown(), unknown(), "same"),
            // A failover, a migration, a restart.
            ("the same schema", database(Some("1"), 2, 3), database(Some("1"), 2, 3), "same"),
            (
                "a logical restore, pg_upgrade",
                database(Some("1"), 2, 3),
                database(Some("9"), 2, 3),
                "another server",
            ),
            (
                "CREATE DATABASE .. TEMPLATE",
                database(Some("1"), 2, 3),
                database(Some("1"), 9, 3),
                "another database",
            ),
            (
                "a schema that was restored",
                database(Some("1"), 2, 3),
                database(Some("1"), 2, 9),
                "another schema",
            ),
            ("portable=on from now on", database(Some("1"), 2, 3), database(None, 2, 3), "same"),
            ("portable=on until now", database(None, 2, 3), database(Some("1"), 2, 3), "noted"),
            ("oids alone", database(None, 2, 3), database(None, 9, 3), "another database"),
        ] {
            let noted = Noted { facts: noted, ..Noted::default() };
            assert_eq!(judged(Some(noted.clone()), found.clone(), true), expected, "{what}");
            let unused = if expected == "same" { "same" } else { "noted" };
            assert_eq!(judged(Some(noted), found, false), unused, "{what}, as an empty template");
        }
        assert_eq!(judged(None, file(7, 5), true), "noted", "a store of before it noted its place");
        assert_eq!(judged(None, unknown(), true), "same");
    }

    #[test]
    fn one_announced_move_passes_until_its_time_is_over() {
        for (until, expected) in [(NOW + 1, "noted"), (NOW, "another file"), (NOW - 1, "another file")] {
            let noted = Noted { facts: file(7, 5), moves_until_ms: Some(until), said: None };
            assert_eq!(judged(Some(noted.clone()), file(8, 9), true), expected);
            assert_eq!(judged(Some(noted), file(7, 5), true), "same", "it has not moved yet");
        }
    }

    #[test]
    fn a_note_is_read_as_it_was_written() {
        for facts in [file(7, 5), database(Some("1"), 2, 3), database(None, 2, 3), Facts::Unknown] {
            let noted = Noted { facts, moves_until_ms: Some(3), said: Some("moved, by ada".to_owned()) };
            assert_eq!(Noted::from_text(&noted.to_text().expect("is text")).expect("is read"), noted);
        }
        assert_eq!(Noted::from_text("{}").unwrap_err().kind(), StoreErrorKind::Newer);
    }
}
