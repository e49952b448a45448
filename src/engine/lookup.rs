//! The step that asks for a page of a lookup.

use http::header::{AGE, CACHE_CONTROL, HeaderValue};

use steadfast_core::clock::Instant;
use steadfast_core::internal::attempt::{LOOKUP, report};
use steadfast_core::internal::decision::{LookedUp, Observed, PAGES_MAX, meets_refusal};
use steadfast_core::internal::error::Chain;
use steadfast_core::internal::ext::VerdictExt;
use steadfast_core::internal::guard::Guard;
use steadfast_core::transport::{Answer, Request, SendError, SendErrorKind};
use steadfast_core::vendor::{Attempt, Finding, Verdict};
use steadfast_core::{AttemptReport, Effect};

use super::run::Run;
use super::{attempt, exchange};
use crate::telemetry;

/// Asks for one page. A failure on the way is never taken for an absence.
pub(super) async fn ask(run: &mut Run<'_>) -> Observed {
    let engine = run.engine;
    let (Some(mut admission), Some(mut question)) =
        (run.in_hand.admission.take(), run.in_hand.question.take())
    else {
        return Observed::LookedUp {
            looked: LookedUp::CannotTell,
            asked_wait: None,
            ended: engine.clock.now(),
        };
    };
    // A miss that a cache remembers is older than the send that is asked about.
    if Guard::LookupPastCaches.holds() {
        question.headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    }
    let (admitted, begun) = (admission.admitted_at(), engine.clock.now());
    admission.begin(begun);
    let bounds = attempt::bounds(run, &admission);
    let exchanged = engine.exchange(&question, bounds, admitted, begun, None).await;
    attempt::account(run, admission, &question, &exchanged);
    let exchange::Exchanged { outcome, ended, .. } = exchanged;
    run.in_hand.exchanged = Some((begun, ended));
    let verdict =
        engine.vendor.classify(&Attempt::new(&question, false, outcome.as_ref(), engine.wall())).believed();
    let asked_wait = attempt::asked_wait(run, &verdict, &outcome, ended);
    let status = outcome.as_ref().ok().map(|answer| answer.status.as_u16());
    let is_refused = meets_refusal(&run.context, &verdict, status);
    if !is_refused {
        attempt::note_accepted(run, &verdict, ended);
    }
    let mut met = Met { status, ..Met::default() };
    let looked = match outcome {
        Err(failure) => {
            met.failed(&failure);
            None
        }
        Ok(answer) => read(run, &question, &answer, &verdict, &mut met),
    };
    let looked = looked.unwrap_or_else(|| LookedUp::Failed {
        meets_refusal: is_refused,
        down: attempt::down(run, engine.clock.now()),
    });
    if looked != LookedUp::More {
        run.in_hand.line = Some(Box::new(line(run, met, begun)));
    }
    Observed::LookedUp { looked, asked_wait, ended }
}

/// The result of an answer; `None` if the question is as open as before.
fn read(
    run: &mut Run<'_>,
    question: &Request,
    answer: &Answer,
    verdict: &Verdict,
    met: &mut Met,
) -> Option<LookedUp> {
    if Guard::CutLookup.keeps(answer.cut) {
        met.failure = Some("the answer is over the limit".to_owned());
        return None;
    }
    if Guard::CachedLookup.keeps(is_from_a_cache(answer)) {
        met.failure = Some("the answer is from a cache on the way".to_owned());
        return None;
    }
    // Not now, or not the vendor's own word.
    if matches!(verdict, Verdict::Retry { .. } | Verdict::Unknown) {
        return None;
    }
    let finding = run.engine.vendor.read_lookup(&run.subject()?, question, answer);
    match finding {
        Finding::Found(answer) => {
            run.in_hand.answer = Some(answer);
            Some(LookedUp::Found)
        }
        Finding::Absent => Some(LookedUp::Absent),
        // Credentials that are mended, or a page that goes away, leave the question to be asked again.
        Finding::CannotTell if matches!(verdict, Verdict::Refused { .. }) => None,
        Finding::Unanswered => None,
        Finding::CannotTell => Some(LookedUp::CannotTell),
        Finding::Next(_) if run.progress.pages().saturating_add(1) >= PAGES_MAX => {
            met.failure = Some(format!("no end after {PAGES_MAX} pages"));
            Some(LookedUp::CannotTell)
        }
        Finding::Next(next) => {
            run.in_hand.question = Some(Box::new(next));
            Some(LookedUp::More)
        }
    }
}

/// The line of a lookup, without its effect.
fn line(run: &Run<'_>, met: Met, begun: Instant) -> AttemptReport {
    let latency = run.engine.clock.now().since(begun);
    let started_at = run.engine.wall().minus(latency);
    let mut line = report(run.progress.attempts(), started_at, LOOKUP, Effect::Unknown);
    line.latency = latency;
    (line.status, line.failure_kind, line.failure) = (met.status, met.failure_kind, met.failure);
    line
}

/// Leaves the line of a lookup on the call's log, once it is known what the lookup proves.
pub(super) fn leave_line(run: &mut Run<'_>) {
    let (Some(mut line), Some(looked)) = (run.in_hand.line.take(), run.progress.last().looked) else {
        return;
    };
    line.effect = match looked {
        LookedUp::Found => Effect::Applied,
        LookedUp::Absent => Effect::None,
        LookedUp::CannotTell | LookedUp::Failed { .. } | LookedUp::More => Effect::Unknown,
    };
    run.log.push(*line);
    telemetry::looked_up(run.whose(), name(looked));
}

const fn name(looked: LookedUp) -> &'static str {
    match looked {
        LookedUp::Found => "found",
        LookedUp::Absent => "absent",
        LookedUp::CannotTell | LookedUp::More => "cannot_tell",
        LookedUp::Failed { .. } => "failed",
    }
}

/// RFC 9111, section 5.1: an `Age` says for how long a cache has had the answer.
fn is_from_a_cache(answer: &Answer) -> bool {
    let age = answer.headers.get(AGE).and_then(|age| age.to_str().ok());
    age.is_some_and(|age| age.trim() != "0")
}

/// How a lookup went, for its line.
#[derive(Default)]
struct Met {
    status: Option<u16>,
    /// Set if no whole answer came.
    failure_kind: Option<SendErrorKind>,
    failure: Option<String>,
}

impl Met {
    fn failed(&mut self, failure: &SendError) {
        (self.failure_kind, self.failure) = (Some(failure.kind()), Some(Chain(failure).to_string()));
    }
}
