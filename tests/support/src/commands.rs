//! Commands to a store. A test says what it looks at and takes the rest from here: `Claim { keep, ..claim(…) }`.

use std::sync::Arc;
use std::time::Duration;

use steadfast_core::clock::Timestamp;
use steadfast_core::operation::record::{Claim, Phase, Record, State, Takeover, Transition};
use steadfast_core::operation::{Fingerprint, OperationId, RedactedFields};
use steadfast_core::transport::Request;
use steadfast_core::{Effect, OnUnknown};

pub const LEASE: Duration = Duration::from_secs(60);
pub const ATTEMPT: Duration = Duration::from_secs(30);
pub const KEEP: Duration = Duration::from_secs(3_600);

pub fn claim(id: &OperationId, request: impl Into<Arc<Request>>, now: Timestamp) -> Claim {
    Claim {
        id: id.clone(),
        fingerprint: Fingerprint::from_bytes([7; 32]),
        wire_key: id.wire_key().to_string(),
        request: request.into(),
        now,
        lease: LEASE,
        due: None,
        keep: KEEP,
        on_unknown: OnUnknown::Park,
        attempt_max: ATTEMPT,
        vendor_clock_ms: None,
        holder: Some("claimer/1".into()),
        redact: RedactedFields::NONE,
        predecessor: None,
        sequence: None,
    }
}

/// The write of the holder of that fence after one send, whose effect is not known.
pub fn transition(held: &Record, now: Timestamp, to: State) -> Transition {
    Transition {
        fence: held.fence,
        now,
        attempts: 1,
        effect: Effect::Unknown,
        unknown_since: None,
        lookups: 0,
        resends_left: 0,
        to,
        reports: Vec::new(),
    }
}

/// Of every account, ten at most.
pub fn takeover(phase: Phase, now: Timestamp) -> Takeover {
    Takeover {
        phase,
        account: None,
        now,
        lease: LEASE,
        attempt_max: ATTEMPT,
        vendor_clock_ms: None,
        holder: Some("taker/2".into()),
        limit: 10,
        wanted: steadfast_core::operation::record::Wanted::default(),
    }
}
