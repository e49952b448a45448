//! The words that Stripe says in v2 when it says no.
//!
//! The codes `not_found` (404) and `idempotency_error` (409) are documented
//! (<https://docs.stripe.com/api/v2/core/event_destinations/delete>), and `invalid_fields` is known to the vendor's own
//! client library for Node. Where no code is known there is none. The sentences are composed: a client must not read them.

use serde_json::{Map, Value, json};

use crate::fixture::Reply;

/// An error of the API. Nothing that it is the answer to is kept under a key.
#[derive(Debug)]
pub(super) struct Refusal {
    status: u16,
    code: Option<&'static str>,
    message: String,
}

impl Refusal {
    /// A field of the body, or a parameter of the query, that is not as it should be.
    pub(super) fn field(message: impl Into<String>) -> Refusal {
        Refusal { status: 400, code: Some("invalid_fields"), message: message.into() }
    }

    pub(super) fn not_json(message: impl Into<String>) -> Refusal {
        Refusal { status: 400, code: None, message: message.into() }
    }

    /// "All API requests to the API /v2 namespace must include the Stripe-Version header"
    /// (<https://docs.stripe.com/api-v2-overview#sdk-cli-and-api-versioning>).
    pub(super) fn no_version() -> Refusal {
        Refusal { status: 400, code: None, message: "The Stripe-Version header is required.".to_owned() }
    }

    /// The words are v1's.
    pub(super) fn version(version: &str) -> Refusal {
        Refusal { status: 400, code: None, message: format!("Invalid Stripe API version: {version}") }
    }

    pub(super) fn unknown_url(method: &str, path: &str) -> Refusal {
        let message = format!("Unrecognized request URL ({method}: {path}).");
        Refusal { status: 404, code: Some("not_found"), message }
    }

    pub(super) fn not_found(id: &str) -> Refusal {
        let message = format!("The event destination '{id}' was not found.");
        Refusal { status: 404, code: Some("not_found"), message }
    }

    pub(super) fn other_params(key: &str) -> Refusal {
        let message =
            format!("The idempotency key '{key}' was first used with different request parameters.");
        Refusal { status: 409, code: Some(OTHER_PARAMS), message }
    }
}

impl From<Refusal> for Reply {
    fn from(refusal: Refusal) -> Reply {
        let mut error = Map::new();
        if let Some(code) = refusal.code {
            error.insert("code".to_owned(), Value::from(code));
        }
        // The client library for Node tells this error by its type, and `invalid_fields` by its code alone.
        if refusal.code == Some(OTHER_PARAMS) {
            error.insert("type".to_owned(), Value::from(OTHER_PARAMS));
        }
        error.insert("message".to_owned(), Value::from(refusal.message));
        Reply::json(refusal.status, &json!({ "error": error }))
    }
}

const OTHER_PARAMS: &str = "idempotency_error";
