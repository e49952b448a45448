//! The fake of Adyen, asked over a socket with an API key.

use reqwest::Method;
use serde_json::Value;
use steadfast_fakes::AdyenFake;

use support::answers;

/// Status and body; null if there is none.
pub async fn ask(
    fake: &AdyenFake,
    method: &str,
    path: &str,
    body: &(impl ToString + ?Sized),
) -> (u16, Value) {
    let method: Method = method.parse().expect("a method");
    let call = answers::client().request(method, format!("{}{path}", fake.url()));
    answers::told(call.header("X-API-Key", "AQE").body(body.to_string())).await
}

/// The body of a success.
pub async fn ok(fake: &AdyenFake, method: &str, path: &str, body: &(impl ToString + ?Sized)) -> Value {
    let (status, told) = ask(fake, method, path, body).await;
    assert!((200..300).contains(&status), "{method} {path}: {status} {told}");
    told
}
