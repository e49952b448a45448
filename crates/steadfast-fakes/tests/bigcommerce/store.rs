//! A store of the BigCommerce fake that is reached without a socket.

use http::Method;
use serde_json::Value;
use steadfast_fakes::{BigCommerceFake, FakeBuilder, InProcess};
use support::answers::asked;

pub struct Store {
    pub fake: BigCommerceFake,
    pub network: InProcess,
}

impl Store {
    pub fn of(builder: FakeBuilder<BigCommerceFake>) -> Store {
        let fake = builder.in_process();
        let network = fake.transport();
        Store { fake, network }
    }

    /// Sends a body, unless it is null. The status and the body of the answer.
    pub async fn ask(&self, method: Method, path: &str, body: Value) -> (u16, Value) {
        self.ask_as("x-auth-token", "t", method, &format!("/stores/s{path}"), body).await
    }

    pub async fn ask_as(
        &self,
        header: &'static str,
        secret: &str,
        method: Method,
        path: &str,
        body: Value,
    ) -> (u16, Value) {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        asked(&self.network, method, path, &[(header, secret)], body).await
    }

    pub async fn made(&self, path: &str, body: Value) -> Value {
        let (status, made) = self.ask(Method::POST, path, body).await;
        assert!((200..300).contains(&status), "{path}: {made}");
        if path.starts_with("/v3/") { made["data"].clone() } else { made }
    }

    pub async fn read(&self, path: &str) -> Value {
        let (status, found) = self.ask(Method::GET, path, Value::Null).await;
        assert_eq!(status, 200, "{path}: {found}");
        if path.starts_with("/v3/") { found["data"].clone() } else { found }
    }

    pub async fn set(&self, path: &str, body: Value) -> Value {
        let (status, changed) = self.ask(Method::PUT, path, body.clone()).await;
        assert_eq!(status, 200, "{path} {body}: {changed}");
        if path.starts_with("/v3/") { changed["data"].clone() } else { changed }
    }

    pub async fn refused(&self, method: Method, path: &str, body: Value) -> String {
        let (status, refused) = self.ask(method, path, body.clone()).await;
        assert!((400..500).contains(&status), "{path} {body}: {refused}");
        let said = [&refused[0]["message"], &refused["data"][0]["title"], &refused["title"]];
        said.iter().find_map(|said| said.as_str()).unwrap().to_owned()
    }

    /// How many of this product are left.
    pub async fn stock(&self, product: u32) -> Value {
        self.read(&format!("/v3/catalog/products/{product}")).await["inventory_level"].clone()
    }
}
