//! The place of a key in a request.

use http::{HeaderValue, Method};
use serde::{Deserialize, Serialize};

use crate::error::{Error, Input};
use crate::request::Request;
use crate::vendor::body::RawObject;

/// Place of a key in a request.
///
/// ```
/// use steadfast::http::Method;
/// use steadfast::transport::Request;
/// use steadfast::vendor::KeyPlace;
///
/// let mut request = Request::new(Method::POST, "https://api.parcels.example/parcels".parse()?);
/// request.body = r#"{"weight":10.00}"#.into();
/// let place = KeyPlace::Body("reference".to_owned());
/// place.put("order-42", &mut request)?;
/// assert_eq!(request.body, r#"{"weight":10.00,"reference":"order-42"}"#);
/// assert!(place.is_in(&request));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum KeyPlace {
    /// A header of this name.
    Header(String),
    /// A member of this name, at the top of a JSON body.
    Body(String),
}

impl KeyPlace {
    /// Puts `key` there, and leaves every other byte of the request as it is. For [`Vendor::stamp`].
    ///
    /// A GET and a HEAD have no effect and get no key. Neither does a PUT or a DELETE without a body, whose place
    /// would be in it: HTTP lets both be repeated.
    ///
    /// # Errors
    ///
    /// A validation error if the caller has set a key of their own, if the body has no room for one, or if a header
    /// cannot carry it.
    ///
    /// [`Vendor::stamp`]: crate::vendor::Vendor::stamp
    pub fn put(&self, key: &str, request: &mut Request) -> Result<(), Error> {
        if request.method.is_safe() {
            return Ok(());
        }
        match self {
            KeyPlace::Header(name) => {
                let Ok(header) = http::HeaderName::from_bytes(name.as_bytes()) else {
                    return Err(Error::validation(Input::Header, "`key.header` is not the name of a header"));
                };
                if request.headers.contains_key(&header) {
                    return Err(Error::validation(Input::Header, set_twice(header.as_str())));
                }
                let value = header_value(header.as_str(), key)?;
                request.headers.insert(header, value);
            }
            KeyPlace::Body(_) if request.body.is_empty() && request.method != Method::POST => {}
            KeyPlace::Body(field) => {
                let mut body = RawObject::parse(&request.body)?;
                if body.get(field).is_some() {
                    return Err(Error::validation(Input::Body, set_twice(&format!("`{field}`"))));
                }
                body.set(field, &key)?;
                request.body = body.to_bytes()?;
            }
        }
        Ok(())
    }

    /// Whether a request has a key there. For [`Vendor::replay_window`]: without one the vendor replays nothing.
    ///
    /// [`Vendor::replay_window`]: crate::vendor::Vendor::replay_window
    pub fn is_in(&self, request: &Request) -> bool {
        match self {
            KeyPlace::Header(name) => request.headers.contains_key(name.as_str()),
            KeyPlace::Body(field) => {
                RawObject::parse(&request.body).is_ok_and(|body| body.get(field).is_some())
            }
        }
    }
}

fn set_twice(place: &str) -> String {
    format!("{place} is set by the client; name the operation with its key instead")
}

/// A header's value made from text that we chose ourselves.
///
/// # Errors
///
/// A validation error that names the header if the text cannot be one.
pub fn header_value(name: &str, text: &str) -> Result<HeaderValue, Error> {
    let problem =
        || Error::validation(Input::Header, format!("{name}: a character that a header cannot carry"));
    HeaderValue::from_str(text).map_err(|_| problem())
}
