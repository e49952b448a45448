//! The parameters of each route, as Postmark documents them (<https://postmarkapp.com/developer/api/messages-api>, and the
//! page of each other API). Client libraries write their names in either case.
//!
//! Postmark's treatment of a parameter that a route does not have is not documented. The fake refuses it: a list of
//! everything would be a guess, and it would hide a misspelt filter.

use wiremock::Request;

use super::super::calendar::parse_eastern;
use super::super::fixture::Reply;
use super::server::{self, STREAMS};
use super::suppressions;

/// The kind that a parameter's value must be of.
#[derive(Clone, Copy, Debug)]
enum Kind {
    Text,
    Number,
    Flag,
    /// US Eastern, a day or a second of it.
    Date,
    /// The name of a stream.
    Stream,
    OneOf(&'static [&'static str]),
}

/// The refusal of a request's parameters, if there is anything wrong with them.
pub(super) fn check(request: &Request, route: &str) -> Result<(), Reply> {
    let Some(known) = parameters(request.method.as_str(), route) else { return Ok(()) };
    let mut seen: Vec<String> = Vec::new();
    for (name, value) in request.url.query_pairs() {
        let name = name.to_ascii_lowercase();
        // One, or what the fake was built to do with a second one.
        if route == "/messages/outbound" && name.starts_with("metadata_") {
            continue;
        }
        let kind = known.iter().find(|(known, _)| *known == name);
        let Some((_, kind)) = kind else { return Err(refused(route, &name, "is not one of this route's")) };
        if seen.contains(&name) {
            return Err(refused(route, &name, "is there twice"));
        }
        if !kind.takes(&value) {
            return Err(match name.as_str() {
                "messagestreamtype" => server::refused(1221, NO_STREAM_TYPE),
                _ => refused(route, &name, "has a value that it cannot have"),
            });
        }
        seen.push(name);
    }
    Ok(())
}

impl Kind {
    fn takes(self, value: &str) -> bool {
        match self {
            Kind::Text => true,
            Kind::Number => value.parse::<u64>().is_ok(),
            Kind::Flag => matches!(value.to_ascii_lowercase().as_str(), "true" | "false"),
            Kind::Date => parse_eastern(value, false).is_some(),
            Kind::Stream => STREAMS.iter().any(|(known, _)| *known == value),
            Kind::OneOf(words) => words.iter().any(|word| word.eq_ignore_ascii_case(value)),
        }
    }
}

type Parameters = &'static [(&'static str, Kind)];

/// `None` for a route that there is not: it has its own answer.
fn parameters(method: &str, route: &str) -> Option<Parameters> {
    let lists: [(&str, Parameters); 8] = [
        ("/messages/outbound", &MESSAGES),
        ("/bounces", &BOUNCES),
        ("/templates", &TEMPLATES),
        ("/message-streams", &STREAM_LIST),
        ("/webhooks", &[("messagestream", Kind::Stream)]),
        ("/servers", &[COUNT, OFFSET, ("name", Kind::Text)]),
        ("/domains", &[COUNT, OFFSET]),
        ("/senders", &[COUNT, OFFSET]),
    ];
    if method == "GET" && suppressions::of_route(route).is_some() {
        return Some(&SUPPRESSIONS);
    }
    if let Some((_, known)) = lists.iter().find(|(list, _)| *list == route) {
        return Some(if method == "GET" { known } else { &[] });
    }
    let is_message = route.ends_with("/details") || route.ends_with("/dump");
    let is_one =
        lists[1..].iter().any(|(list, _)| route.strip_prefix(list).is_some_and(|id| id.starts_with('/')));
    let is_known = match route {
        "/server" | "/deliverystats" => true,
        _ if route.starts_with("/email") => true,
        _ => is_one || is_message && route.starts_with("/messages/outbound/"),
    };
    is_known.then_some(&[])
}

/// The words are composed.
fn refused(route: &str, name: &str, why: &str) -> Reply {
    server::refused(code_of(route), &format!("The parameter '{name}' {why}."))
}

/// The ErrorCode of a parameter, by the first word of its route: the query exceptions of the list of error codes
/// (<https://postmarkapp.com/developer/api/overview#error-codes>). For other routes there is none, and 300 is composed.
pub(super) fn code_of(route: &str) -> u64 {
    match route.trim_start_matches('/').split('/').next() {
        Some("senders" | "domains") => 500,
        Some("servers") => 600,
        Some("messages") => 700,
        Some("bounces") => 1000,
        Some("templates") => 1100,
        _ => 300,
    }
}

const NO_STREAM_TYPE: &str = "The 'MessageStreamType' associated with this request was invalid.";

const COUNT: (&str, Kind) = ("count", Kind::Number);
const OFFSET: (&str, Kind) = ("offset", Kind::Number);

const MESSAGES: [(&str, Kind); 10] = [
    COUNT,
    OFFSET,
    ("recipient", Kind::Text),
    ("fromemail", Kind::Text),
    ("tag", Kind::Text),
    // And `processed`: whether it finds what was sent is not documented.
    ("status", Kind::OneOf(&["queued", "sent"])),
    ("fromdate", Kind::Date),
    ("todate", Kind::Date),
    ("subject", Kind::Text),
    ("messagestream", Kind::Stream),
];

const BOUNCES: [(&str, Kind); 10] = [
    COUNT,
    OFFSET,
    ("type", Kind::OneOf(&BOUNCE_TYPES)),
    ("inactive", Kind::Flag),
    ("emailfilter", Kind::Text),
    ("tag", Kind::Text),
    ("messageid", Kind::Text),
    ("fromdate", Kind::Date),
    ("todate", Kind::Date),
    ("messagestream", Kind::Stream),
];

const TEMPLATES: [(&str, Kind); 4] = [
    COUNT,
    OFFSET,
    ("templatetype", Kind::OneOf(&["All", "Standard", "Layout"])),
    ("layouttemplate", Kind::Text),
];

const STREAM_LIST: [(&str, Kind); 2] = [
    ("messagestreamtype", Kind::OneOf(&["All", "Inbound", "Transactional", "Broadcasts"])),
    ("includearchivedstreams", Kind::Flag),
];

/// The values of the two texts have codes of their own.
const SUPPRESSIONS: [(&str, Kind); 7] = [
    COUNT,
    OFFSET,
    ("suppressionreason", Kind::Text),
    ("origin", Kind::Text),
    ("emailaddress", Kind::Text),
    ("fromdate", Kind::Date),
    ("todate", Kind::Date),
];

/// <https://postmarkapp.com/developer/api/bounce-api#bounce-types>
const BOUNCE_TYPES: [&str; 22] = [
    "HardBounce",
    "Transient",
    "Unsubscribe",
    "Subscribe",
    "AutoResponder",
    "AddressChange",
    "DnsError",
    "SpamNotification",
    "OpenRelayTest",
    "Unknown",
    "SoftBounce",
    "VirusNotification",
    "ChallengeVerification",
    "BadEmailAddress",
    "SpamComplaint",
    "ManuallyDeactivated",
    "Unconfirmed",
    "Blocked",
    "SMTPApiError",
    "InboundError",
    "DMARCPolicy",
    "TemplateRenderingFailed",
];
