//! The step that tells the caller.

use http::header;

use steadfast_core::internal::decision::{CallEnd, CallerAnswer, Postponed, Success, Why};
use steadfast_core::internal::error::Kind;
use steadfast_core::internal::ext::{AnswerExt, ErrorExt};
use steadfast_core::operation::record::State;
use steadfast_core::transport::{Answer, Request, SendErrorKind};
use steadfast_core::{Disposition, Effect, Error, Reason, Refusal};

use super::run::Run;
use crate::reply::{Obtained, Reply};
use crate::telemetry;

/// The caller's answer.
pub(super) async fn tell(run: &mut Run<'_>, told: CallerAnswer) -> Result<Reply, Error> {
    let effect = match told {
        CallerAnswer::End(effect) => effect,
        CallerAnswer::Failure => return Err(failure(run)),
    };
    match run.progress.ending() {
        Some(CallEnd::Success(how)) => success(run, how),
        Some(CallEnd::Refused(refusal)) => Err(Box::pin(refused(run, refusal, effect)).await),
        Some(CallEnd::DeadLetter(reason)) => Err(dead_letter(run, reason, effect)),
        Some(CallEnd::Postponed(postponed)) => Err(self::postponed(run, postponed, effect)),
        None => Err(failure(run)),
    }
}

fn failure(run: &mut Run<'_>) -> Error {
    // Each step that fails leaves one.
    let error = run.in_hand.error.take();
    error.unwrap_or_else(|| run.in_context(Error::new(Kind::Fenced, Effect::Unknown)))
}

fn success(run: &mut Run<'_>, how: Success) -> Result<Reply, Error> {
    let Some(answer) = run.in_hand.answer.take() else { return Err(failure(run)) };
    let obtained = match how {
        Success::Fresh => Obtained::Fresh,
        Success::Replayed => Obtained::Replayed,
        Success::Reconciled => Obtained::Reconciled,
    };
    if how == Success::Replayed {
        telemetry::replayed(run.whose(), "vendor");
    }
    if let Some(error) = unreadable(run.engine.policy.reply_bytes_max, run.request, &answer) {
        return Err(run.in_context(error));
    }
    let mut reply = Reply::new(answer, obtained, run.progress.attempts()).with_waited(run.progress.waited());
    if let Some(hold) = &run.hold {
        reply.name(hold.record.id.key.clone(), hold.record.wire_key.clone());
    }
    Ok(reply)
}

/// A definite no that is the operation's outcome.
async fn refused(run: &mut Run<'_>, refusal: Refusal, effect: Effect) -> Error {
    let Some(answer) = run.in_hand.answer.take() else { return failure(run) };
    let kind = Kind::Refused { refusal, status: answer.status.as_u16() };
    let error = Error::new(kind, effect).with_answer(Some(answer));
    // The key is free again: a row of the outbox may take it over.
    let freed = run.hold.as_ref().filter(|_| refusal == Refusal::Unauthorized);
    let next = match freed {
        Some(hold) => run.engine.next_of_freed(&hold.record).await,
        None => None,
    };
    run.in_context(match next {
        Some(next) => error.with_disposition(next),
        None => error,
    })
}

/// The end of a keyed call as a dead letter, and of an unkeyed one with its last failure.
fn dead_letter(run: &mut Run<'_>, reason: Reason, effect: Effect) -> Error {
    let kind = match &run.hold {
        None => dependency(run),
        Some(hold) => {
            let met = (run.in_hand.answer.as_ref(), run.in_hand.failure.as_ref());
            telemetry::dead_letter(&**run.engine.vendor, &hold.record, reason, met);
            Kind::DeadLetter { reason, timeout: timed_out(run), rate_limited: rate_limited(run) }
        }
    };
    let error = Error::new(kind, effect).with_answer(run.in_hand.answer.take());
    let error = error.with_cause(run.in_hand.failure.take());
    run.in_context(error)
}

/// The end of a call whose operation goes on.
fn postponed(run: &mut Run<'_>, postponed: Postponed, effect: Effect) -> Error {
    let kind = match postponed.why {
        Why::Retry | Why::Lookup => dependency(run),
        Why::Gate(gate) => Kind::Gate(gate),
        Why::OutOfTime(next) => {
            Kind::Deadline { budget: run.context.deadline.since(run.context.started), next }
        }
        Why::NotOurs => Kind::Fenced,
    };
    let on_record = run.hold.as_ref().and_then(|hold| match hold.record.state {
        State::Scheduled { at } => Some(at),
        _ => None,
    });
    let at = on_record.unwrap_or_else(|| run.engine.wall().plus(postponed.at.since(run.engine.clock.now())));
    let mut error = Error::new(kind, effect).with_retry_at(Some(at)).with_answer(run.in_hand.answer.clone());
    if run.hold.is_some() {
        error = error.with_disposition(Disposition::Continues { at: Some(at) });
    }
    let error = error.with_cause(run.in_hand.failure.take());
    run.in_context(error)
}

/// The last attempt's failure.
fn dependency(run: &Run<'_>) -> Kind {
    Kind::Dependency { timeout: timed_out(run), rate_limited: rate_limited(run) }
}

fn timed_out(run: &Run<'_>) -> bool {
    let failure = run.in_hand.failure.as_ref();
    failure.is_some_and(|failure| failure.kind() == SendErrorKind::Timeout)
        || run.in_hand.answer.as_ref().is_some_and(Answer::is_gateway_timeout)
}

fn rate_limited(run: &Run<'_>) -> bool {
    run.in_hand.answer.as_ref().is_some_and(Answer::is_rate_limit)
}

/// Why the answer to a call that succeeded cannot be read, if it cannot. It is settled all the same: its status is known.
///
/// A call that says itself which encodings it takes reads them itself.
pub(super) fn unreadable(limit_bytes: usize, request: &Request, answer: &Answer) -> Option<Error> {
    let of_kind = |kind| Error::new(kind, Effect::Applied).with_answer(Some(answer.clone()));
    if answer.cut {
        return Some(of_kind(Kind::ReplyTooLarge { limit_bytes }));
    }
    let is_packed =
        answer.headers.contains_key(header::CONTENT_ENCODING) && std::str::from_utf8(&answer.body).is_err();
    let is_callers = request.headers.contains_key(header::ACCEPT_ENCODING);
    (is_packed && !is_callers).then(|| of_kind(Kind::ReplyUnreadable).with_source(NOT_UNPACKED))
}

const NOT_UNPACKED: &str = "its Content-Encoding is none that was asked for, or it is damaged";
