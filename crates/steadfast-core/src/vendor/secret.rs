//! Headers that carry secrets. A header that a call gives is stored with its operation, in clear or sealed, and shown
//! to operators. A secret that an adapter adds at each send is not stored.

use std::fmt;

use http::HeaderName;

use crate::error::invalid::InputErrorExt;
use crate::error::{Error, Input};
use crate::guard::Guard;
use crate::operation::secret::{SECRET_HEADERS, is_secret};
use crate::request::Request;
use crate::vendor::Vendor;
use crate::vendor::specimen::{Content, stamped};

/// The headers that no call may give: those that carry secrets wherever they are used, those of the client's adapter,
/// and what the client names.
#[derive(Clone)]
pub struct SecretHeaders {
    more: Vec<HeaderName>,
}

impl SecretHeaders {
    /// Returns the headers that carry secrets of a client.
    ///
    /// # Errors
    ///
    /// A validation error if HTTP has no header of one of these names.
    pub fn new(vendor: &dyn Vendor, named: &[String]) -> Result<SecretHeaders, Error> {
        let mut more = vendor.secret_headers();
        for name in named {
            let header = HeaderName::from_bytes(name.as_bytes());
            let problem =
                || Error::invalid(Input::Header, "a name in secret_headers is not a valid header name");
            more.push(header.map_err(|_| problem())?);
        }
        Ok(SecretHeaders { more })
    }

    /// Their names.
    pub fn names(&self) -> impl Iterator<Item = &HeaderName> {
        SECRET_HEADERS.iter().chain(&self.more)
    }

    /// Refuses an adapter that gives one of them before the call is recorded, as far as a made-up call shows it. The
    /// rest is found at the call.
    ///
    /// # Errors
    ///
    /// A validation error that names the header.
    pub fn check_stamp(&self, vendor: &dyn Vendor) -> Result<(), Error> {
        let all = [Content::Form, Content::Json];
        let mut stamps = all.into_iter().filter_map(|content| stamped(vendor, &vendor.keyed_path(), content));
        stamps.try_for_each(|(request, _)| self.check(&request))
    }

    /// Refuses a stamped request that has one of them: it is about to be recorded.
    ///
    /// # Errors
    ///
    /// A validation error that names the header.
    pub fn check(&self, request: &Request) -> Result<(), Error> {
        match request.headers.keys().find(|name| self.contain(name)) {
            None => Ok(()),
            Some(name) => Err(Error::invalid(
                Input::Header,
                format!(
                    "{name} carries a secret, and the adapter gives it before the call is recorded: it would be stored \
                     in clear. A keyed vendor has `auth` for it, an adapter `authorize`"
                ),
            )),
        }
    }

    /// Whether this header carries a secret.
    pub fn contain(&self, name: &HeaderName) -> bool {
        Guard::SecretHeaders.keeps(is_secret(name) || self.more.contains(name))
    }
}

/// The names, which are no secret.
impl fmt::Debug for SecretHeaders {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.names().map(HeaderName::as_str)).finish()
    }
}

/// Returns the error of a call that gives such a header.
pub fn refused(name: &HeaderName) -> Error {
    let problem = format!(
        "{name} carries a secret, and a call's headers are stored with it; give the secret to the adapter, which adds \
         it at each send"
    );
    Error::invalid(Input::Header, problem)
}
