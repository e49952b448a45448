//! The members of what Postmark is sent, and their kinds, as its pages and its own client libraries have them
//! (<https://postmarkapp.com/developer/api/email-api>).
//!
//! A member of another kind is refused with ErrorCode 403, which names it
//! (<https://postmarkapp.com/updates/changes-to-email-api-validation-action-may-be-required>). The treatment of a
//! member that a request does not have is not documented. The fake refuses it in the same way: it does not know what
//! it would do.

use serde_json::Value;

/// The kind that a member must be of. Null stands for one that is left out.
#[derive(Clone, Copy, Debug)]
pub(super) enum Kind {
    Text,
    /// Text, and not left out.
    Needed,
    Number,
    Flag,
    /// Text in base64, and not left out.
    Base64,
    /// An object of anything, and not left out.
    Model,
    /// Names and texts.
    Texts,
    OneOf(&'static [&'static str]),
    Object(Shape),
    List(Shape),
}

pub(super) type Shape = &'static [Member];

type Member = (&'static str, Kind);

/// The members of two lists.
const fn joined<const A: usize, const B: usize, const ALL: usize>(
    first: [Member; A],
    then: [Member; B],
) -> [Member; ALL] {
    assert!(A + B == ALL, "as many as there are");
    let (mut all, mut at) = ([("", Kind::Text); ALL], 0);
    while at < ALL {
        all[at] = if at < A { first[at] } else { then[at - A] };
        at += 1;
    }
    all
}

/// The member of an object that is unknown, missing or of another kind.
pub(super) fn wrong(shape: Shape, value: &Value) -> Option<String> {
    let Some(members) = value.as_object() else { return Some("$".to_owned()) };
    let mut given = members.iter().filter(|(_, value)| !value.is_null()).map(|(name, _)| name);
    let unknown = given.find(|name| !shape.iter().any(|(known, _)| known == name));
    let first = || {
        shape.iter().find_map(|(name, kind)| {
            let inner = kind.wrong(&value[*name])?;
            Some(if inner.is_empty() { (*name).to_owned() } else { format!("{name}.{inner}") })
        })
    };
    unknown.cloned().or_else(first)
}

impl Kind {
    /// Where a value is wrong: empty for the value itself.
    fn wrong(self, value: &Value) -> Option<String> {
        let is = |fits: bool| if fits { None } else { Some(String::new()) };
        match self {
            Kind::Needed => is(value.is_string()),
            Kind::Base64 => is(value.as_str().is_some_and(is_base64)),
            Kind::Model => is(value.is_object()),
            _ if value.is_null() => None,
            Kind::Text => is(value.is_string()),
            Kind::Number => is(value.is_u64()),
            Kind::Flag => is(value.is_boolean()),
            Kind::Texts => is(value.as_object().is_some_and(|all| all.values().all(Value::is_string))),
            Kind::OneOf(words) => is(value.as_str().is_some_and(|text| words.contains(&text))),
            Kind::Object(shape) => wrong(shape, value),
            Kind::List(shape) => match value.as_array() {
                Some(all) => all.iter().find_map(|one| wrong(shape, one)),
                None => Some(String::new()),
            },
        }
    }
}

/// In lines or in one. In one pass over the bytes: an attachment may have millions.
fn is_base64(text: &str) -> bool {
    let (mut digits, mut padding) = (0_usize, 0);
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'+' | b'/' if padding == 0 => digits += 1,
            b'=' => padding += 1,
            b' ' | b'\t' | b'\r' | b'\n' => {}
            _ => return false,
        }
    }
    padding <= 2 && (digits + padding).is_multiple_of(4)
}

pub(super) const MESSAGE: Shape = &joined::<_, _, 15>(
    SHARED,
    [("Subject", Kind::Text), ("HtmlBody", Kind::Text), ("TextBody", Kind::Text)],
);

/// Subject and bodies are the template's.
pub(super) const TEMPLATED: Shape = &joined::<_, _, 16>(
    [
        ("TemplateId", Kind::Number),
        ("TemplateAlias", Kind::Text),
        ("TemplateModel", Kind::Model),
        ("InlineCss", Kind::Flag),
    ],
    SHARED,
);

/// Of every message.
const SHARED: [Member; 12] = [
    ("From", Kind::Needed),
    ("To", Kind::Needed),
    ("Cc", Kind::Text),
    ("Bcc", Kind::Text),
    ("Tag", Kind::Text),
    ("ReplyTo", Kind::Text),
    ("Metadata", Kind::Texts),
    ("Headers", Kind::List(HEADER)),
    ("TrackOpens", Kind::Flag),
    ("TrackLinks", TRACK_LINKS),
    ("Attachments", Kind::List(ATTACHMENT)),
    ("MessageStream", Kind::Text),
];

/// Another `TemplateType` than those that there are has a code of its own.
pub(super) const TEMPLATE: Shape = &[
    ("TemplateType", Kind::Text),
    ("Name", Kind::Text),
    ("Alias", Kind::Text),
    ("Subject", Kind::Text),
    ("HtmlBody", Kind::Text),
    ("TextBody", Kind::Text),
    ("LayoutTemplate", Kind::Text),
];

pub(super) const NEW_WEBHOOK: Shape = &joined::<_, _, 5>([("MessageStream", Kind::Text)], OF_WEBHOOK);

/// A webhook stays in its stream.
pub(super) const WEBHOOK: Shape = &OF_WEBHOOK;

const OF_WEBHOOK: [Member; 4] = [
    ("Url", Kind::Text),
    ("HttpAuth", AUTH),
    ("HttpHeaders", Kind::List(HEADER)),
    ("Triggers", Kind::Object(TRIGGERS)),
];

/// A server is for tests or not from the beginning.
pub(super) const NEW_SERVER: Shape =
    &joined::<_, _, 17>([("DeliveryType", Kind::OneOf(&["Live", "Sandbox"]))], OF_SERVER);

pub(super) const SERVER: Shape = &OF_SERVER;

const OF_SERVER: [Member; 16] = [
    ("Name", Kind::Text),
    ("Color", Kind::Text),
    ("SmtpApiActivated", Kind::Flag),
    ("RawEmailEnabled", Kind::Flag),
    ("InboundHookUrl", NO_HOOK),
    ("InboundDomain", Kind::Text),
    ("BounceHookUrl", NO_HOOK),
    ("OpenHookUrl", NO_HOOK),
    ("DeliveryHookUrl", NO_HOOK),
    ("ClickHookUrl", NO_HOOK),
    ("PostFirstOpenOnly", Kind::Flag),
    ("InboundSpamThreshold", Kind::Number),
    ("TrackOpens", Kind::Flag),
    ("TrackLinks", TRACK_LINKS),
    ("IncludeBounceContentInHook", Kind::Flag),
    ("EnableSmtpApiErrorHooks", Kind::Flag),
];

pub(super) const NEW_DOMAIN: Shape = &[("Name", Kind::Needed), ("ReturnPathDomain", Kind::Text)];

pub(super) const DOMAIN: Shape = &[("ReturnPathDomain", Kind::Text)];

pub(super) const NEW_SENDER: Shape = &joined::<_, _, 5>([("FromEmail", Kind::Needed)], OF_SENDER);

/// A sender signature keeps its address.
pub(super) const SENDER: Shape = &OF_SENDER;

const OF_SENDER: [Member; 4] = [
    ("Name", Kind::Needed),
    ("ReplyToEmail", Kind::Text),
    ("ReturnPathDomain", Kind::Text),
    ("ConfirmationPersonalNote", Kind::Text),
];

/// A request without the list has a code of its own.
pub(super) const SUPPRESSIONS: Shape = &[("Suppressions", Kind::List(&[("EmailAddress", Kind::Needed)]))];

const HEADER: Shape = &[("Name", Kind::Needed), ("Value", Kind::Needed)];

const ATTACHMENT: Shape = &[
    ("Name", Kind::Needed),
    ("Content", Kind::Base64),
    ("ContentType", Kind::Needed),
    ("ContentID", Kind::Text),
    ("ContentLength", Kind::Number),
    ("Disposition", Kind::Text),
];

const AUTH: Kind = Kind::Object(&[("Username", Kind::Needed), ("Password", Kind::Needed)]);

/// A server's own hooks are not called, so that none can be set. Those of `/webhooks` are.
const NO_HOOK: Kind = Kind::OneOf(&[""]);

const TRACK_LINKS: Kind = Kind::OneOf(&["None", "HtmlAndText", "HtmlOnly", "TextOnly"]);

const ENABLED: (&str, Kind) = ("Enabled", Kind::Flag);
const CONTENT: (&str, Kind) = ("IncludeContent", Kind::Flag);

const TRIGGERS: Shape = &[
    ("Open", Kind::Object(&[ENABLED, ("PostFirstOpenOnly", Kind::Flag)])),
    ("Click", Kind::Object(&[ENABLED])),
    ("Delivery", Kind::Object(&[ENABLED])),
    ("Bounce", Kind::Object(&[ENABLED, CONTENT])),
    ("SpamComplaint", Kind::Object(&[ENABLED, CONTENT])),
    ("SubscriptionChange", Kind::Object(&[ENABLED])),
];
