//! Vendor, operation and attempt that an error belongs to.

#![allow(missing_docs, reason = "for the crates of this workspace alone")]

use std::fmt;

use http::Method;
use url::Url;

/// The vendor, the call and the operation that an error is about; as much of it as was known.
#[derive(Clone, Default)]
pub struct Context {
    pub vendor: Option<String>,
    pub method: Option<Method>,
    /// The path as it may be shown.
    pub path: Option<String>,
    /// The operation's scope. It names the record, so that it holds all segments of the path: an accessor gives it, and
    /// neither `Display` nor `Debug` shows it.
    pub operation: Option<String>,
    pub key: Option<String>,
    pub wire_key: Option<String>,
}

/// Says which call it was, long after it was made: a reply keeps this for the case that it cannot be read.
pub trait Origin: fmt::Debug + Send + Sync {
    /// The vendor, the method and the path as it may be shown.
    fn context(&self, method: &Method, url: &Url) -> Context;
}

impl Context {
    /// Names the vendor alone; nothing, if it has no name.
    pub fn of_vendor(name: &str) -> Context {
        let vendor = (!name.is_empty()).then(|| name.to_owned());
        Context { vendor, ..Context::default() }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.vendor.is_none() && self.method.is_none() && self.path.is_none() && self.key.is_none()
    }
}

/// `stripe POST /v1/charges (key order-42)`.
impl fmt::Display for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let method = self.method.as_ref().map(Method::as_str);
        let mut gap = "";
        for part in [self.vendor.as_deref(), method, self.path.as_deref()].into_iter().flatten() {
            write!(f, "{gap}{part}")?;
            gap = " ";
        }
        match &self.key {
            Some(key) => write!(f, "{gap}(key {key})"),
            None => Ok(()),
        }
    }
}

impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Context")
            .field("vendor", &self.vendor)
            .field("method", &self.method)
            .field("path", &self.path)
            .field("key", &self.key)
            .field("wire_key", &self.wire_key)
            .finish_non_exhaustive()
    }
}
