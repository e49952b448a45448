//! State on record × what refuses × what is said: no word about an operation is better than its record.

use std::sync::Arc;

use support::acme::Acme;
use support::rig::{Rig, plain, secs, until};
use support::trouble::{Trouble, Troubled};

use steadfast::clock::{Clock, Timestamp};
use steadfast::operation::record::{Act, Action, Filter, Record, Resolution};
use steadfast::policy::{Backoff, Mode, RateConfig};
use steadfast::testkit::ScriptedTransport;
use steadfast::transport::SendErrorKind;
use steadfast::{Disposition, Effect, Error, Gate, Obtained, Policy, Reply};

#[derive(Clone, Copy, Debug, PartialEq)]
enum OnRecord {
    Nothing,
    InProgress,
    /// Its holder's lease has run out.
    Lapsed,
    ScheduledNone,
    ScheduledUnknown,
    Succeeded,
    Refused,
    Unauthorized,
    DeadNone,
    DeadUnknown,
    Resolved,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Refuses {
    KillSwitch,
    Pause,
    Breaker,
    Concurrency,
    Rate,
    NoTime,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Next {
    Ended,
    /// From the time on record.
    Continues,
    Operator,
}

/// The answer that is given whatever refuses: the effect, what comes next, and the code where it is not the refuser's
/// own.
enum Said {
    Reply,
    Error(Effect, Next, Option<&'static str>),
}

#[rustfmt::skip]
const TABLE: [(OnRecord, Said); 11] = {
    use Effect::{None as Not, Unknown};
    use Next::{Continues, Ended, Operator};
    [
        (OnRecord::Nothing,          Said::Error(Not,     Ended,     None)),
        (OnRecord::InProgress,       Said::Error(Unknown, Continues, None)),
        (OnRecord::Lapsed,           Said::Error(Unknown, Continues, None)),
        (OnRecord::ScheduledNone,    Said::Error(Not,     Continues, None)),
        (OnRecord::ScheduledUnknown, Said::Error(Unknown, Continues, None)),
        (OnRecord::Succeeded,        Said::Reply),
        (OnRecord::Refused,          Said::Error(Not,     Ended,     Some("VALIDATION.refused"))),
        (OnRecord::Unauthorized,     Said::Error(Not,     Ended,     None)),
        (OnRecord::DeadNone,         Said::Error(Not,     Operator,  Some("RATE_LIMIT.exceeded"))),
        (OnRecord::DeadUnknown,      Said::Error(Unknown, Operator,  Some("UNKNOWN.effect"))),
        (OnRecord::Resolved,         Said::Error(Unknown, Ended,     Some("UNKNOWN.effect"))),
    ]
};

const REFUSERS: [(Refuses, &str); 6] = [
    (Refuses::KillSwitch, "DEPENDENCY.unavailable"),
    (Refuses::Pause, "RATE_LIMIT.exceeded"),
    (Refuses::Breaker, "DEPENDENCY.unavailable"),
    (Refuses::Concurrency, "RATE_LIMIT.exceeded"),
    (Refuses::Rate, "RATE_LIMIT.exceeded"),
    (Refuses::NoTime, "DEPENDENCY.timeout"),
];

/// Finding A1.
#[tokio::test]
async fn what_a_refused_call_is_told_is_what_is_on_record() {
    for (on_record, said) in &TABLE {
        for (refuses, code) in REFUSERS {
            let case = format!("{on_record:?}, {refuses:?}");
            let rig = prepared(*on_record).await;
            let before = record(&rig).await;
            let until = before.as_ref().and_then(Record::until);
            let sent = rig.network.requests().len();
            let (told, gate_opens) = refused(&rig, refuses).await;
            assert_eq!(rig.network.requests().len(), sent, "{case}: nothing is sent");
            assert_eq!(record(&rig).await, before, "{case}: nothing is written");
            let (effect, next, other_code) = match said {
                Said::Reply => {
                    assert_eq!(told.expect(&case).obtained(), Obtained::Replayed, "{case}");
                    continue;
                }
                Said::Error(effect, next, code) => (*effect, *next, *code),
            };
            let error = told.expect_err(&case);
            let at = if next == Next::Continues { until } else { None };
            let disposition = match next {
                Next::Ended => Disposition::Ended,
                Next::Operator => Disposition::AwaitsOperator,
                Next::Continues => Disposition::Continues { at },
            };
            assert_eq!((error.effect(), error.disposition()), (effect, disposition), "{case}: {error}");
            // Whoever holds it, or waits for its time, is seen before the rate is charged.
            let seen_first = refuses == Refuses::Rate && at.is_some() && *on_record != OnRecord::Lapsed;
            let expected =
                if seen_first { "CONFLICT.idempotency.in_progress" } else { other_code.unwrap_or(code) };
            assert_eq!(error.code(), expected, "{case}: {error}");
            // Whoever holds it ends its attempt before its lease, as far as that time is not over yet.
            let ends = at.map(|at| match &before {
                Some(record) if *on_record == OnRecord::InProgress => {
                    record.updated_at.plus(record.attempt_max)
                }
                _ => at,
            });
            let retry_at = match (other_code, seen_first) {
                (Some(_), _) => None,
                (None, true) => ends,
                (None, false) => gate_opens.map(|opens| ends.map_or(opens, |at| opens.max(at))),
            };
            assert_eq!(error.retry_at().map(Timestamp::from), retry_at, "{case}: {error}");
        }
    }
}

/// Finding A1.
#[tokio::test]
async fn a_store_that_cannot_say_makes_it_unknown() {
    for trouble in [Trouble::Fail, Trouble::Hang] {
        let store = Arc::new(Troubled::default());
        let transport = ScriptedTransport::new().status(200);
        let rig = Rig::of(Acme::new()).network(transport).store(store.clone()).build();
        rig.client.engage_kill_switch();
        store.gets([trouble]);
        let call = rig.charge();
        let told = tokio::spawn(call.send());
        while !told.is_finished() {
            rig.clock.advance(secs(1));
            tokio::task::yield_now().await;
        }
        let error = told.await.expect("no panic").expect_err("switched off");
        assert_eq!(error.gate(), Some(Gate::KillSwitch));
        let word = (error.effect(), error.disposition());
        assert_eq!(word, (Effect::Unknown, Disposition::Continues { at: None }), "{error}");
    }
}

/// Finding A9.
#[tokio::test]
async fn an_answer_from_the_record_leaves_the_rate_to_those_that_are_sent() {
    let hourly = plain().rate(RateConfig::new(2, secs(3600)));
    let transport = ScriptedTransport::new().status(200).status(200);
    let rig = Rig::with(Acme::new(), transport, hourly);
    for _ in 0..10 {
        rig.charge().send().await.expect("sent once, and replayed");
    }
    rig.client.post("/charges").key("order-43").send().await.expect("the second of the hour");
    let third = rig.client.post("/charges").key("order-44").send().await.expect_err("the third");
    assert_eq!(third.gate(), Some(Gate::Rate));
}

/// A client whose operation is in that state.
async fn prepared(on_record: OnRecord) -> Rig {
    let network = ScriptedTransport::new();
    let no_ladder = plain().backoff(Backoff::none());
    let (network, policy) = match on_record {
        OnRecord::Nothing => (network, plain()),
        OnRecord::InProgress | OnRecord::Lapsed => (network.hang(), plain()),
        OnRecord::ScheduledNone => (network.fail(SendErrorKind::Connect), plain()),
        OnRecord::ScheduledUnknown => (network.fail(SendErrorKind::Reset), plain()),
        OnRecord::Succeeded => (network.status(200), plain()),
        OnRecord::Refused => (network.status(402), plain()),
        OnRecord::Unauthorized => (network.status(401), plain()),
        OnRecord::DeadNone => (network.status(429), no_ladder),
        OnRecord::DeadUnknown | OnRecord::Resolved => (network.fail(SendErrorKind::Reset), no_ladder),
    };
    let rig = Rig::with(Acme::replaying(secs(86_400)), network, policy);
    match on_record {
        OnRecord::Nothing => {}
        OnRecord::InProgress | OnRecord::Lapsed => {
            let held = tokio::spawn(rig.charge().send());
            until(|| !rig.network.requests().is_empty()).await;
            held.abort();
            assert!(held.await.is_err());
            if on_record == OnRecord::Lapsed {
                rig.clock.advance(secs(3600));
            }
        }
        OnRecord::ScheduledNone | OnRecord::ScheduledUnknown => {
            let short = rig.charge().deadline(std::time::Duration::from_millis(300));
            assert!(short.send().await.expect_err("no time for the ladder").is_deadline());
        }
        _ => drop(rig.charge().send().await),
    }
    if on_record == OnRecord::Resolved {
        let record = record(&rig).await.expect("a record");
        let resolution = Resolution::Applied { vendor_id: "ch_1".into() };
        let (by, why) = ("me".into(), "seen at the vendor's".into());
        let act = Act { action: Action::Resolve(resolution), by, why, now: rig.clock.wall(), fence: None };
        rig.store.act(&record.id, act).await.expect("a store").expect("allowed");
    }
    rig
}

/// The answer to another process that is refused, and when its gate opens.
async fn refused(rig: &Rig, refuses: Refuses) -> (Result<Reply, Error>, Option<Timestamp>) {
    let policy = match refuses {
        Refuses::Concurrency => plain().concurrency(1),
        Refuses::Rate => plain().rate(RateConfig::new(1, secs(3600))),
        Refuses::Breaker => plain().breaker(Policy::background().breaker.expect("the preset has one")),
        _ => plain(),
    };
    let client =
        rig.beside(Acme::replaying(secs(86_400))).network(rig.network.clone()).policy(policy).client();
    let now = rig.clock.now();
    let held = (refuses == Refuses::Concurrency).then(|| client.gates().admit(now).expect("the first"));
    let opens_in = match refuses {
        Refuses::KillSwitch => {
            client.engage_kill_switch();
            None
        }
        Refuses::Pause => {
            client.pause_for(secs(90));
            Some(secs(90))
        }
        Refuses::Breaker => {
            client.set_breaker_mode(Mode::ForcedOpen);
            None
        }
        Refuses::Rate => {
            client.gates().admit(now).expect("the first").begin(now);
            Some(secs(3600))
        }
        Refuses::Concurrency | Refuses::NoTime => None,
    };
    let call = client.post("/charges").key("order-42/charge").json(&serde_json::json!({"amount": 4711}));
    let call = if refuses == Refuses::NoTime { call.deadline(secs(0)) } else { call };
    let told = call.send().await;
    drop(held);
    (told, opens_in.map(|wait| rig.clock.wall().plus(wait)))
}

async fn record(rig: &Rig) -> Option<Record> {
    let page = rig.store.list(&Filter::default(), None, 2).await.expect("a store");
    assert!(page.rows.len() < 2, "one operation at most");
    match page.rows.first() {
        Some(summary) => rig.store.get(&summary.id).await.expect("a store"),
        None => None,
    }
}
