//! The words that Stripe says when it says no.
//!
//! The shape and the codes are documented (<https://docs.stripe.com/api/errors>, <https://docs.stripe.com/error-codes>);
//! the sentences are composed after published answers, and a client must not read them.

use serde_json::{Map, Value, json};

use super::super::fixture::Reply;

/// An error of the API.
#[derive(Debug)]
pub(super) struct Refusal {
    status: u16,
    error: Map<String, Value>,
    /// Whether execution had begun: then it is the key's answer from now on.
    pub(super) executed: bool,
    /// Whether what the write did before it was refused stays. Else it is taken back.
    pub(super) leaves: bool,
}

impl Refusal {
    /// A parameter that is not as it should be: found before execution.
    pub(super) fn param(param: &str, message: impl Into<String>) -> Refusal {
        Refusal::new(400, message).with("param", param)
    }

    /// A refusal of what the object's state does not allow: found in execution.
    pub(super) fn state(code: &str, message: impl Into<String>) -> Refusal {
        Refusal { executed: true, ..Refusal::new(400, message).code(code) }
    }

    /// Money that does not add up: found in execution.
    pub(super) fn amount(message: impl Into<String>) -> Refusal {
        Refusal { executed: true, ..Refusal::param("amount", message) }
    }

    /// The same, of a parameter inside of another.
    pub(super) fn within(mut self, outer: &str) -> Refusal {
        if let Some(param) = self.error.get("param").and_then(Value::as_str) {
            let param = format!("{outer}[{param}]");
            self.error.insert("param".to_owned(), Value::from(param));
        }
        self
    }

    /// Parameters of which only one may be sent. The first is named.
    pub(super) fn exclusive(params: &[&str]) -> Refusal {
        let message = format!("You may only specify one of these parameters: {}.", params.join(", "));
        Refusal::param(params.first().copied().unwrap_or_default(), message).code("parameters_exclusive")
    }

    pub(super) fn missing(param: &str) -> Refusal {
        Refusal::param(param, format!("Missing required param: {param}.")).code("parameter_missing")
    }

    pub(super) fn unknown(param: &str) -> Refusal {
        Refusal::param(param, format!("Received unknown parameter: {param}")).code("parameter_unknown")
    }

    /// An id in a parameter that no object has.
    pub(super) fn no_such(object: &str, id: &str, param: &str) -> Refusal {
        Refusal::param(param, format!("No such {object}: '{id}'")).code("resource_missing")
    }

    /// An id in the path that no object has.
    pub(super) fn not_found(object: &str, id: &str) -> Refusal {
        let param = if object == "payment_intent" || object == "setup_intent" { "intent" } else { "id" };
        Refusal { status: 404, ..Refusal::no_such(object, id, param) }
    }

    pub(super) fn unknown_url(method: &str, path: &str) -> Refusal {
        Refusal::new(404, format!("Unrecognized request URL ({method}: {path})."))
    }

    /// A card that is declined. `more` is of the request: the charge, the intent.
    pub(super) fn card(code: &str, decline_code: &str, message: &str) -> Refusal {
        let mut refusal = Refusal { status: 402, executed: true, ..Refusal::new(402, message).code(code) };
        refusal.error.insert("type".to_owned(), Value::from("card_error"));
        refusal.with("decline_code", decline_code)
    }

    /// One that has neither a code nor a parameter.
    pub(super) fn plain(message: impl Into<String>) -> Refusal {
        Refusal::new(400, message)
    }

    /// Found in execution.
    pub(super) fn in_execution(self) -> Refusal {
        Refusal { executed: true, ..self }
    }

    fn new(status: u16, message: impl Into<String>) -> Refusal {
        let mut error = Map::new();
        error.insert("message".to_owned(), Value::from(message.into()));
        error.insert("type".to_owned(), Value::from("invalid_request_error"));
        Refusal { status, error, executed: false, leaves: false }
    }

    pub(super) fn code(self, code: &str) -> Refusal {
        let page = format!("https://stripe.com/docs/error-codes/{}", code.replace('_', "-"));
        self.with("code", code).with("doc_url", page)
    }

    pub(super) fn with(mut self, name: &str, value: impl Into<Value>) -> Refusal {
        self.error.insert(name.to_owned(), value.into());
        self
    }

    /// A version that is none. The words were seen (stripe-java#682).
    pub(super) fn version(version: &str) -> Refusal {
        Refusal::new(400, format!("Invalid Stripe API version: {version}"))
    }

    /// Leaves what was attempted: a payment that was declined is a charge that failed.
    pub(super) fn leaving(self) -> Refusal {
        Refusal { leaves: true, ..self }
    }

    /// Nothing stays of what was attempted, so nothing of it is named.
    pub(super) fn without_trace(mut self) -> Refusal {
        for name in ["charge", "payment_intent", "payment_method"] {
            self.error.remove(name);
        }
        Refusal { leaves: false, ..self }
    }

    /// The error as an intent keeps it.
    pub(super) fn error(&self) -> Value {
        Value::Object(self.error.clone())
    }

    pub(super) fn reply(&self) -> Reply {
        Reply::json(self.status, &json!({ "error": self.error }))
    }
}
