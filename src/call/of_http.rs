//! Calls from requests of the crate `http`: what typed clients, tower and services that already have a request hold.

use std::sync::Arc;

use bytes::Bytes;
use http::header::{CONTENT_LENGTH, HOST};
use http::{HeaderName, Uri};
use url::{Position, Url};

use steadfast_core::internal::ext::InputErrorExt;
use steadfast_core::{Error, Input};

use super::Call;
use crate::engine::Engine;

impl Call {
    /// Makes the call of [`Client::http`](crate::Client::http).
    pub(crate) fn of_http<B: Into<Bytes>>(engine: &Arc<Engine>, request: http::Request<B>) -> Call {
        let (parts, body) = request.into_parts();
        let (mut headers, body) = (parts.headers, body.into());
        let base = engine.vendor.base_url();
        let path = path_below(base, &parts.uri);
        let mut call = Call::new(Arc::clone(engine), parts.method, path.as_deref().unwrap_or("/"));
        // Braces in a URI are text.
        call.prepared.unfilled = None;
        if let Err(problem) = path {
            call.note(Error::invalid(Input::Path, problem));
        }
        if headers.get(HOST).is_some_and(|host| host.as_bytes() == authority(base).as_bytes()) {
            headers.remove(HOST);
        }
        if headers
            .get(CONTENT_LENGTH)
            .is_some_and(|length| length.as_bytes() == body.len().to_string().as_bytes())
        {
            headers.remove(CONTENT_LENGTH);
        }
        let key = headers.remove(IDEMPOTENCY_KEY).filter(|_| !call.prepared.request.method.is_safe());
        call = call.headers(headers).bytes(body);
        match key.as_ref().map(http::HeaderValue::to_str) {
            None => call,
            // What is no text is refused as a key that is none.
            Some(text) => call.key(text.unwrap_or_default()),
        }
    }
}

/// The path and query of a URI as a call gives them: without the base URL's own path where the URI is whole.
fn path_below(base: &Url, uri: &Uri) -> Result<String, &'static str> {
    let path = uri.path_and_query().map_or("/", http::uri::PathAndQuery::as_str);
    if uri.authority().is_none() {
        return Ok(path.to_owned());
    }
    let whole = Url::parse(&uri.to_string()).map_err(|_| "the URI is no URL")?;
    if whole.origin() != base.origin() || !whole.username().is_empty() || whole.password().is_some() {
        return Err("the URI is of another host than the base URL");
    }
    let below = path.strip_prefix(base.path().trim_end_matches('/'));
    let below = below.filter(|rest| rest.starts_with('/')).ok_or("the URI is not below the base URL")?;
    Ok(below.to_owned())
}

/// The host, with the port if it is not the scheme's own.
fn authority(url: &Url) -> &str {
    &url[Position::BeforeHost..Position::AfterPort]
}

const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");

#[cfg(test)]
mod tests {
    use http::{Method, Request};

    use super::*;
    use crate::client::Client;
    use crate::testkit::ScriptedTransport;

    fn client() -> Client {
        let vendor = crate::vendor::Stripe::new("sk_test_123").base_url("https://v.test:8443/base");
        Client::builder(vendor).transport(ScriptedTransport::new()).build().expect("a client")
    }

    fn call(uri: &str) -> Call {
        client().http(Request::post(uri).body(Bytes::new()).expect(uri))
    }

    #[test]
    fn a_uri_is_below_the_base_url_or_a_mistake() {
        for (uri, expected) in [
            ("/v1/charges?limit=3", "https://v.test:8443/base/v1/charges?limit=3"),
            ("https://v.test:8443/base/v1/charges?a=%2F", "https://v.test:8443/base/v1/charges?a=%2F"),
            ("https://V.TEST:8443/base/v1", "https://v.test:8443/base/v1"),
            ("/v1/{charge}", "https://v.test:8443/base/v1/%7Bcharge%7D"),
        ] {
            let call = call(uri);
            assert!(
                call.prepared.mistake.is_none() && call.prepared.unfilled.is_none(),
                "{uri}: {:?}",
                call.prepared.mistake
            );
            assert_eq!(call.prepared.request.url.as_str(), expected);
        }
        for uri in [
            "https://evil.test/base/v1/charges",
            "https://v.test/base/v1/charges",
            "http://v.test:8443/base/v1/charges",
            "https://v.test:8443/other/v1",
            "https://v.test:8443/based/v1",
            "https://user@v.test:8443/base/v1",
            "https://v.test:8443/base/../other",
            "*",
        ] {
            let call = call(uri);
            let mistake = call.prepared.mistake.as_ref().expect(uri);
            assert_eq!(mistake.code(), "VALIDATION.path", "{uri}");
            assert_eq!(call.prepared.request.url.host_str(), Some("v.test"), "{uri}");
        }
    }

    #[test]
    fn the_key_is_taken_from_its_header_and_framing_headers_are_left_out() {
        let request = |method: Method| {
            Request::builder()
                .method(method)
                .uri("/v1/charges")
                .header("Idempotency-Key", "order-42")
                .header("Content-Length", "3")
                .header("Host", "v.test:8443")
                .header("X-Note", "a")
                .header("X-Note", "b")
                .body("abc")
                .expect("a request")
        };
        let post = client().http(request(Method::POST));
        assert_eq!(post.prepared.work.key.as_ref().map(|key| key.as_str()), Some("order-42"));
        assert!(post.prepared.mistake.is_none(), "{:?}", post.prepared.mistake);
        assert_eq!(
            (post.prepared.request.headers.len(), post.prepared.request.body.as_ref()),
            (2, &b"abc"[..])
        );
        let get = client().http(request(Method::GET));
        assert!(get.prepared.work.key.is_none() && get.prepared.mistake.is_none());

        let with = |name: &str, value: &str| {
            let request = Request::post("/v1/charges").header(name, value).body("abc").expect("a request");
            client().http(request).prepared.mistake.map(|mistake| mistake.code())
        };
        assert_eq!(with("Host", "evil.test"), Some("VALIDATION.header"));
        assert_eq!(with("Content-Length", "4"), Some("VALIDATION.header"));
        assert_eq!(with("Authorization", "Bearer sk_live_1"), Some("VALIDATION.header"));
        assert_eq!(with("Idempotency-Key", ""), Some("VALIDATION.key"));
        assert_eq!(with("Idempotency-Key", "schlüssel"), Some("VALIDATION.key"));
    }
}
