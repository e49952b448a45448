//! Answers of Stripe's that no state of the fake leads to, to be asked for one at a time.

use serde::Deserialize;

use super::super::fixture::{Fixtures, Reply};

/// An answer for [`StripeFake::answer_next`](super::StripeFake::answer_next). None of them takes effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StripeAnswer {
    /// 500 that is stored under the key and replayed from then on.
    Stored500,
    /// 429 `lock_timeout`: another request holds the object. Not a rate limit, and without its header.
    LockTimeout,
    /// 429 with the given `Stripe-Rate-Limited-Reason`.
    RateLimited(RateLimitReason),
    /// 400 with `Stripe-Should-Retry: true`: the header outranks the status.
    ShouldRetryTrueOn400,
    /// 409 with `Stripe-Should-Retry: false`: the header outranks the status.
    ShouldRetryFalseOn409,
    /// 400 as OAuth words it: `error` is a string.
    OauthError,
    /// 502 with a gateway's HTML page.
    GatewayHtml,
}

impl StripeAnswer {
    pub(super) fn reply(self, fixtures: &Fixtures) -> Reply {
        match self {
            StripeAnswer::Stored500 => fixtures.reply("stored_500"),
            StripeAnswer::LockTimeout => fixtures.reply("lock_timeout"),
            StripeAnswer::RateLimited(reason) => {
                fixtures.reply("rate_limited_global").header("Stripe-Rate-Limited-Reason", reason.as_str())
            }
            StripeAnswer::ShouldRetryTrueOn400 => fixtures.reply("should_retry_true_on_400"),
            StripeAnswer::ShouldRetryFalseOn409 => fixtures.reply("should_retry_false_on_409"),
            StripeAnswer::OauthError => fixtures.reply("oauth_error"),
            StripeAnswer::GatewayHtml => fixtures.reply("gateway_html"),
        }
    }
}

/// Which of Stripe's limits was hit (<https://docs.stripe.com/rate-limits>).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RateLimitReason {
    /// Requests per second of the account.
    GlobalRate,
    /// Requests per second of one endpoint.
    EndpointRate,
    /// Requests at once of the account.
    GlobalConcurrency,
    /// Requests at once of one endpoint.
    EndpointConcurrency,
    /// A limit of the resource.
    ResourceSpecific,
}

impl RateLimitReason {
    /// The header's value.
    pub const fn as_str(self) -> &'static str {
        match self {
            RateLimitReason::GlobalRate => "global-rate",
            RateLimitReason::EndpointRate => "endpoint-rate",
            RateLimitReason::GlobalConcurrency => "global-concurrency",
            RateLimitReason::EndpointConcurrency => "endpoint-concurrency",
            RateLimitReason::ResourceSpecific => "resource-specific",
        }
    }
}

/// The `type` that a 409 for a key in use carries. Public sources show both: a client must go by status and
/// code.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum ConflictType {
    /// `invalid_request_error`, seen in a published real answer of 2018.
    #[default]
    InvalidRequest,
    /// `idempotency_error`, as other public tests have it.
    Idempotency,
}
