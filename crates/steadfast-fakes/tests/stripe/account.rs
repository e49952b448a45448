//! An account at the Stripe fake, as a test asks it: over a socket or in process.

use http::Method;
use serde_json::Value;

pub trait Asks {
    /// The answer to a request whose path begins below `/v1/`.
    async fn ask(&self, method: Method, path: &str, form: &str) -> Value;

    async fn make(&self, path: &str, form: &str) -> Value {
        let made = self.ask(Method::POST, path, form).await;
        assert_eq!(made["error"], Value::Null, "{path} {form}");
        made
    }

    async fn get(&self, path: &str) -> Value {
        let found = self.ask(Method::GET, path, "").await;
        assert_eq!(found["error"], Value::Null, "{path}");
        found
    }
}
