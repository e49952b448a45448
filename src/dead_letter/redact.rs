//! The view of requests and replies: what is shown, and what is redacted.
//!
//! Bodies and headers hold names, addresses and amounts, and end in terminals' histories and in tickets. Therefore
//! they are withheld, unless an operator asks with a name and a reason, which go on the audit record. A named field
//! is redacted even then, whether the viewer or the call named it. A body that cannot be read as fields is then
//! withheld whole: a redaction that guesses is none.

use http::HeaderMap;
use http::header::{CONTENT_TYPE, HeaderName};
use serde_json::Value;
use url::Url;
use url::form_urlencoded;

use crate::operation::REDACTED;

/// How much is shown. The default withholds bodies, the values of headers and of the query.
///
/// ```
#[doc = include_str!("../docs/setup/dead_letters.md")]
/// use steadfast::dead_letter::View;
///
/// let id = letters.find("order-42/receipt").await?;
/// let view = View::opened("ada", "ticket 7").redact(["To"]);
/// let shown = letters.show(&id, &view).await?;
/// let body = shown.request.body.expect("it was asked for");
/// assert!(body.contains("shop@example.com") && !body.contains("ann@example.com"));
#[doc = include_str!("../docs/setup/end.md")]
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct View {
    /// By whom, and why.
    pub(super) opened: Option<(String, String)>,
    pub(super) redact: Vec<String>,
}

impl View {
    /// Bodies and values withheld.
    pub fn closed() -> View {
        View::default()
    }

    /// Bodies and values shown, to an operator who gives a name and a reason. Both are needed.
    pub fn opened(by: impl Into<String>, why: impl Into<String>) -> View {
        View { opened: Some((by.into(), why.into())), redact: Vec::new() }
    }

    /// Never shows the values of fields, headers or query parameters with these names, at any depth. Upper and
    /// lower case are the same.
    #[must_use]
    pub fn redact<T: Into<String>>(mut self, fields: impl IntoIterator<Item = T>) -> View {
        self.redact.extend(fields.into_iter().map(|field| field.into().to_ascii_lowercase()));
        self
    }

    pub(super) fn url(&self, url: &Url) -> String {
        let Some(_) = url.query() else { return url.to_string() };
        let mut shown = url.clone();
        let pairs: Vec<_> = url.query_pairs().map(|(name, value)| self.pair(&name, &value)).collect();
        shown.query_pairs_mut().clear().extend_pairs(pairs);
        shown.to_string()
    }

    pub(super) fn headers(&self, headers: &HeaderMap) -> Vec<(String, String)> {
        let shown = |name: &HeaderName, value: &[u8]| {
            let hidden = self.opened.is_none()
                || SECRET_HEADERS.contains(&name.as_str())
                || self.is_named(name.as_str());
            let value =
                if hidden { REDACTED.to_owned() } else { String::from_utf8_lossy(value).into_owned() };
            (name.as_str().to_owned(), value)
        };
        headers.iter().map(|(name, value)| shown(name, value.as_bytes())).collect()
    }

    /// The body as text, or why it is withheld.
    pub(super) fn body(&self, headers: &HeaderMap, body: &[u8]) -> Result<String, &'static str> {
        if self.opened.is_none() && !body.is_empty() {
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
        let shown = if named || self.opened.is_none() { REDACTED } else { value };
        (name.to_owned(), shown.to_owned())
    }

    fn is_named(&self, name: &str) -> bool {
        self.redact.iter().any(|field| field.eq_ignore_ascii_case(name))
    }
}

fn is_form(headers: &HeaderMap) -> bool {
    let kind = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    kind.split(';')
        .next()
        .unwrap_or_default()
        .trim()
        .eq_ignore_ascii_case("application/x-www-form-urlencoded")
}

/// Headers that hold credentials. Secrets are never stored; a caller's own mistake or a vendor's cookie is not
/// to be shown either.
const SECRET_HEADERS: [&str; 5] =
    ["authorization", "proxy-authorization", "cookie", "set-cookie", "x-auth-token"];
