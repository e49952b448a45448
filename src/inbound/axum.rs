//! [`Inbound`] as an axum extractor. It never rejects: a request that says nothing allows everything.

use std::convert::Infallible;

use axum_core::extract::FromRequestParts;
use http::request::Parts;

use super::Inbound;

impl<S: Sync> FromRequestParts<S> for Inbound {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Inbound, Infallible> {
        Ok(Inbound::from_headers(&parts.headers))
    }
}
