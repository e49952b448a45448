//! The crate postmark over steadfast: its typed endpoints, sent by a [`steadfast::Client`].
//!
//! ```ignore
//! let postmark = Carrier::new(client);
//! let sent = SendEmailRequest::builder().from("…").to("…").body(Body::text("…")).build();
//! let sent = sent.execute(&postmark.keyed("order-42/mail")).await?;
//! ```

use async_trait::async_trait;
use bytes::Bytes;
use steadfast::http::{Request, Response};
use steadfast::{Client, Error};

/// Sends postmark's requests. Make the client with the adapter `steadfast::vendor::Postmark`, which has the token.
#[derive(Clone, Debug)]
pub struct Carrier {
    client: Client,
    key: Option<String>,
}

impl Carrier {
    /// Without a key a mail is safe to retry, and not safe to send twice.
    pub fn new(client: Client) -> Carrier {
        Carrier { client, key: None }
    }

    /// For the one mail that this key names. postmark's requests have no place for it.
    #[must_use]
    pub fn keyed(&self, key: impl Into<String>) -> Carrier {
        Carrier { client: self.client.clone(), key: Some(key.into()) }
    }
}

#[async_trait]
impl postmark::Client for Carrier {
    type Error = Error;

    async fn execute(&self, request: Request<Bytes>) -> Result<Response<Bytes>, Error> {
        // A read is not recorded, and not replayed.
        let key = self.key.clone().filter(|_| !request.method().is_safe());
        let mut call = self.client.http(request);
        if let Some(key) = key {
            call = call.key(key);
        }
        let error = match call.send().await {
            Ok(reply) => return Ok(reply.into()),
            Err(error) => error,
        };
        // To postmark a refusal is an answer: it reads Postmark's own words.
        match error.answer() {
            Some(answer) if error.is_refused() => Ok(answer.clone().into()),
            _ => Err(error),
        }
    }
}
