//! The causes that keep a request from executing: faults, and what is wrong with its key.

use serde_json::json;

use super::super::fixture::Reply;
use super::ConflictType;
use super::machine::Machine;

impl Machine {
    /// A 500 of which nothing is stored: the words of a stored one, without its advice.
    pub(super) fn server_error(&self) -> Reply {
        let mut reply = self.fixtures.reply("stored_500");
        reply.headers.retain(|(name, _)| !name.eq_ignore_ascii_case("stripe-should-retry"));
        reply
    }

    pub(super) fn key_in_use(&self, key: Option<&str>) -> Reply {
        let reply =
            self.fixtures.reply("concurrent_key_in_use").fill("770434815658t5litna", key.unwrap_or_default());
        match self.settings.conflict_type {
            ConflictType::InvalidRequest => reply,
            ConflictType::Idempotency => reply.fill("invalid_request_error", "idempotency_error"),
        }
    }

    pub(super) fn other_endpoint(&self, key: &str, first: &str, now: &str) -> Reply {
        self.fixtures
            .reply("endpoint_mismatch")
            .fill("'/v1/invoices/in_x/pay' vs '/v1/invoices'", &format!("'{first}' vs '{now}'"))
            .fill("<key>", key)
    }

    /// Stripe documents the limit, not the words: these are composed.
    pub(super) fn key_too_long(&self) -> Reply {
        let message = format!("Idempotency keys may be at most {KEY_LEN_MAX} characters long.");
        Reply::json(400, &json!({ "error": { "message": message, "type": "invalid_request_error" } }))
    }
}

/// Documented at <https://docs.stripe.com/api/idempotent_requests>.
pub(super) const KEY_LEN_MAX: usize = 255;
