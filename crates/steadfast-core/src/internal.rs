//! Items for the crates of this workspace alone, beyond the public interface. They may change with any version.

pub mod attempt {
    pub use crate::attempt::{LOOKUP, millis, report};
}

pub mod clock {
    pub use crate::clock::monotonic::Monotonic;
}

pub mod decision {
    pub use crate::decision::*;
}

pub mod error {
    pub use crate::error::context::{Context, Origin};
    pub use crate::error::invalid::{Field, Invalid, Segment, field};
    pub use crate::error::words::{ADMIT_ROW, Chain};
    pub use crate::error::{BoxError, Broken, Kind, Step};
}

pub mod guard {
    pub use crate::guard::{Guard, inherited};
}

pub mod operation {
    pub use crate::operation::fingerprint::Unstamped;
    pub use crate::operation::record::form::{name, resolution, summary};
    pub use crate::operation::record::resend::{
        Facts, Lookup, Repeat, Ruling, Sent, Why, Window, may_send, slack, window,
    };
    pub use crate::operation::record::successor::BY_SERVICE;
    pub use crate::operation::record::wanted::Waits;
    pub use crate::operation::redact::REDACTED;
    pub use crate::operation::secret::{SECRET_HEADERS, is_secret};
}

pub mod outbox {
    #[cfg(feature = "sqlite")]
    pub use crate::outbox::by_rusqlite::execute;
    pub use crate::outbox::why_not::{WhyNot, why_not};
}

pub mod policy {
    pub use crate::policy::breaker::Breaker;
    pub use crate::policy::budget::Budget;
    pub use crate::policy::circuits::{Circuits, OpenRoute};
    pub use crate::policy::credentials::HeldAccount;
    pub use crate::policy::gates::lent::Lent;
    pub use crate::policy::gates::{Admission, Gates, Outcome, Refusal};
    pub use crate::policy::limits::RETENTION;
    pub use crate::policy::pause::Pause;
    pub use crate::policy::rate::Rate;
    pub use crate::policy::recovery::part::Part;
    pub use crate::policy::recovery::{Recovery, Sign};
    pub use crate::policy::turns::Waiting;
}

pub mod random {
    pub use crate::random::SystemRandom;
}

pub mod request {
    pub use crate::request::is_of_the_connection;
}

pub mod store {
    pub use crate::store::backlog::{Backlog, LATE, Queue, queues};
    pub use crate::store::capability::{maintenance_of, outbox_of};
    pub use crate::store::columns::{Columns, redacted};
    pub use crate::store::delivery::{Delivery, Version};
    pub use crate::store::error::wrote_nothing;
    pub use crate::store::filters::Dialect;
    pub use crate::store::footing::Mount;
    pub use crate::store::heartbeat::{Beat, Heartbeat, Peer};
    pub use crate::store::look::{FAR_MAX, Look, Sight, Waiting};
    pub use crate::store::maintenance::{AUDIT_MOVED, Head, Maintenance, Restore, Row};
    pub use crate::store::numbers::{duration_ms, from_ms, phase_number, to_fence, to_ms};
    pub use crate::store::outbox::form::{sealed_bytes, spares, values, whole};
    pub use crate::store::outbox::rows::{
        read_outbox, read_outbox_tally, read_queued, read_rejected, read_sealed_row,
    };
    pub use crate::store::outbox::sealed::{Anew, RESEALED_MAX, SealedRow, sealed_anew};
    pub use crate::store::outbox::{Account, Outbox, OutboxRow, Statement};
    pub use crate::store::pages::{ROWS_MAX, listable, page, start};
    pub use crate::store::place::{Facts, Judged, Noted, Place};
    pub use crate::store::renaming::{AdoptedRow, Superseding, adopted_row, superseding};
    pub use crate::store::resealing::{Blobs, FoundRows, ResealedRow, read_blobs, seal_rows};
    pub use crate::store::restored::{RestoredRow, Sealed};
    pub use crate::store::rows::{
        LAST_TIME_LEN, RowReader, damaged, read_entry, read_operation, read_peer, read_place, read_queue,
        read_request, read_rest, read_stored, read_tally,
    };
    pub use crate::store::sealing::{Reseal, ResealedBatch, Sealing};
    pub use crate::store::seals::{
        HEAD_BYTES, KEY_ID_BYTES, KeyId, Part, SEALED, Seals, hex, is_sealed, needs_a_key,
    };
    pub use crate::store::standing::{Stage, Standing};
    pub use crate::store::statement::{Database, Value};
    pub use crate::store::stored::Stored;
    pub use crate::store::tenants::{Tenants, behind};
    pub use crate::store::wakes::{Sleeper, Wakes};
    pub mod codec {
        pub use crate::store::codec::*;
    }
    pub mod filters {
        pub use crate::store::filters::*;
    }
    pub mod footing {
        pub use crate::store::footing::*;
    }
    pub mod reports {
        pub use crate::store::reports::*;
    }
}

pub mod suggest {
    pub use crate::suggest::{WORD_MAX, nearest, shown};
}

pub mod transport {
    pub use crate::transport::progress::Progress;
    pub use crate::transport::reach::{QUEUE_MAX, is_loopback};
    pub use crate::transport::streamed::{Chunks, told};
}

pub mod vendor {
    pub use crate::vendor::base::shown;
    pub use crate::vendor::key_place::header_value;
    pub use crate::vendor::pages::{
        NO_LIST, NextPage, number_of, object, parameter, with_parameter, with_query,
    };
    pub use crate::vendor::shown::{Adapter, ShownOperation, ShownPath};
    pub use crate::vendor::specimen::{Content, stamped};
    pub use crate::vendor::times::CLOCK_SKEW;
    pub use crate::vendor::times::{check_settle_time, check_window};
    pub mod account {
        pub use crate::vendor::account::*;
    }
    pub mod body {
        pub use crate::vendor::body::*;
    }
    pub mod date {
        pub use crate::vendor::date::*;
    }
    pub mod secret {
        pub use crate::vendor::secret::*;
    }
}

pub mod visible {
    pub use crate::visible::visible;
}

/// Returns the message of a panic.
pub fn panic_text(panic: &(dyn std::any::Any + Send)) -> &str {
    match (panic.downcast_ref::<&str>(), panic.downcast_ref::<String>()) {
        (Some(words), _) => words,
        (_, Some(words)) => words,
        _ => "a panic without words",
    }
}

/// Material of `steadfast-testkit` and of this crate's own tests. It lies here, because a test of this crate would meet
/// another build of it behind `steadfast-testkit`.
#[cfg(any(test, feature = "testkit"))]
pub mod testkit {
    pub use crate::store::sample::{ATTEMPT, KEEP, LEASE, claim_at, let_pass, look, transition_at};
    pub use crate::test_clock::TestClock;

    /// Sets the outbox rows of this key that a store in memory counts. A purge spares the key's record while it has
    /// any.
    #[cfg(feature = "testkit")]
    pub fn spare(memory: &crate::store::Memory, key: &str, rows: i64) {
        memory.spare(key, rows);
    }
}

/// Extension traits: methods of public types that only this workspace calls.
pub mod ext {
    pub use crate::answer::AnswerExt;
    pub use crate::error::ErrorExt;
    pub use crate::error::invalid::InputErrorExt;
    pub use crate::error::mistake::MistakeExt;
    pub use crate::operation::record::ClaimedExt;
    pub use crate::operation::record::RecordExt;
    pub use crate::operation::record::StateExt;
    pub use crate::operation::record::act::ActExt;
    pub use crate::operation::record::notes::NotesExt;
    pub use crate::operation::record::place::RecordPlaceExt;
    pub use crate::operation::record::rename::RecordNameExt;
    pub use crate::operation::record::resend::RecordResendExt;
    pub use crate::operation::record::take::RecordTakeExt;
    pub use crate::operation::record::wanted::WantedExt;
    pub use crate::operation::route::RouteNameExt;
    pub use crate::operation::sequence::SequenceExt;
    pub use crate::policy::backoff::BackoffExt;
    pub use crate::policy::timeout::TimeoutsExt;
    pub use crate::request::RequestExt;
    pub use crate::store::error::StoreErrorExt;
    #[cfg(feature = "seal")]
    pub use crate::store::seal::SealKeysExt;
    pub use crate::store::wakes::WakesExt;
    pub use crate::transport::LimitsExt;
    pub use crate::transport::SendErrorExt;
    pub use crate::transport::streamed::StreamedAnswerExt;
    pub use crate::vendor::SubjectExt;
    pub use crate::vendor::VerdictExt;
}
