//! async-stripe over steadfast: its typed requests, sent by a [`steadfast::Client`].
//!
//! ```ignore
//! let stripe = Carrier::new(client);
//! let key = RequestStrategy::Idempotent(IdempotencyKey::new("order-42/charge")?);
//! let intent = CreatePaymentIntent::new(1000, Currency::USD).customize().request_strategy(key).send(&stripe).await?;
//! ```
//!
//! Of async-stripe's strategies only the key is taken. Whether a request is sent again is steadfast's to decide.

use std::fmt;

use bytes::Bytes;
use steadfast::http::Method;
use steadfast::{Call, Client, Effect};
use stripe_client_core::{
    CustomizedStripeRequest, RequestStrategy, StripeClient, StripeClientErr, StripeMethod, VERSION,
};

/// Sends async-stripe's requests. Make the client with the adapter `steadfast::vendor::Stripe`, which has the secret.
#[derive(Clone, Debug)]
pub struct Carrier {
    client: Client,
}

impl Carrier {
    pub fn new(client: Client) -> Carrier {
        Carrier { client }
    }

    fn call(&self, request: CustomizedStripeRequest) -> Call {
        let (request, own) = request.into_pieces();
        let method = match request.method {
            StripeMethod::Get => Method::GET,
            StripeMethod::Post => Method::POST,
            StripeMethod::Delete => Method::DELETE,
        };
        let query = request.query.map(|query| format!("?{query}")).unwrap_or_default();
        let mut call = self.client.request(method.clone(), &format!("/v1{}{query}", request.path));
        // The version that async-stripe's types were made of.
        call = call.header("Stripe-Version", VERSION.as_str());
        if let Some(body) = request.body {
            call = call.header("Content-Type", "application/x-www-form-urlencoded").bytes(body);
        }
        if let Some(account) = own.account_id {
            call = call.header("Stripe-Account", account.as_str());
        }
        if let Some(limit) = own.timeout {
            call = call.deadline(limit);
        }
        match own.request_strategy {
            // A read is not recorded, and not replayed.
            Some(RequestStrategy::Idempotent(key)) if method != Method::GET => call.key(key.as_str()),
            _ => call,
        }
    }
}

impl StripeClient for Carrier {
    type Err = StripeError;

    fn execute(
        &self,
        request: CustomizedStripeRequest,
    ) -> impl Future<Output = Result<Bytes, StripeError>> + Send {
        let call = self.call(request);
        async move {
            let reply = call.send().await.map_err(StripeError::Call)?;
            Ok(reply.bytes().clone())
        }
    }
}

/// Why there is no typed answer.
#[derive(Debug)]
pub enum StripeError {
    /// The call failed: `answer()` of it has Stripe's own words.
    Call(steadfast::Error),
    /// The call succeeded, and async-stripe could not read its reply.
    Unreadable(String),
}

impl StripeError {
    /// The effect that the request had.
    pub fn effect(&self) -> Effect {
        match self {
            StripeError::Call(error) => error.effect(),
            StripeError::Unreadable(_) => Effect::Applied,
        }
    }
}

impl StripeClientErr for StripeError {
    fn deserialize_err(problem: impl fmt::Display) -> StripeError {
        StripeError::Unreadable(problem.to_string())
    }
}

impl fmt::Display for StripeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StripeError::Call(error) => fmt::Display::fmt(error, f),
            StripeError::Unreadable(problem) => write!(f, "{problem}; effect {}", self.effect()),
        }
    }
}

impl std::error::Error for StripeError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            StripeError::Call(error) => error.source(),
            StripeError::Unreadable(_) => None,
        }
    }
}
