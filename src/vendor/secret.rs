//! Headers that carry secrets. What a call gives is stored with its operation, in clear or sealed, and shown to
//! operators; an adapter adds secrets at each send, and they are not stored.

use std::fmt;

use http::HeaderName;

use crate::error::{Error, Input};
use crate::guard::Guard;
use crate::operation::secret::{SECRET_HEADERS, is_secret};
use crate::vendor::Vendor;

/// The headers that no call may give: those that carry secrets wherever they are used, those of the client's adapter,
/// and what the client names.
#[derive(Clone)]
pub(crate) struct SecretHeaders {
    more: Vec<HeaderName>,
}

impl SecretHeaders {
    /// Those of a client.
    ///
    /// # Errors
    ///
    /// A validation error if HTTP has no header of one of these names.
    pub(crate) fn new(vendor: &dyn Vendor, named: &[String]) -> Result<SecretHeaders, Error> {
        let mut more = vendor.secret_headers();
        for name in named {
            let header = HeaderName::from_bytes(name.as_bytes());
            let problem = || Error::invalid(Input::Header, "a name in secret_headers is none that HTTP has");
            more.push(header.map_err(|_| problem())?);
        }
        Ok(SecretHeaders { more })
    }

    /// Their names.
    pub(crate) fn names(&self) -> impl Iterator<Item = &HeaderName> {
        SECRET_HEADERS.iter().chain(&self.more)
    }

    /// Whether this header carries a secret.
    pub(crate) fn contain(&self, name: &HeaderName) -> bool {
        Guard::SecretHeaders.keeps(is_secret(name) || self.more.contains(name))
    }
}

/// The names, which are no secret.
impl fmt::Debug for SecretHeaders {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.names().map(HeaderName::as_str)).finish()
    }
}

/// What a call is told that gives such a header.
pub(crate) fn refused(name: &HeaderName) -> Error {
    let problem = format!(
        "{name} carries a secret, and a call's headers are stored with it; give the secret to the adapter, which adds \
         it at each send"
    );
    Error::invalid(Input::Header, problem)
}
