//! Redirects of what is only read, within the host.
//!
//! A transport follows none, because a redirect of a call with an effect is a second send, and one to another host
//! carries the secret there. For a GET within the host neither holds. Each step is a call of its own to the engine: it
//! passes the gates, is retried, and has what is left of the call's time.

use http::{StatusCode, header};
use url::Url;

use steadfast_core::clock::Instant;
use steadfast_core::internal::ext::{AnswerExt, InputErrorExt};
use steadfast_core::internal::guard::Guard;
use steadfast_core::transport::Request;
use steadfast_core::{Error, Input};

use super::Call;
use crate::engine::{Engine, Work};
use crate::reply::Reply;

impl Call {
    /// Follows up to `max` redirects to the same scheme, host and port. For a GET or HEAD without a key; for every other
    /// call it is a mistake. Default: 0. The redirect is then an error that [is refused](Error::is_refused).
    ///
    /// A redirect to any other place is not followed, so the secret stays with the host, and so is none after `max`:
    /// it is the error. The reply's [attempts](Reply::attempts) are those of the last step.
    pub fn redirects(mut self, max: u32) -> Call {
        self.redirects = max;
        self
    }

    /// Notes that redirects are to be followed where none may be.
    pub(super) fn check_may_follow(&mut self, is_sent: bool) {
        let is_read = is_sent && self.prepared.work.key.is_none() && self.prepared.request.method.is_safe();
        if self.redirects > 0 && !is_read && Guard::ReadsAlone.holds() {
            let problem = "they are followed for a GET or HEAD without a key alone; anything else could take effect twice";
            self.prepared.mistake.get_or_insert_with(|| Error::invalid(Input::Other("redirects"), problem));
        }
    }
}

/// Returns the URL at which a call goes on that ended with this error, and may follow so many redirects more.
pub(super) fn next(error: &Error, from: &Url, left: &mut u32) -> Option<Url> {
    let remaining = left.checked_sub(1)?;
    let target = target(error, from)?;
    *left = remaining;
    Some(target)
}

/// Carries a call through, and through the redirects that it may follow.
pub(super) async fn follow(
    engine: &Engine,
    request: &mut Request,
    work: &mut Work,
    started: Instant,
    mut left: u32,
) -> Result<Reply, Error> {
    loop {
        let error = match engine.call(request, work, started).await {
            Err(error) => error,
            ended => return ended,
        };
        let Some(target) = next(&error, &request.url, &mut left) else { return Err(error) };
        request.url = target;
    }
}

/// Returns the URL to which the answer leads, if that is at the same host.
fn target(error: &Error, from: &Url) -> Option<Url> {
    let answer = error.answer().filter(|answer| REDIRECTS.contains(&answer.status))?;
    let mut target = from.join(answer.header_named(&header::LOCATION)?).ok()?;
    target.set_fragment(None);
    is_within(&target, from).then_some(target)
}

/// Whether a URL that the vendor gave is of the same scheme, host and port, so that the secret may go there.
pub(super) fn is_within(target: &Url, from: &Url) -> bool {
    let is_same = target.origin() == from.origin() && target.origin().is_tuple();
    Guard::SameHost.is_out() || is_same && target.username().is_empty() && target.password().is_none()
}

/// RFC 9110, section 15.4. For what is read, each of them means the same: read there.
const REDIRECTS: [StatusCode; 5] = [
    StatusCode::MOVED_PERMANENTLY,
    StatusCode::FOUND,
    StatusCode::SEE_OTHER,
    StatusCode::TEMPORARY_REDIRECT,
    StatusCode::PERMANENT_REDIRECT,
];
