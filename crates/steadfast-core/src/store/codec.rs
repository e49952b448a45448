//! Requests and answers as bytes, in columns of their own: the same bytes in every store.
//!
//! A small binary form and not JSON. Bodies and header values are bytes and not text. To escape them would cost a
//! third more space and most of the time of a commit. The first byte is the version; a reader knows every version up
//! to its own, so that an older file needs no rewriting.
//!
//! Version 1. Numbers are little-endian, `text` is a `u32` length and its bytes:
//!
//! ```text
//! request = 1u8, method text, url text, headers, body (the rest)
//! answer  = 1u8, status u16, cut u8 (0 or 1), headers, body (the rest)
//! headers = count u32, then for each: name text, value text
//! ```
//!
//! Version 2 is a version 1 that is sealed, see [`seals`](super::seals):
//!
//! ```text
//! sealed  = 2u8, key id (8), nonce (24), ciphertext, tag (16)
//! ```

#![allow(missing_docs, reason = "for the crates of this workspace alone")]

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use url::Url;

use crate::answer::Answer;
use crate::request::Request;
use crate::store::{StoreError, StoreErrorKind};

pub fn request_bytes(request: &Request) -> Result<Vec<u8>, StoreError> {
    let texts = [request.method.as_str(), request.url.as_str()].map(str::len);
    let room = 1 + texts.map(text_room).iter().sum::<usize>() + headers_room(&request.headers);
    let mut bytes = Vec::with_capacity(room + request.body.len());
    bytes.push(VERSION);
    put_text(&mut bytes, request.method.as_str().as_bytes())?;
    put_text(&mut bytes, request.url.as_str().as_bytes())?;
    put_headers(&mut bytes, &request.headers)?;
    bytes.extend_from_slice(&request.body);
    Ok(bytes)
}

pub fn answer_bytes(answer: &Answer) -> Result<Vec<u8>, StoreError> {
    let mut bytes = Vec::with_capacity(4 + headers_room(&answer.headers) + answer.body.len());
    bytes.push(VERSION);
    bytes.extend_from_slice(&answer.status.as_u16().to_le_bytes());
    bytes.push(u8::from(answer.cut));
    put_headers(&mut bytes, &answer.headers)?;
    bytes.extend_from_slice(&answer.body);
    Ok(bytes)
}

pub fn request(bytes: Vec<u8>) -> Result<Request, StoreError> {
    let mut input = Input::new(bytes, "request")?;
    let method = Method::from_bytes(&input.text()?).map_err(|_| input.corrupt("its method"))?;
    let text = input.text()?;
    let text = std::str::from_utf8(&text).map_err(|_| input.corrupt("its URL"))?;
    let url = Url::parse(text).map_err(|_| input.corrupt("its URL"))?;
    let mut request = Request::new(method, url);
    request.headers = input.headers()?;
    request.body = input.rest;
    Ok(request)
}

pub fn answer(bytes: Vec<u8>) -> Result<Answer, StoreError> {
    let mut input = Input::new(bytes, "answer")?;
    let status = input.take(2)?;
    let status = u16::from_le_bytes([status[0], status[1]]);
    let status = StatusCode::from_u16(status).map_err(|_| input.corrupt("its status"))?;
    let cut = match input.take(1)?[0] {
        0 => false,
        1 => true,
        _ => return Err(input.corrupt("whether it was cut")),
    };
    let headers = input.headers()?;
    let mut answer = Answer::new(status, headers, input.rest);
    answer.cut = cut;
    Ok(answer)
}

/// Returns the exact encoded size, so that the buffer is allocated once. Bytes that are kept have no slack, and are not
/// moved to be rid of it.
fn headers_room(headers: &HeaderMap) -> usize {
    let texts = headers.iter().map(|(name, value)| text_room(name.as_str().len()) + text_room(value.len()));
    LENGTH + texts.sum::<usize>()
}

fn text_room(length: usize) -> usize {
    LENGTH + length
}

fn put_headers(bytes: &mut Vec<u8>, headers: &HeaderMap) -> Result<(), StoreError> {
    put_length(bytes, headers.len())?;
    for (name, value) in headers {
        put_text(bytes, name.as_str().as_bytes())?;
        put_text(bytes, value.as_bytes())?;
    }
    Ok(())
}

fn put_text(bytes: &mut Vec<u8>, text: &[u8]) -> Result<(), StoreError> {
    put_length(bytes, text.len())?;
    bytes.extend_from_slice(text);
    Ok(())
}

fn put_length(bytes: &mut Vec<u8>, length: usize) -> Result<(), StoreError> {
    let length = u32::try_from(length)
        .map_err(|_| StoreError::new("a part of a request or an answer is over 4 GiB"))?;
    bytes.extend_from_slice(&length.to_le_bytes());
    Ok(())
}

/// Rest of the bytes to read.
struct Input {
    rest: Bytes,
    what: &'static str,
}

impl Input {
    fn new(bytes: Vec<u8>, what: &'static str) -> Result<Input, StoreError> {
        let mut input = Input { rest: bytes.into(), what };
        match input.take(1)?[0] {
            VERSION => Ok(input),
            newer => {
                let problem = format!("a stored {what} has version {newer}; this release reads {VERSION}");
                Err(StoreError::new(problem).of_kind(StoreErrorKind::Newer))
            }
        }
    }

    fn take(&mut self, length: usize) -> Result<Bytes, StoreError> {
        if self.rest.len() < length {
            return Err(self.corrupt("its length"));
        }
        Ok(self.rest.split_to(length))
    }

    fn length(&mut self) -> Result<usize, StoreError> {
        let bytes = self.take(4)?;
        Ok(u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]) as usize)
    }

    fn text(&mut self) -> Result<Bytes, StoreError> {
        let length = self.length()?;
        self.take(length)
    }

    fn headers(&mut self) -> Result<HeaderMap, StoreError> {
        let mut headers = HeaderMap::new();
        for _ in 0..self.length()? {
            let (name, value) = (self.text()?, self.text()?);
            let name = HeaderName::from_bytes(&name).map_err(|_| self.corrupt("a header's name"))?;
            let value = HeaderValue::from_bytes(&value).map_err(|_| self.corrupt("a header's value"))?;
            headers.try_append(name, value).map_err(|_| self.corrupt("the number of headers"))?;
        }
        Ok(headers)
    }

    fn corrupt(&self, part: &str) -> StoreError {
        let problem = format!("a stored {} cannot be read: {part} is not what was written", self.what);
        StoreError::new(problem).of_kind(StoreErrorKind::Corrupt)
    }
}

const VERSION: u8 = 1;

/// Bytes of a length.
const LENGTH: usize = size_of::<u32>();

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn sample() -> Answer {
        let mut headers = HeaderMap::new();
        headers.insert("a", HeaderValue::from_static("1"));
        headers.append("a", HeaderValue::from_bytes(b"\xff\xfe").expect("a value"));
        let mut answer = Answer::new(StatusCode::OK, headers, &b"\x00body"[..]);
        answer.cut = true;
        answer
    }

    #[test]
    fn the_first_version_stays_readable() {
        let stored = b"\x01\xc8\x00\x01\x02\0\0\0\x01\0\0\0a\x01\0\0\x001\x01\0\0\0a\x02\0\0\0\xff\xfe\0body";
        assert_eq!(answer(stored.to_vec()).expect("readable"), sample());
        assert_eq!(answer_bytes(&sample()).expect("small"), stored);
        let stored = b"\x01\x04\0\0\0POST\x0f\0\0\0https://v.test/\0\0\0\0{}";
        let kept = request(stored.to_vec()).expect("readable");
        assert_eq!(
            (kept.method.as_str(), kept.url.as_str(), &kept.body[..]),
            ("POST", "https://v.test/", &b"{}"[..])
        );
        assert_eq!(request_bytes(&kept).expect("small"), stored);
    }

    #[test]
    fn encoded_bytes_have_no_slack() {
        let answer = answer_bytes(&sample()).expect("small");
        assert_eq!(answer.capacity(), answer.len());
        let url = Url::parse("https://v.test/charges").expect("a URL");
        let mut request = Request::new(Method::POST, url);
        request.headers = sample().headers;
        request.body = Bytes::from_static(b"{}");
        let request = request_bytes(&request).expect("small");
        assert_eq!(request.capacity(), request.len());
    }

    #[test]
    fn a_newer_version_is_distinguished_from_damage() {
        assert_eq!(request(vec![3, 0, 0]).expect_err("newer").kind(), StoreErrorKind::Newer);
        assert_eq!(request(vec![]).expect_err("empty").kind(), StoreErrorKind::Corrupt);
    }

    #[test]
    fn every_cut_in_the_head_is_damage_and_never_a_panic() {
        let whole = answer_bytes(&sample()).expect("small");
        for length in 0..whole.len() - 5 {
            assert_eq!(answer(whole[..length].to_vec()).expect_err("cut").kind(), StoreErrorKind::Corrupt);
        }
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_are_read_or_refused(mut bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            if let Some(first) = bytes.first_mut() {
                *first = VERSION;
            }
            let _ = request(bytes.clone());
            if let Ok(read) = answer(bytes.clone()) {
                prop_assert_eq!(answer(answer_bytes(&read).expect("small")).expect("its own bytes"), read);
            }
        }
    }
}
