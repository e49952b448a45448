//! Answers in gzip: asked for, and unpacked within the limit of a reply.
//!
//! A few kilobytes of gzip unpack to gigabytes. So the limit of a reply counts unpacked bytes, and the rest is never
//! unpacked. A body that is no gzip stays as it came, with its `Content-Encoding`: its status still shows the end of
//! the call, and the engine reports that it cannot be read.

use std::io::Read;

use bytes::Bytes;
use flate2::bufread::MultiGzDecoder;
use http::HeaderValue;
use http::header::{ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_LENGTH};

use steadfast_core::transport::{Answer, Request};

/// Asks for gzip, if it is to and the request does not already accept an encoding. Returns the request, and whether it
/// asks.
pub(super) fn ask(mut request: Request, gzip: bool) -> (Request, bool) {
    let asks = gzip && !request.headers.contains_key(ACCEPT_ENCODING);
    if asks {
        request.headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("gzip"));
    }
    (request, asks)
}

/// Unpacks the answer's body, if it is gzip.
pub(super) fn unpack(answer: &mut Answer, bytes_max: usize) {
    if answer.body.is_empty() || !is_gzip(answer) {
        return;
    }
    let Some((body, cut)) = unpacked(&answer.body, answer.cut, bytes_max) else { return };
    answer.body = body;
    answer.cut = cut;
    answer.headers.remove(CONTENT_ENCODING);
    answer.headers.remove(CONTENT_LENGTH);
}

fn is_gzip(answer: &Answer) -> bool {
    let mut codings = answer.headers.get_all(CONTENT_ENCODING).iter();
    let only = codings.next().filter(|_| codings.next().is_none());
    // RFC 9110, section 8.4.1.3: the two names are one.
    only.is_some_and(|name| {
        [&b"gzip"[..], b"x-gzip"].iter().any(|gzip| name.as_bytes().eq_ignore_ascii_case(gzip))
    })
}

/// Unpacks `packed` up to the limit, and returns whether there is more. `None` if it is no gzip, or is damaged. A
/// packed body that was itself cut off at the limit is unpacked as far as it goes.
fn unpacked(packed: &[u8], is_part: bool, bytes_max: usize) -> Option<(Bytes, bool)> {
    let mut body = Vec::new();
    let limit = u64::try_from(bytes_max).unwrap_or(u64::MAX).saturating_add(1);
    let read = MultiGzDecoder::new(packed).take(limit).read_to_end(&mut body);
    let is_readable = read.is_ok() || (is_part && !body.is_empty());
    if !is_readable {
        return None;
    }
    let is_over = body.len() > bytes_max;
    body.truncate(bytes_max);
    Some((body.into(), is_over || is_part))
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::Compression;
    use flate2::write::GzEncoder;
    use http::{HeaderMap, Method, StatusCode};

    use super::*;

    fn gzip(body: &[u8]) -> Vec<u8> {
        let mut packed = GzEncoder::new(Vec::new(), Compression::default());
        packed.write_all(body).expect("memory");
        packed.finish().expect("memory")
    }

    fn answer(coding: &str, body: Vec<u8>) -> Answer {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_ENCODING, HeaderValue::from_str(coding).expect("a header"));
        headers.insert(CONTENT_LENGTH, HeaderValue::from(body.len()));
        Answer::new(StatusCode::OK, headers, body)
    }

    #[test]
    fn gzip_is_unpacked_up_to_the_limit_and_no_further() {
        for (coding, len, limit, expected, cut) in [
            ("gzip", 100, 100, 100, false),
            ("X-GZIP", 101, 100, 100, true),
            ("gzip", 5_000_000, 1000, 1000, true),
        ] {
            let mut packed = answer(coding, gzip(&vec![b'a'; len]));
            unpack(&mut packed, limit);
            assert_eq!((packed.body.len(), packed.cut), (expected, cut), "{len}");
            assert!(packed.headers.is_empty(), "they are of what was sent: {:?}", packed.headers);
        }
        let two = [gzip(b"one"), gzip(b"two")].concat();
        let mut packed = answer("gzip", two);
        unpack(&mut packed, 100);
        assert_eq!(packed.body, "onetwo", "RFC 1952: members follow each other");
    }

    #[test]
    fn a_body_that_cannot_be_unpacked_stays_packed() {
        let whole = gzip(&[b'a'; 1000]);
        let mut damaged = whole.clone();
        let last = damaged.len() - 6;
        damaged[last] ^= 1;
        for (coding, body) in [
            ("gzip", b"{\"id\":1}".to_vec()),
            ("gzip", whole[..whole.len() - 1].to_vec()),
            ("gzip", damaged),
            ("gzip", Vec::new()),
            ("br", whole.clone()),
            ("gzip, gzip", whole.clone()),
        ] {
            let mut packed = answer(coding, body);
            let before = packed.clone();
            unpack(&mut packed, 10_000);
            assert_eq!(packed, before, "{coding}");
        }
        // The limit of a reply cut it off already: what there is of it is shown as cut.
        let mut part = answer("gzip", whole[..whole.len() - 9].to_vec());
        part.cut = true;
        unpack(&mut part, 10_000);
        assert!(part.cut && part.body.starts_with(b"aaa"));
    }

    #[test]
    fn a_request_with_accept_encoding_is_left_alone() {
        let request = Request::new(Method::GET, url::Url::parse("https://v.test").expect("a url"));
        let (asking, asks) = ask(request.clone(), true);
        assert!(asks && asking.headers[ACCEPT_ENCODING] == "gzip");
        assert!(!ask(asking, true).1);
        let (as_it_was, asks) = ask(request.clone(), false);
        assert!(!asks && as_it_was == request);
    }
}
