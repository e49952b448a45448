//! Answers of Postmark's that no state of the fake leads to, to be asked for one at a time.

use serde::Deserialize;

use super::super::fixture::{Fixtures, Reply};

/// An answer for [`PostmarkFake::answer_next`](super::PostmarkFake::answer_next). None of them is accepted but
/// the one that says so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PostmarkAnswer {
    /// 200 without `ErrorCode`: accepted, delivery delayed. Must not be sent again.
    AcceptedDelayed,
    /// 422, ErrorCode 405: out of credits.
    NoCredits,
    /// 429 with a JSON body and no word of when to come back.
    RateLimited,
    /// 429 with an empty body.
    RateLimitedEmpty,
    /// 500, ErrorCode 101, not accepted.
    ServerError,
    /// 503, ErrorCode 100, not accepted.
    Maintenance,
    /// 502 with a gateway's HTML page.
    GatewayHtml,
}

impl PostmarkAnswer {
    pub(super) fn reply(self, fixtures: &Fixtures) -> Reply {
        match self {
            PostmarkAnswer::AcceptedDelayed => fixtures.reply("accepted_no_errorcode"),
            PostmarkAnswer::NoCredits => fixtures.reply("no_credits"),
            PostmarkAnswer::RateLimited => fixtures.reply("rate_limited"),
            PostmarkAnswer::RateLimitedEmpty => Reply::empty(429),
            PostmarkAnswer::ServerError => fixtures.reply("server_error"),
            PostmarkAnswer::Maintenance => fixtures.reply("maintenance"),
            PostmarkAnswer::GatewayHtml => html(),
        }
    }
}

/// The answer that accepts a message without an `ErrorCode`. A message that was refused stays refused.
pub(super) fn without_error_code(fixtures: &Fixtures, sent: Reply) -> Reply {
    let told = sent.value();
    if sent.status != 200 || !told.is_object() {
        return sent;
    }
    let mut answer = fixtures.reply("accepted_no_errorcode").value();
    for name in ["To", "MessageID", "SubmittedAt"] {
        answer[name] = told[name].clone();
    }
    Reply::json(200, &answer)
}

/// A page of the gateway's in front of the API; composed, since no source shows Postmark's.
pub(super) fn html() -> Reply {
    let page = "<html><head><title>502 Bad Gateway</title></head><body></body></html>";
    Reply { body: page.as_bytes().to_vec(), ..Reply::empty(502) }.header("Content-Type", "text/html")
}

/// The answer that a second `metadata_` filter of one search meets. One is documented; the rest is not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum SecondFilter {
    /// All but the first are ignored: the search finds more than was asked for.
    #[default]
    Ignore,
    /// 422.
    Refuse,
}
