//! A made-up call, stamped. It shows the behaviour of an adapter before there is a real call: for how long the vendor
//! replays, where its key goes, which values are recorded with each call.

#![allow(missing_docs, reason = "for the crates of this workspace alone")]

use http::header::{CONTENT_TYPE, HeaderValue};
use http::{HeaderMap, Method};

use super::Vendor;
use crate::operation::{Key, OperationId, Scope};
use crate::request::Request;

/// Body of a made-up call: adapters judge by its media type.
#[derive(Clone, Copy)]
pub enum Content {
    Form,
    Json,
}

/// A POST to `route` below the base URL as `vendor` stamps it, and the key as the vendor is shown it; `None` if the
/// vendor takes no such call.
pub fn stamped(vendor: &dyn Vendor, route: &str, content: Content) -> Option<(Request, String)> {
    let (media_type, body) = match content {
        Content::Form => ("application/x-www-form-urlencoded", ""),
        Content::Json => ("application/json", "{}"),
    };
    let mut url = vendor.base_url().clone();
    url.set_path(&[url.path().trim_end_matches('/'), route].concat());
    let mut request = Request::new(Method::POST, url);
    request.headers.insert(CONTENT_TYPE, HeaderValue::from_static(media_type));
    request.body = body.into();
    let account = vendor.account(&HeaderMap::new());
    let scope = Scope::new("default", vendor.name(), &account, &Method::POST, route);
    let id = OperationId::new(scope, Key::new("specimen").ok()?);
    let shown = vendor.stamp(id.wire_key(), &mut request).ok()?;
    Some((request, shown))
}
