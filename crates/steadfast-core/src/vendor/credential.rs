//! Secrets that do not print.

use http::HeaderMap;
use http::header::{HeaderName, HeaderValue};
use secrecy::{ExposeSecret, SecretString};

use crate::error::{Error, Input};

/// A secret, as the value of the header that carries it.
///
/// It is made once and shared by reference count, so that a send allocates nothing for it. The value is marked
/// sensitive: neither `Debug` nor HPACK's tables show it, and a call that gives its header is refused.
///
/// ```
/// use steadfast::vendor::Credential;
///
/// let token = Credential::new("Bearer ", "a-token");
/// token.check()?;
/// assert!(!format!("{token:?}").contains("a-token"));
/// assert!(Credential::new("Bearer ", "").check().is_err());
/// # Ok::<(), steadfast::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Credential {
    value: Result<HeaderValue, &'static str>,
}

impl Credential {
    /// `prefix` and `secret` as one value, such as `"Bearer "` and a token.
    pub fn new(prefix: &str, secret: impl Into<SecretString>) -> Credential {
        let secret = secret.into();
        let text = secret.expose_secret();
        if text.trim().is_empty() {
            return Credential { value: Err("it is empty") };
        }
        let line = SecretString::from(format!("{prefix}{text}"));
        let value = HeaderValue::from_str(line.expose_secret()).map(|mut value| {
            value.set_sensitive(true);
            value
        });
        Credential {
            value: value.map_err(
                |_| "it holds a character that a header cannot carry, such as a line break at its end",
            ),
        }
    }

    /// Refuses a secret that is empty, or that a header cannot carry.
    ///
    /// # Errors
    ///
    /// A validation error if the secret is empty or a header cannot carry it. It does not quote the secret.
    pub fn check(&self) -> Result<(), Error> {
        match &self.value {
            Ok(_) => Ok(()),
            Err(problem) => Err(Error::validation(Input::Secret, *problem)),
        }
    }

    /// Puts the value into a header. A call without one is never sent: `check` refuses it.
    pub fn put(&self, name: HeaderName, headers: &mut HeaderMap) {
        if let Ok(value) = &self.value {
            headers.insert(name, value.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_or_broken_secret_is_refused_and_never_shown() {
        for bad in ["", "  ", "sk_live_x\r\nX-Evil: 1"] {
            let credential = Credential::new("Bearer ", bad);
            assert_eq!(credential.check().expect_err(bad).code(), "VALIDATION.secret");
            assert!(!format!("{credential:?}").contains("sk_live"));
        }
        let good = Credential::new("Bearer ", "sk_live_x");
        good.check().expect("a secret");
        assert!(!format!("{good:?}").contains("sk_live"), "{good:?}");
    }
}
