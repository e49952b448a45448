//! The view of requests and replies: what is shown, and what is redacted.
//!
//! Bodies and headers hold names, addresses and amounts, and end in terminals' histories and in tickets. Therefore
//! they are withheld, unless an operator asks with a name and a reason, which go on the audit record. A named field
//! is redacted even then, whether the operator or the call named it. A body that cannot be read as fields is then
//! withheld whole: a redaction that guesses is none.

use http::HeaderMap;
use http::header::{CONTENT_TYPE, HeaderName};
use serde_json::Value;
use url::Url;
use url::form_urlencoded;

use steadfast_core::internal::operation::{REDACTED, is_secret};
use steadfast_core::operation::RedactedFields;

/// View of one operation: how much of it is shown.
pub(super) struct View<'a> {
    /// Whether bodies, the values of headers and of the query are shown.
    is_open: bool,
    /// The names whose values are hidden all the same.
    redact: Vec<&'a str>,
}

impl<'a> View<'a> {
    /// `beside` are the names that came with the operation.
    pub(super) fn new(is_open: bool, named: &'a [String], beside: &'a RedactedFields) -> View<'a> {
        View { is_open, redact: named.iter().chain(beside.names()).map(String::as_str).collect() }
    }

    pub(super) fn url(&self, url: &Url) -> String {
        let Some(_) = url.query() else { return url.to_string() };
        let mut shown = url.clone();
        let pairs: Vec<_> = url.query_pairs().map(|(name, value)| self.pair(&name, &value)).collect();
        shown.query_pairs_mut().clear().extend_pairs(pairs);
        shown.to_string()
    }

    /// Returns the headers to show; those of an answer that a vendor's support asks for are shown to all readers: they
    /// hold nothing of a person.
    pub(super) fn headers(&self, headers: &HeaderMap, is_answer: bool) -> Vec<(String, String)> {
        let shown = |name: &HeaderName, value: &[u8]| {
            // Secrets are never stored; a mistake of a caller's, and a vendor's cookie, are not to be shown either.
            let is_open = self.is_open || (is_answer && FOR_SUPPORT.contains(&name.as_str()));
            let hidden = !is_open || is_secret(name) || self.is_named(name.as_str());
            let value =
                if hidden { REDACTED.to_owned() } else { String::from_utf8_lossy(value).into_owned() };
            (name.as_str().to_owned(), value)
        };
        headers.iter().map(|(name, value)| shown(name, value.as_bytes())).collect()
    }

    /// Returns the codes of a failure, and its sentences without a name. Nothing of a body that is shown anyway, or
    /// whose fields are all redacted.
    pub(super) fn says(&self, body: &[u8]) -> Vec<String> {
        let mut said = Vec::new();
        if !self.is_open
            && let Ok(value) = serde_json::from_slice(body)
        {
            self.gather(&value, &mut said);
        }
        said.truncate(SAID_MAX);
        said
    }

    fn gather(&self, value: &Value, said: &mut Vec<String>) {
        match value {
            Value::Object(members) => {
                for (name, member) in members.iter().filter(|(name, _)| !self.is_named(name)) {
                    let of = |names: &[&str]| names.iter().any(|known| name.eq_ignore_ascii_case(known));
                    let text = member.as_str().map_or_else(|| member.to_string(), str::to_owned);
                    let is_said = (of(&CODES) && is_code(&text)) || (of(&SENTENCES) && is_impersonal(&text));
                    if is_said && !said.contains(&text) {
                        said.push(text);
                    }
                    self.gather(member, said);
                }
            }
            Value::Array(items) => items.iter().for_each(|item| self.gather(item, said)),
            _ => {}
        }
    }

    /// The body as text, or why it is withheld.
    pub(super) fn body(&self, headers: &HeaderMap, body: &[u8]) -> Result<String, &'static str> {
        if !self.is_open && !body.is_empty() {
            return Err("not asked for");
        }
        let Ok(text) = std::str::from_utf8(body) else {
            return Err("it is not text");
        };
        if self.redact.is_empty() || text.is_empty() {
            return Ok(text.to_owned());
        }
        if let Ok(mut value) = serde_json::from_str::<Value>(text)
            && matches!(value, Value::Object(_) | Value::Array(_))
        {
            self.json(&mut value);
            return Ok(value.to_string());
        }
        if is_form(headers) {
            let pairs: Vec<_> =
                form_urlencoded::parse(body).map(|(name, value)| self.pair(&name, &value)).collect();
            return Ok(form_urlencoded::Serializer::new(String::new()).extend_pairs(pairs).finish());
        }
        Err("it is neither JSON nor a form, so that its fields cannot be redacted")
    }

    fn json(&self, value: &mut Value) {
        match value {
            Value::Object(members) => {
                for (name, member) in members {
                    if self.is_named(name) {
                        *member = Value::from(REDACTED);
                    } else {
                        self.json(member);
                    }
                }
            }
            Value::Array(items) => items.iter_mut().for_each(|item| self.json(item)),
            _ => {}
        }
    }

    /// `card[number]` is a field `number` in a field `card`.
    fn pair(&self, name: &str, value: &str) -> (String, String) {
        let named = self.is_named(name) || name.split(['[', ']']).any(|part| self.is_named(part));
        let shown = if named || !self.is_open { REDACTED } else { value };
        (name.to_owned(), shown.to_owned())
    }

    fn is_named(&self, name: &str) -> bool {
        self.redact.iter().any(|field| field.eq_ignore_ascii_case(name))
    }
}

/// A word, such as `card_declined`, or a short number, such as 406.
fn is_code(text: &str) -> bool {
    let is_number = text.len() <= 6 && text.bytes().all(|byte| byte.is_ascii_digit());
    let mut letters = text.bytes();
    let begins = letters.next().is_some_and(|byte| byte.is_ascii_alphabetic());
    let is_word = begins
        && text.len() <= 64
        && letters.all(|byte| byte.is_ascii_alphabetic() || matches!(byte, b'_' | b'-' | b'.'));
    is_number || is_word
}

/// A sentence of small words: no name, no number and no address can be in it.
fn is_impersonal(text: &str) -> bool {
    let is_small =
        |word: &str| word.bytes().all(|byte| byte.is_ascii_lowercase() || b".,;:!'()-".contains(&byte));
    let mut words = text.split(' ');
    let first = words.next().unwrap_or_default();
    text.len() <= 200 && !first.is_empty() && is_small(&first.to_ascii_lowercase()) && words.all(is_small)
}

/// Headers of answers by which a vendor finds the request, and what it asked for.
const FOR_SUPPORT: [&str; 12] = [
    "request-id",
    "x-request-id",
    "x-correlation-id",
    "x-amzn-requestid",
    "cf-ray",
    "cko-request-id",
    "paypal-debug-id",
    "pspreference",
    "x-plaid-request-id",
    "idempotent-replayed",
    "retry-after",
    "date",
];

/// Members of a failure that hold a code.
const CODES: [&str; 12] = [
    "code",
    "type",
    "error",
    "error_code",
    "errorCode",
    "error_type",
    "errorType",
    "decline_code",
    "issue",
    "name",
    "category",
    "status",
];

/// Members of a failure that hold a sentence.
const SENTENCES: [&str; 7] =
    ["message", "detail", "title", "description", "error_description", "error_message", "refusalReason"];

/// Number of texts that are shown: as much as fits two lines.
const SAID_MAX: usize = 8;

fn is_form(headers: &HeaderMap) -> bool {
    let kind = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    kind.split(';')
        .next()
        .unwrap_or_default()
        .trim()
        .eq_ignore_ascii_case("application/x-www-form-urlencoded")
}
