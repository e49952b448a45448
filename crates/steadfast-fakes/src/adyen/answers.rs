//! Answers of Adyen's that no state of the fake leads to, to be asked for one at a time.

use super::super::fixture::{Fixtures, Reply};

/// An answer for [`AdyenFake::answer_next`](super::AdyenFake::answer_next). None of them takes effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AdyenAnswer {
    /// 422 with code 704 and `transient-error: true`: another request holds the key.
    InProgress,
    /// The same with a 409, which Adyen documents too.
    InProgress409,
    /// 422 with code 704 and without the mark: processed before, and not to be repeated.
    AlreadyProcessed,
    /// 503 with code 703 and `transient-error: true`: Adyen's store of keys is not there.
    StoreUnavailable,
    /// 500 that is stored under the key: the message may have been acted upon.
    StoredError,
    /// 500 of an account that is not set up for the request.
    Configuration500,
    /// 429. Its form is not documented.
    RateLimited,
    /// 502 with a gateway's HTML page.
    GatewayHtml,
}

impl AdyenAnswer {
    pub(super) fn reply(self, fixtures: &Fixtures) -> Reply {
        match self {
            AdyenAnswer::InProgress => fixtures.reply("in_progress"),
            AdyenAnswer::InProgress409 => fixtures.reply("in_progress_409"),
            AdyenAnswer::AlreadyProcessed => fixtures.reply("already_processed"),
            AdyenAnswer::StoreUnavailable => fixtures.reply("store_unavailable"),
            AdyenAnswer::StoredError => fixtures.reply("io_exception"),
            AdyenAnswer::Configuration500 => fixtures.reply("configuration_500"),
            AdyenAnswer::RateLimited => fixtures.reply("rate_limited"),
            AdyenAnswer::GatewayHtml => fixtures.reply("gateway_html"),
        }
    }
}
