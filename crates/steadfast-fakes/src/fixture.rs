//! The fixture files, read at run time: what the fakes answer is what the files say, not a second copy of it.

use std::collections::HashMap;

use http::StatusCode;
use serde::Serialize;
use serde_json::Value;
use serde_json::value::RawValue;
use wiremock::ResponseTemplate;

/// One answer, before it is put on the wire.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Reply {
    pub(super) status: u16,
    pub(super) headers: Vec<(String, String)>,
    pub(super) body: Vec<u8>,
}

impl Reply {
    /// A JSON answer.
    pub(super) fn json(status: u16, body: &impl Serialize) -> Reply {
        let headers = vec![("Content-Type".to_owned(), "application/json".to_owned())];
        let body = serde_json::to_vec(body).expect("an answer is plain data");
        Reply { status, headers, body }
    }

    /// An answer without a body.
    pub(super) fn empty(status: u16) -> Reply {
        Reply { status, headers: Vec::new(), body: Vec::new() }
    }

    /// Sets a header, replacing one of the same name.
    pub(super) fn header(mut self, name: &str, value: impl Into<String>) -> Reply {
        self.headers.retain(|(other, _)| !other.eq_ignore_ascii_case(name));
        self.headers.push((name.to_owned(), value.into()));
        self
    }

    /// The named header's value.
    #[cfg(test)]
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.headers
            .iter()
            .find(|(other, _)| other.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.as_str())
    }

    /// Replaces a placeholder of the fixture's body. The text is escaped as JSON asks.
    pub(super) fn fill(mut self, placeholder: &str, text: &str) -> Reply {
        let quoted = Value::from(text).to_string();
        let escaped = &quoted[1..quoted.len() - 1];
        self.body = String::from_utf8_lossy(&self.body).replace(placeholder, escaped).into_bytes();
        self
    }

    /// The body as JSON, null if it is not.
    pub(super) fn value(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or(Value::Null)
    }

    /// The response that wiremock sends.
    pub(super) fn template(&self) -> ResponseTemplate {
        let status = StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        // A header that HTTP cannot carry is left out: it came from the request of a test that sends nonsense.
        self.headers
            .iter()
            .filter(|(_, value)| http::HeaderValue::from_str(value).is_ok())
            .fold(ResponseTemplate::new(status), |template, (name, value)| {
                template.insert_header(name.as_str(), value.as_str())
            })
            .set_body_bytes(self.body.clone())
    }
}

/// A JSON value as its text, which is how it is held: taken apart it needs ten times the room.
pub(super) fn text_of(value: &impl Serialize) -> Box<RawValue> {
    serde_json::value::to_raw_value(value).expect("what a fake holds is plain data")
}

/// A value that is held, taken apart.
pub(super) fn parsed(text: &RawValue) -> Value {
    serde_json::from_str(text.get()).expect("it was JSON when it was written")
}

/// One vendor's fixture file: an answer by its name.
#[derive(Debug)]
pub(super) struct Fixtures(HashMap<String, Reply>);

impl Fixtures {
    /// Reads a fixture file that is part of the crate.
    pub(super) fn parse(text: &str) -> Fixtures {
        let file: Value = serde_json::from_str(text)
            .expect("the crate's fixture files are JSON; each fake's tests read them");
        let named = |fixture: &Value| Some((fixture["name"].as_str()?.to_owned(), reply_of(fixture)));
        Fixtures(file["fixtures"].as_array().into_iter().flatten().filter_map(named).collect())
    }

    /// The named fixture's answer.
    pub(super) fn reply(&self, name: &str) -> Reply {
        self.0.get(name).expect("a test holds the names to the file").clone()
    }

    /// The names of all fixtures, for the test that holds each fake to its file.
    #[cfg(test)]
    pub(super) fn names(&self) -> Vec<&str> {
        self.0.keys().map(String::as_str).collect()
    }
}

/// The answer of a fixture. Header values that the file leaves to the fake (`<echo>`) are left out.
fn reply_of(fixture: &Value) -> Reply {
    let status = fixture["status"].as_u64().and_then(|status| u16::try_from(status).ok()).unwrap_or(200);
    let mut reply = match &fixture["body_raw"] {
        Value::String(text) => Reply { status, headers: Vec::new(), body: text.clone().into_bytes() },
        _ => Reply::json(status, &fixture["body"]),
    };
    for (name, value) in fixture["headers"].as_object().into_iter().flatten() {
        if let Some(value) = value.as_str().filter(|value| !value.starts_with('<')) {
            reply = reply.header(name, value);
        }
    }
    reply
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_fixture_keeps_its_status_headers_and_body() {
        let text = r#"{"fixtures":[
            {"name":"a","status":429,"headers":{"X-A":"1","X-Echo":"<echo>"},"body":{"m":"<key>"}},
            {"name":"b","status":502,"headers":{"Content-Type":"text/html"},"body_raw":"<html>"}]}"#;
        let fixtures = Fixtures::parse(text);
        let a = fixtures.reply("a").fill("<key>", "say \"x\"");
        assert_eq!((a.status, a.get("x-a"), a.get("x-echo")), (429, Some("1"), None));
        assert_eq!(a.value(), json!({"m": "say \"x\""}));
        let b = fixtures.reply("b");
        assert_eq!((b.get("content-type"), b.body.as_slice()), (Some("text/html"), b"<html>".as_slice()));
        let mut names = fixtures.names();
        names.sort_unstable();
        assert_eq!(names, ["a", "b"]);
    }

    #[test]
    fn every_fixture_that_a_fake_names_is_in_its_file() {
        for (vendor, distinct) in [("stripe", 11), ("postmark", 16), ("bigcommerce", 20), ("adyen", 40)] {
            let file = std::fs::read_to_string(format!("{CRATE}/fixtures/{vendor}.json")).unwrap();
            let sources = std::fs::read_dir(format!("{CRATE}/src/{vendor}")).unwrap();
            let files = sources.map(|entry| entry.unwrap().path()).filter(|path| path.is_file());
            let source: String = files.map(|path| std::fs::read_to_string(path).unwrap()).collect();
            let fixtures = Fixtures::parse(&file);
            let mut named: Vec<&str> =
                source.split("reply(\"").skip(1).filter_map(|rest| rest.split('"').next()).collect();
            named.sort_unstable();
            named.dedup();
            for name in &named {
                assert!(fixtures.names().contains(name), "{name}");
            }
            assert_eq!(named.len(), distinct, "{vendor}");
        }
    }

    const CRATE: &str = env!("CARGO_MANIFEST_DIR");
}
