//! A call before its operation has a name: what the builder of a call and a row of the outbox are made into. A mistake
//! in a row is one that a call of the same parts would have.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use http::{HeaderName, HeaderValue, Method};

use steadfast_core::clock::Timestamp;
use steadfast_core::internal::error::{Context, Kind};
use steadfast_core::internal::ext::{ErrorExt, InputErrorExt, SequenceExt};
use steadfast_core::internal::request::is_of_the_connection;
use steadfast_core::internal::vendor::{ShownPath, secret};
use steadfast_core::operation::{Key, RedactedFields};
use steadfast_core::transport::Request;
use steadfast_core::{Error, Input, OnUnknown, Sequence};

use crate::engine::{Engine, Work};

pub(crate) mod path;

/// Parts of a call that is to be sent or enqueued, with the first mistake in them.
pub(crate) struct Prepared {
    pub engine: Arc<Engine>,
    pub request: Request,
    pub work: Work,
    /// Earliest time for a dispatcher to send it; `None` is now.
    pub due: Option<Due>,
    /// The path, while a parameter in it has no value.
    pub unfilled: Option<Box<str>>,
    pub mistake: Option<Error>,
}

/// Earliest time for a dispatcher to send a call.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Due {
    At(Timestamp),
    After(Duration),
}

impl Due {
    /// The time that is meant, where it is `wall` now.
    pub(crate) fn time(self, wall: Timestamp) -> Timestamp {
        match self {
            Due::At(time) => time,
            Due::After(wait) => wall.plus(wait),
        }
    }
}

impl Prepared {
    pub(crate) fn new(engine: Arc<Engine>, method: Method, path: &str) -> Prepared {
        let base = engine.vendor.base_url();
        let mut url = base.clone();
        let (unfilled, mistake) = match path::set_path(&mut url, base.path(), path) {
            Ok(unfilled) => (unfilled, None),
            Err(problem) => {
                url.clone_from(base);
                // The query is not shown: it may hold what no log may.
                let path = path.split(['?', '#']).next().unwrap_or_default();
                let shown = ShownPath::of_text(&**engine.vendor, path).to_string();
                (None, Some(Error::invalid(Input::Path, format!("{shown:?} {problem}"))))
            }
        };
        let request = Request::new(method, url);
        let route = engine.routes.of(base, &request.url);
        let work = Work {
            key: None,
            overrides: None,
            deadline: None,
            until: None,
            retries_allowed: true,
            pass_deadline_on: false,
            recovered: false,
            on_unknown: route.as_ref().map_or(OnUnknown::ByMethod, |route| route.on_unknown),
            in_flight: engine.policy.in_flight,
            retention: None,
            redact: route.as_ref().map_or(RedactedFields::NONE, |route| route.redact.clone()),
            route,
            predecessor: None,
            sequence: None,
        };
        Prepared { engine, request, work, due: None, unfilled, mistake }
    }

    /// The first mistake is the one that is reported: later ones often follow from it.
    pub(crate) fn note(&mut self, mistake: Error) {
        self.mistake.get_or_insert(mistake);
    }

    pub(crate) fn key(&mut self, key: impl Into<String>) {
        match Key::new(key) {
            Ok(key) => self.work.key = Some(key),
            Err(mistake) => self.note(mistake),
        }
    }

    pub(crate) fn supersedes(&mut self, key: impl Into<String>) {
        match Key::new(key) {
            Ok(key) => self.work.predecessor = Some(key),
            Err(mistake) => self.note(mistake),
        }
    }

    pub(crate) fn redact<T: Into<String>>(&mut self, fields: impl IntoIterator<Item = T>) {
        match self.work.redact.with(fields) {
            Ok(fields) => self.work.redact = fields,
            Err(mistake) => self.note(mistake),
        }
    }

    pub(crate) fn sequence(&mut self, sequence: Sequence) {
        if let Err(mistake) = sequence.check() {
            self.note(mistake);
        }
        self.work.sequence = Some(sequence);
    }

    /// Adds a header, if a call may give it.
    pub(crate) fn header<N, V>(&mut self, name: N, value: V)
    where
        N: TryInto<HeaderName>,
        N::Error: fmt::Display,
        V: TryInto<HeaderValue>,
        V::Error: fmt::Display,
    {
        match (name.try_into(), value.try_into()) {
            // Counted before `HeaderMap`'s own bound, where it fails.
            (Ok(_), Ok(_)) if self.request.headers.len() >= HEADERS_MAX => {
                self.note(Error::invalid(Input::Header, format!("more than {HEADERS_MAX} of them")));
            }
            (Ok(name), Ok(value)) if value.is_sensitive() || self.engine.secrets.contain(&name) => {
                self.note(secret::refused(&name));
            }
            (Ok(name), Ok(_)) if is_of_the_connection(&name) => {
                let problem =
                    format!("{name} is set by the transport: it decides where and how the request goes");
                self.note(Error::invalid(Input::Header, problem));
            }
            (Ok(name), Ok(value)) => {
                self.request.headers.append(name, value);
            }
            (Err(problem), _) => {
                self.note(Error::invalid(Input::Header, format!("not a valid header name ({problem})")));
            }
            (Ok(name), Err(problem)) => {
                let problem = format!("{name}: a header cannot carry this value ({problem})");
                self.note(Error::invalid(Input::Header, problem));
            }
        }
    }

    /// Notes the first parameter of the path that has no value.
    pub(crate) fn check_is_filled(&mut self) {
        if let Some(name) = self.unfilled.as_deref().and_then(path::first_parameter) {
            let problem = format!("{{{name}}} has no value; give it one with path(\"{name}\", …)");
            self.mistake.get_or_insert_with(|| Error::invalid(Input::Path, problem));
        }
    }

    /// Returns the first mistake.
    pub(crate) fn check(&mut self) -> Result<(), Error> {
        check(&mut self.mistake, &self.request, &self.work, &self.engine)
    }

    /// Takes the key of the operation. A call without one gets one.
    pub(crate) fn take_key(&mut self) -> Result<Key, Error> {
        match self.work.key.take() {
            Some(key) => Ok(key),
            None => generated_key(&self.engine).map_err(|mistake| self.in_context(mistake)),
        }
    }

    pub(crate) fn in_context(&self, mistake: Error) -> Error {
        in_context(mistake, &self.engine, &self.request, &self.work)
    }
}

/// Ten times what servers commonly take in (nginx and Apache: 100), far below the 32,768 at which `HeaderMap` panics.
const HEADERS_MAX: usize = 1_000;

/// Says whose a mistake is. A path that was refused is not the call's: the mistake itself shows it.
pub(crate) fn in_context(mistake: Error, engine: &Engine, request: &Request, work: &Work) -> Error {
    let mut call = engine.vendor.context(&request.method, &request.url);
    if matches!(mistake.kind(), Kind::Invalid(invalid) if invalid.input == Input::Path) {
        call.path = None;
    }
    let key = work.key.as_ref().map(|key| key.as_str().to_owned());
    mistake.with_context(Context { key, ..call })
}

/// The call's first mistake.
pub(crate) fn check(
    mistake: &mut Option<Error>,
    request: &Request,
    work: &Work,
    engine: &Engine,
) -> Result<(), Error> {
    let checked = || {
        check_body(request, engine.policy.request_bytes_max)?;
        check_predecessor(work)
    };
    let mistake = mistake.take().map_or_else(checked, Err);
    mistake.map_err(|mistake| in_context(mistake, engine, request, work))
}

/// A call that starts over names both keys: a generated one is another at each try.
fn check_predecessor(work: &Work) -> Result<(), Error> {
    match (&work.predecessor, &work.key) {
        (Some(_), None) => {
            Err(Error::invalid(Input::Key, "a call that supersedes another needs a key of its own"))
        }
        (Some(old), Some(key)) if old == key => {
            Err(Error::invalid(Input::Key, "a call cannot supersede its own key; send it without"))
        }
        _ => Ok(()),
    }
}

fn check_body(request: &Request, bytes_max: usize) -> Result<(), Error> {
    if request.body.len() > bytes_max {
        let bytes = request.body.len();
        let problem = format!("{bytes} bytes are over the limit of {bytes_max} in limits.request_bytes_max");
        return Err(Error::invalid(Input::Body, problem));
    }
    Ok(())
}

/// A UUIDv7: unique without a table, and sorted by time where an operator lists them. Its last two bytes
/// count, so that even randomness that a test has fixed never makes two calls one operation.
pub(crate) fn generated_key(engine: &Engine) -> Result<Key, Error> {
    let mut random = [0u8; 10];
    random[..8].copy_from_slice(&engine.random.next_u64().to_be_bytes());
    let count = engine.generated_keys.fetch_add(1, Ordering::Relaxed);
    random[8..].copy_from_slice(&count.to_be_bytes());
    let millis = engine.clock.wall().as_millis();
    let uuid = uuid::Builder::from_unix_timestamp_millis(millis, &random).into_uuid();
    Key::new(format!("generated/{uuid}"))
}
