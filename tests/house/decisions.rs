//! The page of decisions is what the decision says: each cell is `next_step`, asked until it sends, looks up or ends.
//!
//! To accept a change: `STEADFAST_DECISIONS=write cargo test --test house decisions`, then commit `src/docs/decisions.md`.

use std::borrow::Cow;
use std::fs;
use std::time::Duration;

use steadfast_core::clock::{Instant, Timestamp};
use steadfast_core::internal::decision::{
    Attempted, CallEnd, Context, Errand, Goal, Lease, LogFacts, LookedUp, Now, Observed, Progress, Purpose,
    Recorded, Search, Settling, Step, Success, TakenOperation, next_step,
};
use steadfast_core::internal::ext::RecordExt as _;
use steadfast_core::internal::operation::Repeat;
use steadfast_core::internal::policy::Outcome as Health;
use steadfast_core::operation::record::{Claim, Record};
use steadfast_core::operation::{Key, OperationId, Scope};
use steadfast_core::policy::{Backoff, Jitter};
use steadfast_core::transport::{Request, SendErrorKind};
use steadfast_core::vendor::{SpeaksFor, Verdict};
use steadfast_core::{Effect, Gate, OnUnknown, Reason, Refusal};
use support::commands;
use support::members::root;

const PAGE: &str = "src/docs/decisions.md";

#[test]
fn the_page_shows_what_is_decided() {
    let path = root().join(PAGE);
    let on_file = fs::read_to_string(&path).expect("the page");
    let (before, rest) = on_file.split_once("| situation |").expect("a table");
    let (_, after) = rest.split_once("\n\n").expect("text behind the table");
    let page = format!("{before}{}\n{after}", table());
    if std::env::var("STEADFAST_DECISIONS").is_ok_and(|how| how == "write") {
        fs::write(&path, &page).expect("a page that can be written");
    }
    assert!(
        page == on_file || fs::read_to_string(&path).is_ok_and(|now| now == page),
        "{PAGE} is not what next_step says. If this is meant, run\n\
         STEADFAST_DECISIONS=write cargo test --test house decisions\n\n{}",
        table()
    );
}

fn table() -> String {
    let heads: Vec<_> = VENDORS.iter().map(|vendor| vendor.name).collect();
    let mut table = format!("| situation | {} |\n|---|{}\n", heads.join(" | "), "---|".repeat(heads.len()));
    for (situation, start, seen) in situations() {
        let cells = VENDORS.iter().map(|vendor| match &seen[..] {
            [.., Observed::LookedUp { .. }] if !vendor.has_lookup => "–".to_owned(),
            seen => TableCall::new(vendor, start).cell(seen),
        });
        let cells: Vec<_> = cells.collect();
        table.push_str(&format!("| {situation} | {} |\n", cells.join(" | ")));
    }
    table
}

struct Column {
    name: &'static str,
    replays: bool,
    has_lookup: bool,
    repeat: Repeat,
}

const fn vendor(name: &'static str, replays: bool, has_lookup: bool) -> Column {
    Column { name, replays, has_lookup, repeat: Repeat::Other }
}

const VENDORS: [Column; 5] = [
    vendor("replays the key for a day", true, false),
    vendor("replays, and has a lookup", true, true),
    vendor("has a lookup", false, true),
    vendor("has neither", false, false),
    Column { repeat: Repeat::Idempotent, ..vendor("any, by an idempotent method", false, false) },
];

#[derive(Clone, Copy)]
enum Origin {
    /// A caller's first claim.
    Claimed,
    /// Recovery takes what may have taken effect so many hours ago.
    Taken { hours: u64, resends_left: u32 },
    /// A lookup of the same was made, for this.
    LookedUp(Purpose),
}

/// Each row: its words, how the run begins, and what it observes; the last of them is decided on.
fn situations() -> Vec<(&'static str, Origin, Vec<Observed>)> {
    use Origin::{Claimed, LookedUp as Looked, Taken as Took};

    let claimed = Observed::Claimed { admitted_at: NOW, is_paused: false };
    let again = |effect| Verdict::Retry { effect, not_before: None };
    let no = |refusal| Verdict::Refused { refusal, speaks_for: SpeaksFor::ThisAttempt };
    let for_all = Verdict::Refused { refusal: Refusal::Rejected, speaks_for: SpeaksFor::EarlierToo };
    let lost = || attempted(None, again(Effect::Unknown));
    let put_off = |wait: Duration| match attempted(Some(429), again(Effect::None)) {
        Observed::Attempted(attempted) => {
            Observed::Attempted(Attempted { asked_wait: Some(wait), ..attempted })
        }
        other => other,
    };
    let looked = |looked| Observed::LookedUp { looked, asked_wait: None, ended: NOW };
    let failed = LookedUp::Failed { meets_refusal: false, down: None };
    let taken = || {
        Observed::Taken(TakenOperation {
            is_ours: true,
            is_addressed: true,
            is_given_up: false,
            has_lookup: false,
        })
    };
    let (before_send, spent) = (Looked(Purpose::BeforeSend), Looked(Purpose::Settle(Reason::Exhausted)));
    let (took, late) = (Took { hours: 1, resends_left: 0 }, Took { hours: 25, resends_left: 0 });
    let breaker = |wait_s| {
        let retry_at = Some(NOW.plus(Duration::from_secs(wait_s)));
        Observed::HeldBack { gate: Gate::Breaker, retry_at }
    };
    vec![
        ("claimed by its caller", Claimed, vec![claimed]),
        ("done", Claimed, vec![attempted(Some(200), Verdict::Done { replayed: false })]),
        ("refused", Claimed, vec![attempted(Some(422), no(Refusal::Rejected))]),
        ("credentials refused", Claimed, vec![attempted(Some(401), no(Refusal::Unauthorized))]),
        ("called a duplicate", Claimed, vec![attempted(Some(409), no(Refusal::Duplicate))]),
        ("429, come back in 10 s", Claimed, vec![put_off(Duration::from_secs(10))]),
        ("429, come back in an hour", Claimed, vec![put_off(Duration::from_secs(3_600))]),
        ("no answer, or a 5xx", Claimed, vec![lost()]),
        ("an outcome that no send changes", Claimed, vec![attempted(Some(500), Verdict::Unknown)]),
        ("no answer, then refused", Claimed, vec![lost(), attempted(Some(422), no(Refusal::Rejected))]),
        ("no answer, then refused for all attempts", Claimed, vec![lost(), attempted(Some(422), for_all)]),
        ("no answer, then a duplicate", Claimed, vec![lost(), attempted(Some(409), no(Refusal::Duplicate))]),
        ("no answer to the last rung", Claimed, vec![lost(), lost(), lost(), lost(), lost()]),
        ("circuit open for 5 s more", Claimed, vec![breaker(5)]),
        ("circuit open for an hour more", Claimed, vec![breaker(3_600)]),
        ("taken by recovery an hour later", took, vec![taken()]),
        ("taken by recovery a day later", late, vec![taken()]),
        ("the same, a second effect accepted", Took { hours: 25, resends_left: 1 }, vec![taken()]),
        (
            "credentials refused, without a caller",
            took,
            vec![attempted(Some(401), no(Refusal::Unauthorized))],
        ),
        ("lookup before a send: found", before_send, vec![looked(LookedUp::Found)]),
        ("lookup before a send: not there", before_send, vec![looked(LookedUp::Absent)]),
        ("lookup with the ladder spent: not there", spent, vec![looked(LookedUp::Absent)]),
        ("lookup cannot tell", spent, vec![looked(LookedUp::CannotTell)]),
        (
            "lookup cannot tell, again",
            spent,
            vec![looked(LookedUp::CannotTell), looked(LookedUp::CannotTell)],
        ),
        ("lookup fails", spent, vec![looked(failed)]),
        ("the process stops", took, vec![Observed::Stopping { paused_until: None }]),
    ]
}

struct TableCall {
    context: Context<'static>,
    progress: Progress,
    now: Now,
    has_lookup: bool,
}

const NOW: Instant = Instant::from_nanos(1_000_000_000_000_000);
const WALL: Timestamp = Timestamp::from_millis(1_700_000_000_000);
const ATTEMPT: Duration = Duration::from_secs(30);
const MARGIN: Duration = Duration::from_secs(10);

impl TableCall {
    fn new(vendor: &Column, start: Origin) -> TableCall {
        let id = OperationId::new(Scope::from_stored("test/v//POST /x"), Key::new("k").expect("a key"));
        let request = Request::new(http::Method::POST, "https://vendor.test/x".parse().expect("a URL"));
        let claim = commands::claim(&id, request, WALL);
        let lease = ATTEMPT + MARGIN;
        let mut record =
            Record::first(Claim { lease, attempt_max: ATTEMPT, on_unknown: OnUnknown::ByMethod, ..claim });
        let (hours, resends_left) = match start {
            Origin::Claimed => (0, 0),
            Origin::Taken { hours, resends_left } => (hours, resends_left),
            Origin::LookedUp(_) => (1, 0),
        };
        if hours > 0 {
            let sent = WALL.minus(Duration::from_secs(3_600 * hours));
            (record.fence, record.attempts, record.effect) = (2, 1, Effect::Unknown);
            (record.claimed_at, record.unknown_since, record.resends_left) = (sent, Some(sent), resends_left);
        }
        let is_recovery = matches!(start, Origin::Taken { .. });
        let backoff = Cow::Owned(Backoff::background().jitter(Jitter::None));
        let context = Context {
            recorded: Some(Recorded {
                claimed_at: record.claimed_at,
                attempt_max: record.attempt_max,
                is_first_hold: record.fence == record.first_fence,
                is_first_take: false,
                is_accepted: is_recovery,
            }),
            is_recovery,
            started: NOW,
            deadline: NOW.plus(Duration::from_secs(120)),
            retries_allowed: true,
            backoff,
            attempt_max: ATTEMPT,
            pause_max: Duration::from_secs(60),
            retention: Duration::from_secs(7 * 24 * 3_600),
            lookups_max: 2,
            repeat: vendor.repeat,
            is_safe: false,
            replay_window: vendor.replays.then_some(Duration::from_secs(24 * 3_600)),
            settle_time: Duration::from_secs(30),
            lists_deleted: true,
            queue_max: Duration::ZERO,
        };
        let now = Now { wall: WALL, at: NOW };
        let held = Lease::of(&record, NOW.plus(lease), MARGIN, NOW);
        let progress = Progress::of_record(&record, held, Settling::of(&record, NOW, Some(WALL)));
        let mut call = TableCall { context, progress, now, has_lookup: vendor.has_lookup };
        if let Origin::LookedUp(purpose) = start {
            call.hear(&call.told(&Observed::Taken(TakenOperation {
                is_ours: true,
                is_addressed: true,
                is_given_up: false,
                has_lookup: true,
            })));
            call.progress.follow(&Step::Pursue(Goal::Lookup(Search::new(purpose))), now);
        }
        call
    }

    /// The step after the last of these, and all that goes as it should, up to the next request or the end.
    fn cell(&mut self, seen: &[Observed]) -> String {
        let mut step = Step::Reread;
        for observed in seen {
            step = self.hear(&self.told(observed));
        }
        loop {
            let observed = match step {
                Step::Pursue(_) => Observed::Pursued,
                Step::ReadLog(_) => Observed::Log(Some(LogFacts {
                    was_in_doubt: false,
                    is_last_unknown: false,
                    last_ended: None,
                    sends: 1,
                    refusals: None,
                    first_doubt: WALL,
                })),
                Step::Charge(_) => Observed::Charged { is_paid: true },
                Step::Admit(_) => Observed::Admitted { is_paused: false },
                Step::Renew { needed, .. } => {
                    let until = self.now.at.plus(needed + MARGIN);
                    Observed::Renewed { until, updated_at: self.now.wall, is_paused: false }
                }
                Step::Wait(planned) => {
                    let wait = planned.until.since(self.now.at);
                    self.now = Now { wall: self.now.wall.plus(wait), at: planned.until };
                    Observed::Woken
                }
                Step::NoteCredentials(_) => Observed::CredentialsNoted,
                Step::Send if self.progress.goal() == Goal::Send(Errand::SendAtRisk) => {
                    return self.after_wait("send, at risk");
                }
                Step::Send => return self.after_wait("send"),
                Step::Lookup => return self.after_wait("look up"),
                Step::Write(ending) => return self.after_wait(&self.ending(ending)),
                Step::Reread | Step::Tell(_) => return "an end".to_owned(),
            };
            step = self.hear(&observed);
        }
    }

    /// The same, of a vendor that has a lookup or has none.
    fn told(&self, observed: &Observed) -> Observed {
        let has_lookup = self.has_lookup;
        match observed.clone() {
            Observed::Taken(taken) => Observed::Taken(TakenOperation { has_lookup, ..taken }),
            Observed::Attempted(attempted) => Observed::Attempted(Attempted { has_lookup, ..attempted }),
            other => other,
        }
    }

    fn hear(&mut self, observed: &Observed) -> Step {
        self.progress.observe(&self.context, observed, self.now);
        let step = next_step(&self.context, &self.progress, observed, self.now, 0.0);
        self.progress.follow(&step, self.now);
        step
    }

    fn after_wait(&self, words: &str) -> String {
        let wait = self.now.at.since(NOW);
        if wait.is_zero() { words.to_owned() } else { format!("{words}, after {}", shown(wait)) }
    }

    fn ending(&self, ending: CallEnd) -> String {
        match ending {
            CallEnd::Success(Success::Fresh) => "success".to_owned(),
            CallEnd::Success(Success::Replayed) => "success, replayed".to_owned(),
            CallEnd::Success(Success::Reconciled) => "success, reconciled".to_owned(),
            CallEnd::Refused(_) => "refused".to_owned(),
            CallEnd::DeadLetter(reason) => format!("dead letter, {}", reason.name()),
            CallEnd::Postponed(postponed) => match postponed.at.since(self.now.at) {
                Duration::ZERO => "recovery, at once".to_owned(),
                wait => format!("recovery, in {}", shown(wait)),
            },
        }
    }
}

fn shown(wait: Duration) -> String {
    match wait.as_secs() {
        0 => format!("{} ms", wait.as_millis()),
        3_600 => "an hour".to_owned(),
        seconds => format!("{seconds} s"),
    }
}

/// An attempt that has just ended: with this status, or without an answer.
fn attempted(status: Option<u16>, verdict: Verdict) -> Observed {
    Observed::Attempted(Attempted {
        began: NOW,
        ended: NOW,
        verdict,
        status,
        failure: status.is_none().then_some(SendErrorKind::Timeout),
        asked_wait: None,
        has_lookup: false,
        health: Health::Neutral,
        down: None,
        answered_at: None,
    })
}
