//! Requests to the fake of BigCommerce, as its tests send them.

use http::Method;
use reqwest::RequestBuilder;
use serde_json::{Value, json};
use steadfast_fakes::BigCommerceFake;

use support::answers::{client, told};

pub fn call(fake: &BigCommerceFake, method: Method, path: &str) -> RequestBuilder {
    client()
        .request(method, format!("{}/stores/hash{path}", fake.url()))
        .header("X-Auth-Token", "token")
        .header("Content-Type", "application/json")
}

/// The `payments` of a refund of this amount, by the merchant's own hand.
pub fn paid(amount: f64) -> Value {
    json!([{ "provider_id": "custom", "amount": amount, "offline": true }])
}

/// Sends a body, unless it is null. The status and the body of the answer.
pub async fn ask(fake: &BigCommerceFake, method: Method, path: &str, body: &Value) -> (u16, Value) {
    let request = call(fake, method, path);
    told(if body.is_null() { request } else { request.body(body.to_string()) }).await
}

/// The status and the body of what is there.
pub async fn get(fake: &BigCommerceFake, path: &str) -> (u16, Value) {
    ask(fake, Method::GET, path, &Value::Null).await
}

/// The body of what is there.
pub async fn body_of(fake: &BigCommerceFake, path: &str) -> Value {
    get(fake, path).await.1
}

/// Makes something; what V3 answers is without its envelope.
pub async fn made(fake: &BigCommerceFake, path: &str, body: &Value) -> Value {
    let (status, made) = ask(fake, Method::POST, path, body).await;
    assert!((200..300).contains(&status), "{path}: {made}");
    if path.starts_with("/v3/") { made["data"].clone() } else { made }
}
