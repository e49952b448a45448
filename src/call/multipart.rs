//! [`Multipart`]: a form with files (RFC 7578), whose bytes depend on its parts alone.
//!
//! A usual library draws its boundary at random, so that the same upload is another body each time. A repeat of its
//! key would then be another request, and a resend other bytes than the ones that the vendor may have. Here the
//! boundary is a hash of the parts. No part can contain it, because no text with its own hash in it can be found.

use std::fmt;

use bytes::{Bytes, BytesMut};
use http::HeaderValue;
use http::header::CONTENT_TYPE;
use sha2::{Digest, Sha256};

use steadfast_core::internal::ext::InputErrorExt;
use steadfast_core::{Error, Input};

use super::Call;

/// A form with files, for [`Call::multipart`].
///
/// The same parts in the same order are the same bytes. `Debug` shows their names and lengths.
///
/// ```
/// # #[cfg(feature = "testkit")]
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), steadfast::Error> {
/// # let network = steadfast::testkit::ScriptedTransport::new().json(200, serde_json::json!({"id": "file_1"}));
/// use steadfast::vendor::Stripe;
/// use steadfast::{Client, Multipart};
///
/// let uploads = Stripe::new("sk_test_123").base_url("https://files.stripe.com");
/// let files = Client::builder(uploads)
/// #   .transport(network)
///     .build()?;
/// let receipt = Multipart::new().text("purpose", "dispute_evidence").file(
///     "file",
///     "receipt.png",
///     "image/png",
///     &b"\x89PNG\r\n"[..],
/// );
/// let reply = files.post("/v1/files").key("dispute-7/receipt").multipart(&receipt).send().await?;
/// assert_eq!(reply.status(), 200);
/// # Ok(())
/// # }
/// # #[cfg(not(feature = "testkit"))]
/// # fn main() {}
/// ```
#[derive(Clone, Default)]
pub struct Multipart {
    parts: Vec<Part>,
}

#[derive(Clone)]
struct Part {
    name: String,
    file: Option<File>,
    content: Bytes,
}

#[derive(Clone)]
struct File {
    name: String,
    content_type: String,
}

impl Multipart {
    /// A form without parts.
    pub fn new() -> Multipart {
        Multipart::default()
    }

    /// Adds a field.
    #[must_use]
    pub fn text(mut self, name: impl Into<String>, value: impl Into<String>) -> Multipart {
        self.parts.push(Part { name: name.into(), file: None, content: value.into().into() });
        self
    }

    /// Adds a file, by its field's name, its own name, its media type and its content. A media type that a header cannot
    /// carry is a mistake that [`send`](Call::send) reports.
    #[must_use]
    pub fn file(
        mut self,
        name: impl Into<String>,
        file_name: impl Into<String>,
        content_type: impl Into<String>,
        content: impl Into<Bytes>,
    ) -> Multipart {
        let file = File { name: file_name.into(), content_type: content_type.into() };
        self.parts.push(Part { name: name.into(), file: Some(file), content: content.into() });
        self
    }

    /// `steadfast-` and 128 bits of a hash of all parts.
    fn boundary(&self) -> String {
        let mut hash = Sha256::new_with_prefix(b"steadfast multipart 1\0");
        let mut put = |bytes: &[u8]| {
            hash.update(u64::try_from(bytes.len()).unwrap_or(u64::MAX).to_be_bytes());
            hash.update(bytes);
        };
        for part in &self.parts {
            put(part.name.as_bytes());
            match &part.file {
                None => put(b"text"),
                Some(file) => {
                    put(b"file");
                    put(file.name.as_bytes());
                    put(file.content_type.as_bytes());
                }
            }
            put(&part.content);
        }
        let hash = hash.finalize();
        let hex = hash[..16].iter().map(|byte| format!("{byte:02x}"));
        hex.fold("steadfast-".to_owned(), |text, byte| text + &byte)
    }

    fn encode(&self, boundary: &str) -> Result<Bytes, String> {
        let mut body = BytesMut::new();
        for Part { name, file, content } in &self.parts {
            let mut head =
                format!("--{boundary}\r\nContent-Disposition: form-data; name=\"{}\"", escaped(name));
            if let Some(File { name, content_type }) = file {
                if content_type.is_empty() || HeaderValue::from_str(content_type).is_err() {
                    return Err("a header cannot carry a file's media type".to_owned());
                }
                head.extend(["; filename=\"", &escaped(name), "\"\r\nContent-Type: ", content_type]);
            }
            head.push_str("\r\n\r\n");
            body.extend_from_slice(head.as_bytes());
            body.extend_from_slice(content);
            body.extend_from_slice(b"\r\n");
        }
        body.extend_from_slice(format!("--{boundary}--\r\n").as_bytes());
        Ok(body.freeze())
    }
}

/// Escapes a name as browsers do (WHATWG, "multipart form data"): it cannot end its header, or begin another.
fn escaped(name: &str) -> String {
    name.replace('"', "%22").replace('\r', "%0D").replace('\n', "%0A")
}

impl fmt::Debug for Multipart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.parts.iter().map(|part| (&part.name, part.content.len()))).finish()
    }
}

impl Call {
    /// The body as a form with files. Its bytes are fixed here, and every resend has the same. The same parts make the
    /// same operation, whichever process repeats the key.
    ///
    /// They are stored with the operation, so they count against `limits.request_bytes_max`. An operator is never shown
    /// such a body where [fields are redacted](Call::redact).
    pub fn multipart(mut self, form: &Multipart) -> Call {
        let boundary = form.boundary();
        match (
            form.encode(&boundary),
            HeaderValue::try_from(format!("multipart/form-data; boundary={boundary}")),
        ) {
            (Ok(body), Ok(kind)) => {
                self.prepared.request.headers.insert(CONTENT_TYPE, kind);
                self.prepared.request.body = body;
            }
            (Err(problem), _) => self.note(Error::invalid(Input::Body, problem)),
            (_, Err(problem)) => self.note(Error::invalid(Input::Body, problem.to_string())),
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn form() -> Multipart {
        Multipart::new().text("purpose", "dispute_evidence").file("file", "a.txt", "text/plain", "one\r\ntwo")
    }

    fn bytes(form: &Multipart) -> String {
        String::from_utf8(form.encode(&form.boundary()).expect("a body").to_vec()).expect("text")
    }

    #[test]
    fn the_bytes_are_those_of_the_standard_and_of_the_parts_alone() {
        let boundary = form().boundary();
        let expected = format!(
            "--{boundary}\r\nContent-Disposition: form-data; name=\"purpose\"\r\n\r\ndispute_evidence\r\n\
             --{boundary}\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a.txt\"\r\n\
             Content-Type: text/plain\r\n\r\none\r\ntwo\r\n--{boundary}--\r\n"
        );
        assert_eq!(bytes(&form()), expected);
        assert_eq!(boundary, "steadfast-7a1f81b84cba464037098034b6e9d9f9", "stored calls have it");
        assert_eq!(boundary.len(), 42, "RFC 2046, section 5.1.1: at most 70");
        for other in [
            form().text("a", "b"),
            Multipart::new().text("purpose", "dispute_evidence").text("file", "one\r\ntwo"),
            Multipart::new().text("purpos", "edispute_evidence").file(
                "file",
                "a.txt",
                "text/plain",
                "one\r\ntwo",
            ),
        ] {
            assert_ne!(other.boundary(), boundary);
        }
    }

    #[test]
    fn a_name_cannot_end_its_header() {
        let form = Multipart::new().file("a\"\r\nX-Evil: 1", "b\"; name=\"c", "text/plain", "");
        let text = bytes(&form);
        let head = text.lines().nth(1).expect("a head");
        let expected =
            "Content-Disposition: form-data; name=\"a%22%0D%0AX-Evil: 1\"; filename=\"b%22; name=%22c\"";
        assert_eq!(head, expected);
        let evil = Multipart::new().file("a", "b", "text/plain\r\nX-Evil: 1", "");
        assert!(evil.encode(&evil.boundary()).is_err());
    }
}
