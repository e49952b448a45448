//! Answers of BigCommerce's that no state of the fake leads to, to be asked for one at a time.

use super::super::fixture::{Fixtures, Reply};

/// An answer for [`BigCommerceFake::answer_next`](super::BigCommerceFake::answer_next).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum BigCommerceAnswer {
    /// 429 of the store's quota, with both wait headers saying 15 s. Not applied.
    RateLimited,
    /// 429 without any header: the platform sheds load. Not applied.
    RateLimitedPlatform,
    /// 500 with an empty body that stands in for a 429. Not applied.
    RateLimitedAs500,
    /// 503. Not applied.
    Unavailable,
    /// 504 with a JSON body. **Applied.**
    GatewayTimeout,
    /// 504 with a gateway's HTML page. **Applied.**
    GatewayTimeoutHtml,
    /// 207: one of two items failed. Not applied by the fake: it shows the answer's shape.
    MultiStatus,
    /// 422 of a refund, the error nested in `data[]`. Not applied.
    RefundRefused,
    /// 503 of a refund, the error nested in `data[]`. Not applied.
    RefundUnavailable,
    /// Payment error 30105, "duplicate transaction". Not applied.
    PaymentDuplicate,
    /// Payment error 10000, "try again later": it may or may not have been applied.
    PaymentUnavailable {
        /// Whether it was.
        applied: bool,
    },
}

impl BigCommerceAnswer {
    /// Whether the write executes before this is answered.
    pub(super) fn applies(self) -> bool {
        matches!(
            self,
            BigCommerceAnswer::GatewayTimeout
                | BigCommerceAnswer::GatewayTimeoutHtml
                | BigCommerceAnswer::PaymentUnavailable { applied: true }
        )
    }

    pub(super) fn reply(self, fixtures: &Fixtures) -> Reply {
        match self {
            BigCommerceAnswer::RateLimited => fixtures.reply("rate_limited"),
            BigCommerceAnswer::RateLimitedPlatform => fixtures.reply("rate_limited_platform"),
            BigCommerceAnswer::RateLimitedAs500 => fixtures.reply("rate_limited_as_500"),
            BigCommerceAnswer::Unavailable => fixtures.reply("unavailable"),
            BigCommerceAnswer::GatewayTimeout => fixtures.reply("gateway_timeout"),
            BigCommerceAnswer::GatewayTimeoutHtml => html(504, "Gateway Timeout"),
            BigCommerceAnswer::MultiStatus => fixtures.reply("multi_status"),
            BigCommerceAnswer::RefundRefused => fixtures.reply("refund_422"),
            BigCommerceAnswer::RefundUnavailable => fixtures.reply("refund_503"),
            BigCommerceAnswer::PaymentDuplicate => fixtures.reply("payment_duplicate"),
            BigCommerceAnswer::PaymentUnavailable { .. } => fixtures.reply("payment_unavailable"),
        }
    }
}

/// A page of the gateway's in front of the API; composed.
pub(super) fn html(status: u16, title: &str) -> Reply {
    let page = format!("<html><head><title>{status} {title}</title></head><body></body></html>");
    Reply { body: page.into_bytes(), ..Reply::empty(status) }.header("Content-Type", "text/html")
}
