//! The part of HTTP/1.1 that the front needs: whole messages in, whole messages out (RFC 9112).
//!
//! Nothing here may panic on any bytes: a test that sends garbage must see an answer to it, not a dead front.

use std::error::Error as StdError;
use std::io;

use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;

use crate::FAULT_HEADER;

/// A connection, and the bytes that were read from it beyond the last message.
pub(super) struct Reader {
    pub(super) stream: TcpStream,
    buffer: Vec<u8>,
}

/// Length of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Framing {
    Length(usize),
    Chunked,
    UntilClose,
}

/// A head and how many bytes it took; `None` if more bytes must come.
pub(super) type Parsed<T> = io::Result<Option<(T, usize)>>;

impl Reader {
    pub(super) fn new(stream: TcpStream) -> Reader {
        Reader { stream, buffer: Vec::new() }
    }

    /// Reads the next head; `None` if the connection ended between two messages.
    pub(super) async fn head<T>(&mut self, parse: fn(&[u8]) -> Parsed<T>) -> io::Result<Option<T>> {
        loop {
            if let Some((head, taken)) = parse(&self.buffer)? {
                self.buffer.drain(..taken);
                return Ok(Some(head));
            }
            if self.buffer.len() > HEAD_BYTES_MAX {
                return Err(invalid("the head is too long"));
            }
            if !self.more().await? {
                return if self.buffer.is_empty() { Ok(None) } else { Err(cut_off()) };
            }
        }
    }

    /// Reads the body, whole and without its chunk headers.
    pub(super) async fn body(&mut self, framing: Framing) -> io::Result<Vec<u8>> {
        match framing {
            Framing::Length(length) => self.take(length).await,
            Framing::Chunked => self.chunks().await,
            Framing::UntilClose => {
                while self.more().await? {
                    body_within(self.buffer.len())?;
                }
                Ok(std::mem::take(&mut self.buffer))
            }
        }
    }

    async fn chunks(&mut self) -> io::Result<Vec<u8>> {
        let mut body = Vec::new();
        loop {
            let line = self.line().await?;
            let size = match httparse::parse_chunk_size(&line) {
                Ok(httparse::Status::Complete((_, size))) => usize::try_from(size).map_err(invalid)?,
                Ok(httparse::Status::Partial) => return Err(invalid("a chunk without a size")),
                Err(_) => return Err(invalid("a chunk whose size is no number")),
            };
            if size == 0 {
                // Trailers, up to the empty line, are dropped: the front's answer has a length.
                while self.line().await? != b"\r\n" {}
                return Ok(body);
            }
            body_within(body.len().saturating_add(size))?;
            body.extend(self.take(size).await?);
            if self.take(2).await? != b"\r\n" {
                return Err(invalid("a chunk longer than its size"));
            }
        }
    }

    /// Reads the next line with its end.
    async fn line(&mut self) -> io::Result<Vec<u8>> {
        loop {
            if let Some(end) = self.buffer.iter().position(|byte| *byte == b'\n') {
                return Ok(self.buffer.drain(..=end).collect());
            }
            if self.buffer.len() > HEAD_BYTES_MAX {
                return Err(invalid("the line is too long"));
            }
            if !self.more().await? {
                return Err(cut_off());
            }
        }
    }

    async fn take(&mut self, length: usize) -> io::Result<Vec<u8>> {
        body_within(length)?;
        while self.buffer.len() < length {
            if !self.more().await? {
                return Err(cut_off());
            }
        }
        Ok(self.buffer.drain(..length).collect())
    }

    async fn more(&mut self) -> io::Result<bool> {
        Ok(self.stream.read_buf(&mut self.buffer).await? > 0)
    }
}

/// Headers, with names as they came and values as bytes: a front changes neither.
#[derive(Debug, Default)]
struct Headers(Vec<(String, Vec<u8>)>);

impl Headers {
    fn from(parsed: &[httparse::Header<'_>]) -> Headers {
        Headers(parsed.iter().map(|header| (header.name.to_owned(), header.value.to_vec())).collect())
    }

    fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a [u8]> {
        let named = self.0.iter().filter(move |(known, _)| known.eq_ignore_ascii_case(name));
        named.map(|(_, value)| value.as_slice())
    }

    /// Returns true if a list header has `token`, in any case.
    fn has(&self, name: &str, token: &str) -> bool {
        self.all(name).any(|value| {
            value
                .split(|byte| *byte == b',')
                .any(|part| part.trim_ascii().eq_ignore_ascii_case(token.as_bytes()))
        })
    }

    fn length(&self) -> io::Result<Option<usize>> {
        let mut found = None;
        for value in self.all("content-length") {
            let text = std::str::from_utf8(value).map_err(invalid)?;
            if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
                return Err(invalid("a length that is no number"));
            }
            let length: usize = text.parse().map_err(invalid)?;
            if found.is_some_and(|known| known != length) {
                return Err(invalid("two lengths"));
            }
            found = Some(length);
        }
        Ok(found)
    }

    /// Writes all headers except those of one connection and those that the front sets itself.
    fn encode_into(&self, bytes: &mut Vec<u8>) {
        for (name, value) in &self.0 {
            if !OWN.iter().any(|own| name.eq_ignore_ascii_case(own)) {
                put(bytes, name, value);
            }
        }
    }
}

#[derive(Debug)]
pub(super) struct RequestHead {
    pub(super) method: String,
    target: String,
    minor_version: u8,
    headers: Headers,
}

impl RequestHead {
    pub(super) fn framing(&self) -> io::Result<Framing> {
        let chunked = self.headers.has("transfer-encoding", "chunked");
        match self.headers.length()? {
            // RFC 9112, section 6.1: "ought to be handled as an error".
            Some(_) if chunked => Err(invalid("a length beside chunks")),
            _ if chunked => Ok(Framing::Chunked),
            length => Ok(Framing::Length(length.unwrap_or(0))),
        }
    }

    /// Returns the target's path, without the query.
    pub(super) fn path(&self) -> String {
        let target = match self.target.split_once("://") {
            Some((_, rest)) if !self.target.starts_with('/') => rest.find('/').map_or("/", |at| &rest[at..]),
            _ => self.target.as_str(),
        };
        target.split(['?', '#']).next().unwrap_or_default().to_owned()
    }

    /// Returns true if a page of another site sent it, which browsers report in `Sec-Fetch-Site` and in
    /// `Origin`.
    pub(super) fn is_of_another_site(&self) -> bool {
        let is_foreign = |site: &[u8]| !matches!(site, b"same-origin" | b"none");
        let host = self.headers.all("host").next().unwrap_or_default();
        let is_elsewhere = |origin: &[u8]| {
            let host_of_origin =
                origin.windows(3).position(|part| part == b"://").map(|at| &origin[at + 3..]);
            !host_of_origin.is_some_and(|named| named.eq_ignore_ascii_case(host))
        };
        self.headers.all("sec-fetch-site").any(is_foreign) || self.headers.all("origin").any(is_elsewhere)
    }

    pub(super) fn expects_continue(&self) -> bool {
        self.headers.has("expect", "100-continue")
    }

    pub(super) fn wants_close(&self) -> bool {
        self.minor_version == 0 || self.headers.has("connection", "close")
    }

    /// Returns the bytes of the request for the backend.
    pub(super) fn encode(&self, fault: Option<&str>, body: &[u8], close: bool) -> Vec<u8> {
        let mut bytes = format!("{} {} HTTP/1.1\r\n", self.method, self.target).into_bytes();
        self.headers.encode_into(&mut bytes);
        if let Some(fault) = fault {
            put(&mut bytes, FAULT_HEADER, fault.as_bytes());
        }
        if close {
            put(&mut bytes, "connection", b"close");
        }
        let framed =
            ["content-length", "transfer-encoding"].iter().any(|name| self.headers.all(name).count() > 0);
        if framed {
            put(&mut bytes, "content-length", body.len().to_string().as_bytes());
        }
        bytes.extend_from_slice(b"\r\n");
        bytes.extend_from_slice(body);
        bytes
    }
}

#[derive(Debug)]
pub(super) struct ResponseHead {
    pub(super) status: u16,
    reason: String,
    headers: Headers,
    /// True if the answer has no body whatever its headers are: to HEAD, 204 and 304.
    bodiless: bool,
}

impl ResponseHead {
    /// Returns the head of a text from the front itself.
    pub(super) fn plain(status: u16, reason: &str) -> ResponseHead {
        ResponseHead::with(status, reason, &[("content-type", "text/plain; charset=utf-8".to_owned())])
    }

    pub(super) fn with(status: u16, reason: &str, headers: &[(&str, String)]) -> ResponseHead {
        let headers = headers.iter().map(|(name, value)| ((*name).to_owned(), value.clone().into_bytes()));
        ResponseHead { status, reason: reason.into(), headers: Headers(headers.collect()), bodiless: false }
    }

    /// Returns true if the sender closes the connection after it.
    pub(super) fn closes(&self) -> bool {
        self.headers.has("connection", "close")
    }

    /// Returns the length of the answer's body, by RFC 9112, section 6.3.
    pub(super) fn framing(&mut self, method: &str) -> io::Result<Framing> {
        self.bodiless = method == "HEAD" || matches!(self.status, 204 | 304);
        if self.bodiless {
            return Ok(Framing::Length(0));
        }
        if self.headers.has("transfer-encoding", "chunked") {
            return Ok(Framing::Chunked);
        }
        Ok(self.headers.length()?.map_or(Framing::UntilClose, Framing::Length))
    }

    /// Returns the bytes of the answer for the caller. A bodiless one keeps the length it came with, which is
    /// that of the body for a GET.
    pub(super) fn encode(&self, body: &[u8], close: bool) -> Vec<u8> {
        let mut bytes = format!("HTTP/1.1 {} {}\r\n", self.status, self.reason).into_bytes();
        self.headers.encode_into(&mut bytes);
        if !self.bodiless {
            put(&mut bytes, "content-length", body.len().to_string().as_bytes());
        } else if let Some(length) = self.headers.all("content-length").next() {
            put(&mut bytes, "content-length", length);
        }
        if close {
            put(&mut bytes, "connection", b"close");
        }
        bytes.extend_from_slice(b"\r\n");
        bytes.extend_from_slice(body);
        bytes
    }
}

pub(super) fn parse_request(bytes: &[u8]) -> Parsed<RequestHead> {
    let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
    let mut request = httparse::Request::new(&mut headers);
    let httparse::Status::Complete(taken) = request.parse(bytes).map_err(invalid)? else { return Ok(None) };
    let (Some(method), Some(target), Some(minor_version)) = (request.method, request.path, request.version)
    else {
        return Err(invalid("a head without a request line"));
    };
    let head = RequestHead {
        method: method.to_owned(),
        target: target.to_owned(),
        minor_version,
        headers: Headers::from(request.headers),
    };
    Ok(Some((head, taken)))
}

pub(super) fn parse_response(bytes: &[u8]) -> Parsed<ResponseHead> {
    let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
    let mut response = httparse::Response::new(&mut headers);
    let httparse::Status::Complete(taken) = response.parse(bytes).map_err(invalid)? else { return Ok(None) };
    let status = response.code.ok_or_else(|| invalid("a head without a status line"))?;
    let reason = response.reason.unwrap_or_default().to_owned();
    let headers = Headers::from(response.headers);
    Ok(Some((ResponseHead { status, reason, headers, bodiless: false }, taken)))
}

pub(super) fn invalid(problem: impl Into<Box<dyn StdError + Send + Sync>>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, problem)
}

fn cut_off() -> io::Error {
    io::Error::from(io::ErrorKind::UnexpectedEof)
}

fn body_within(bytes: usize) -> io::Result<()> {
    if bytes > BODY_BYTES_MAX { Err(invalid("the body is too long")) } else { Ok(()) }
}

fn put(bytes: &mut Vec<u8>, name: &str, value: &[u8]) {
    bytes.extend_from_slice(name.as_bytes());
    bytes.extend_from_slice(b": ");
    bytes.extend_from_slice(value);
    bytes.extend_from_slice(b"\r\n");
}

/// Headers that are never passed on: those of one connection (RFC 9110, section 7.6.1) and the length, which
/// the front computes. Nor the fault header, which only the front may set.
const OWN: [&str; 10] = [
    "connection",
    "keep-alive",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "expect",
    "content-length",
    FAULT_HEADER,
];

/// Maximum length of a head: more than a vendor's client ever sends.
const HEAD_BYTES_MAX: usize = 64 * 1024;

/// Maximum length of a body: twice the crate's default reply limit, so that a test can go beyond that limit.
const BODY_BYTES_MAX: usize = 16 * 1024 * 1024;

/// Maximum of headers in a head.
const HEADERS_MAX: usize = 128;
