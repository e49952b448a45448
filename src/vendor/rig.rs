//! Answers for the tests of all adapters, and those of the fixture files.

use std::fs;

use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use serde_json::Value;

use steadfast_core::operation::{Key, OperationId, Scope, WireKey};
use steadfast_core::transport::Answer;

pub(super) fn wire_key() -> WireKey {
    OperationId::new(Scope::from_stored("s"), Key::new("k").expect("a key")).wire_key()
}

pub(super) fn answer(status: u16, headers: &[(&str, &str)], body: &str) -> Answer {
    let mut map = HeaderMap::new();
    for (name, value) in headers {
        let name = HeaderName::from_bytes(name.as_bytes()).expect("a name");
        map.insert(name, HeaderValue::from_str(value).expect("a value"));
    }
    Answer::new(StatusCode::from_u16(status).expect("a status"), map, body.to_owned())
}

/// The fixture file of this name, whole.
pub(super) fn fixtures(file: &str) -> Value {
    let path = format!("{}/crates/steadfast-fakes/fixtures/{file}.json", env!("CARGO_MANIFEST_DIR"));
    serde_json::from_slice(&fs::read(path).expect("the fixtures")).expect("JSON")
}

/// Returns one entry of a vendor's fixture file.
pub(super) fn entry(vendor: &str, name: &str) -> Value {
    let all = fixtures(vendor);
    let found = all["fixtures"].as_array().expect("a list").iter().find(|entry| entry["name"] == name);
    found.unwrap_or_else(|| panic!("no fixture {name}")).clone()
}

/// Returns one entry of a vendor's fixture file as an answer, with all its headers.
pub(super) fn fixture(vendor: &str, name: &str) -> Answer {
    let entry = entry(vendor, name);
    let body = entry["body_raw"].as_str().map_or_else(|| entry["body"].to_string(), str::to_owned);
    let headers = entry["headers"].as_object().into_iter().flatten();
    let headers: Vec<_> =
        headers.map(|(name, value)| (name.as_str(), value.as_str().expect("text"))).collect();
    answer(u16::try_from(entry["status"].as_u64().expect("a status")).expect("a status"), &headers, &body)
}
