//! A form body, decoded.

use serde_json::{Map, Value};
use wiremock::Request;

/// A request's parameters, in the order sent.
#[derive(Debug)]
pub(super) struct Params(Vec<(String, String)>);

impl Params {
    /// Query and body together: Stripe takes parameters from both.
    pub(super) fn of(request: &Request) -> Params {
        let body = url::form_urlencoded::parse(&request.body).into_owned();
        Params(request.url.query_pairs().into_owned().chain(body).collect())
    }

    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// The parameters as one text: two requests are the same if these are equal.
    pub(super) fn text(&self) -> String {
        url::form_urlencoded::Serializer::new(String::new()).extend_pairs(&self.0).finish()
    }

    /// The parameters as an object's fields: `metadata[a]=b` becomes `{"metadata":{"a":"b"}}`. Amounts become
    /// numbers, as Stripe answers them; everything else stays text.
    pub(super) fn fields(&self) -> Map<String, Value> {
        let mut fields = Map::new();
        for (key, value) in &self.0 {
            let (name, inner) = match key.split_once('[') {
                Some((name, rest)) => (name, Some(rest.trim_end_matches(']'))),
                None => (key.as_str(), None),
            };
            match inner {
                Some(inner) => {
                    let field = fields.entry(name).or_insert_with(|| Value::Object(Map::new()));
                    if let Value::Object(object) = field {
                        object.insert(inner.to_owned(), Value::from(value.as_str()));
                    }
                }
                None => {
                    let number = value.parse::<i64>().ok().filter(|_| name.contains("amount"));
                    fields.insert(
                        name.to_owned(),
                        number.map_or_else(|| Value::from(value.as_str()), Value::from),
                    );
                }
            }
        }
        fields
    }
}
