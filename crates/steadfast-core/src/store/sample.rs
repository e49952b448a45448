//! Sample claims and writes for tests in which the values do not matter.

#![allow(missing_docs, reason = "for the crates of this workspace alone")]

use std::time::Duration;

use bytes::Bytes;
use http::{HeaderValue, Method};
use url::Url;

use super::Store;
use crate::clock::Timestamp;
use crate::effect::Effect;
use crate::operation::OnUnknown;
use crate::operation::record::{self, Claim, State, Transition};
use crate::operation::{Fingerprint, OperationId, RedactedFields};
use crate::request::Request;

pub const LEASE: Duration = Duration::from_secs(60);
pub const KEEP: Duration = Duration::from_secs(24 * 3600);
/// The longest exchange of the process that claims.
pub const ATTEMPT: Duration = Duration::from_secs(20);

/// A claim at `now` with the suite's fingerprint, lease and keep.
pub fn claim_at(id: &OperationId, now: Timestamp) -> Claim {
    let url = Url::parse("https://vendor.test/v1/things?expand=a&expand=b").expect("a valid URL");
    let mut request = Request::new(Method::POST, url);
    request.headers.insert("content-type", HeaderValue::from_static("application/json"));
    request.headers.append("x-many", HeaderValue::from_static("one"));
    request.headers.append("x-many", HeaderValue::from_static("two"));
    request.body = Bytes::from_static(br#"{"amount":1000}"#);
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

/// A holder's write.
pub fn transition_at(fence: u64, now: Timestamp, to: State) -> Transition {
    Transition {
        fence,
        now,
        attempts: 1,
        effect: Effect::None,
        unknown_since: None,
        lookups: 0,
        resends_left: 0,
        to,
        reports: Vec::new(),
    }
}

/// Lets a store see that it is `now`, so that it believes that.
pub async fn let_pass(store: &dyn Store, now: Timestamp) {
    for at in [now.minus(record::DOUBTED_FOR), now] {
        look(store, at).await;
    }
}

/// A command that changes nothing, from this time.
/// The same, once.
pub async fn look(store: &dyn Store, now: Timestamp) {
    let phase = record::Phase::Scheduled;
    let take = record::Takeover {
        phase,
        account: None,
        now,
        lease: LEASE,
        attempt_max: ATTEMPT,
        vendor_clock_ms: None,
        holder: None,
        limit: 0,
        wanted: record::Wanted::default(),
    };
    assert_eq!(store.take(take).await.expect("the store works"), []);
}
