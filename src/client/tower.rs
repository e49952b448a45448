//! A client as a service of tower.

use std::task::{Context, Poll};

use bytes::Bytes;
use tower_service::Service;

use steadfast_core::{BoxFuture, Error};

use super::Client;

/// Takes a request of the crate `http` and returns its response, as [`execute`](Client::execute) does. Layers of tower
/// may lie above it, and typed clients take it as theirs.
///
/// ```
/// # #[cfg(feature = "testkit")]
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # use tower_service::Service;
/// # let fake = steadfast::testkit::fakes::StripeFake::builder().in_process();
/// # let stripe = steadfast::Client::builder(steadfast::vendor::Stripe::new("sk_test_123"));
/// # let mut stripe = stripe.transport(fake.transport()).build()?;
/// use steadfast::http::Request;
///
/// let request = Request::post("/v1/payment_intents")
///     .header("Idempotency-Key", "order-42/charge")
///     .header("Content-Type", "application/x-www-form-urlencoded")
///     .body("amount=1000&currency=usd")?;
/// let response = stripe.call(request).await?;
/// assert_eq!(response.status(), 200);
/// # Ok(())
/// # }
/// # #[cfg(not(feature = "testkit"))]
/// # fn main() {}
/// ```
///
/// A refusal is an error, with the vendor's answer in it: see [`Error::into_answer`]. The service is always ready. A
/// gate's refusal is the error of the call, because only a call has a key to look up on record. A layer above that
/// retries multiplies the sends of a call without a key.
impl<B: Into<Bytes>> Service<http::Request<B>> for Client {
    type Response = http::Response<Bytes>;
    type Error = Error;
    type Future = BoxFuture<'static, Result<http::Response<Bytes>, Error>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<B>) -> Self::Future {
        let sending = self.http(request).send();
        Box::pin(async move { sending.await.map(http::Response::from) })
    }
}
