//! The answer of a fake over a socket, as a test looks at it.

use std::sync::LazyLock;

use http::{HeaderValue, Method};
use reqwest::{RequestBuilder, Response};
use serde_json::Value;
use steadfast_core::transport::{Limits, Request, Transport};

/// A client of fakes. Reading the machine's root certificates takes longer than a test does: all tests share one.
/// It keeps no connection, which would end with the runtime of the test that opened it.
pub fn client() -> reqwest::Client {
    static CLIENT: LazyLock<reqwest::Client> =
        LazyLock::new(|| reqwest::Client::builder().pool_max_idle_per_host(0).build().expect("a client"));
    CLIENT.clone()
}

/// The status and the body; null if there is none.
pub async fn told(request: RequestBuilder) -> (u16, Value) {
    let answer = request.send().await.expect("an answer");
    let status = answer.status().as_u16();
    let body = answer.bytes().await.expect("a body");
    let value = if body.is_empty() { Value::Null } else { json(&body) };
    (status, value)
}

pub async fn json_of(answer: Response) -> Value {
    json(&answer.bytes().await.expect("a body"))
}

fn json(body: &[u8]) -> Value {
    serde_json::from_slice(body).unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(body)))
}

/// That an object has these members, of these values.
#[track_caller]
pub fn shows(object: &Value, members: &Value) {
    for (name, value) in members.as_object().expect("members") {
        assert_eq!(object[name], *value, "{name} of {object}");
    }
}

/// The body with another value at the place of this JSON pointer.
pub fn with(mut body: Value, pointer: &str, value: Value) -> Value {
    let (parent, name) = pointer.rsplit_once('/').expect("a pointer");
    body.pointer_mut(parent).expect("what the pointer is below")[name] = value;
    body
}

pub fn header<'a>(answer: &'a Response, name: &str) -> Option<&'a str> {
    answer.headers().get(name).map(|value| value.to_str().expect("text"))
}

/// One of the fixtures in a file of `crates/steadfast-fakes/fixtures`.
pub fn fixture(file: &str, name: &str) -> Value {
    let file: Value = serde_json::from_str(file).expect("a file of fixtures");
    let all = file["fixtures"].as_array().expect("fixtures");
    all.iter().find(|fixture| fixture["name"] == name).expect("a fixture of this name").clone()
}

/// Carries out an order for webhooks at the fake with this URL, and ends when all is sent.
pub async fn order_webhooks(fake_url: String, order: &Value) -> Value {
    let call = client().post(format!("{fake_url}/_fake/webhooks"));
    let (status, done) = told(call.body(order.to_string())).await;
    assert_eq!(status, 200, "{done}");
    done
}

/// Asks a fake without a socket: the status and the body, null if there is none.
pub async fn asked(
    fake: &impl Transport,
    method: Method,
    path: &str,
    headers: &[(&'static str, &str)],
    body: String,
) -> (u16, Value) {
    let mut request = Request::new(method, format!("http://fake.test{path}").parse().expect("a URL"));
    for (name, value) in headers {
        request.headers.insert(*name, HeaderValue::from_str(value).expect("a value"));
    }
    request.body = body.into();
    let answer = fake.send(request, Limits::new(100_000_000)).await.expect("an answer");
    (answer.status.as_u16(), answer.json().unwrap_or_default())
}
