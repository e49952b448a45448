//! The rule against an oracle that works from what the design says of effects. The oracle knows nothing of the order
//! in which the rule asks its questions: it imagines every history that fits the facts.

use proptest::prelude::*;

use super::*;

const MINUTE: u64 = 60_000;

fn at(minute: i64) -> Timestamp {
    Timestamp::from_millis(u64::try_from(1_000_000 + minute).expect("after 1970") * MINUTE)
}

fn minutes(minutes: i64) -> Duration {
    Duration::from_millis(u64::try_from(minutes).expect("not negative") * MINUTE)
}

/// Whether a send adds an effect to one that an earlier send had or had not.
fn second_effect(applied_before: bool, facts: &Facts) -> bool {
    let executed = !matches!(facts.window, Window::Open { .. });
    applied_before && executed && facts.repeat == Repeat::Other
}

/// Whether an operation with this past can have brought these facts about.
fn fits(applied_before: bool, facts: &Facts) -> bool {
    match (facts.effect, facts.lookup) {
        (Effect::None, _) => !applied_before,
        (Effect::Applied, _) => applied_before,
        (Effect::Unknown, Lookup::Absent) => !applied_before,
        (Effect::Unknown, _) => true,
    }
}

/// Returns the decision of a person who knows the promise and nothing of the code.
fn allowed(facts: &Facts) -> &'static str {
    if facts.effect == Effect::Applied {
        return "stop";
    }
    let harmful =
        [false, true].into_iter().filter(|past| fits(*past, facts)).any(|past| second_effect(past, facts));
    if !harmful {
        return "send";
    }
    let could_learn = facts.lookup == Lookup::NotAsked;
    match (could_learn, facts.resends_left) {
        (true, _) => "look up",
        (false, 0) => "stop",
        (false, _) => "risk",
    }
}

fn every_fact() -> impl Iterator<Item = Facts> {
    let windows = [Window::Open { until: at(7) }, Window::Closed, Window::None];
    let lookups = [Lookup::None, Lookup::NotAsked, Lookup::Absent, Lookup::CannotTell];
    let repeats = [Repeat::Safe, Repeat::Idempotent, Repeat::Other];
    let effects = [Effect::None, Effect::Unknown, Effect::Applied];
    effects.into_iter().flat_map(move |effect| {
        repeats.into_iter().flat_map(move |repeat| {
            windows.into_iter().flat_map(move |window| {
                lookups.into_iter().flat_map(move |lookup| {
                    [0, 1, 2, u32::MAX].map(|resends_left| Facts {
                        effect,
                        repeat,
                        window,
                        lookup,
                        resends_left,
                    })
                })
            })
        })
    })
}

#[test]
fn the_rule_is_the_oracle_over_the_whole_space() {
    let mut seen = 0;
    for facts in every_fact() {
        let ruling = may_send(&facts);
        let decision = match ruling {
            Ruling::Send(_) => "send",
            Ruling::LookupFirst => "look up",
            Ruling::SendAtRisk => "risk",
            Ruling::Stop(_) => "stop",
        };
        assert_eq!(decision, allowed(&facts), "{facts:?}: {ruling:?}");
        seen += 1;
    }
    assert_eq!(seen, 3 * 3 * 3 * 4 * 4);
}

/// The reason of a decision must be true by itself.
#[test]
fn the_reason_of_a_decision_is_true() {
    for facts in every_fact() {
        match may_send(&facts) {
            Ruling::Send(Why::NotApplied) => assert_eq!(facts.effect, Effect::None, "{facts:?}"),
            Ruling::Send(Why::WindowOpen { until }) => assert_eq!(facts.window, Window::Open { until }),
            Ruling::Send(Why::Repeatable) => assert_ne!(facts.repeat, Repeat::Other, "{facts:?}"),
            Ruling::Send(Why::ProvenAbsent) => assert_eq!(facts.lookup, Lookup::Absent, "{facts:?}"),
            Ruling::Stop(Reason::Expired) => assert_eq!(facts.window, Window::Closed, "{facts:?}"),
            Ruling::Stop(reason) => {
                assert_eq!(reason, Reason::Unknown);
                assert!(facts.window == Window::None || facts.effect == Effect::Applied, "{facts:?}");
            }
            Ruling::LookupFirst | Ruling::SendAtRisk => {}
        }
    }
}

#[test]
fn a_methods_safety_is_that_of_http() {
    for (repeat, methods) in [
        (Repeat::Safe, &["GET", "HEAD", "OPTIONS", "TRACE"][..]),
        (Repeat::Idempotent, &["PUT", "DELETE"]),
        (Repeat::Other, &["POST", "PATCH", "CONNECT", "MKCOL"]),
    ] {
        for method in methods {
            let method = Method::from_bytes(method.as_bytes()).expect("a method");
            assert_eq!(Repeat::of(&method), repeat, "{method}");
        }
    }
}

/// Whether a resend that leaves now reaches the vendor while it replays, whatever is true of what the asker cannot
/// see. In whole minutes. The first claim's clock and the asker's are each off by what two clocks can differ by, and
/// the request takes any time that an attempt can take.
fn arrives_in_time(replay: i64, sent: &Sent) -> bool {
    let minute = |time: Timestamp| i64::try_from(time.as_millis() / MINUTE).expect("small");
    let differ = i64::try_from(CLOCKS_DIFFER_MAX.as_secs() / 60).expect("small");
    let whole = |duration: Duration| i64::try_from(duration.as_secs() / 60).expect("small");
    let (claimed, moved, now) = (minute(sent.claimed_at), minute(sent.updated_at), minute(sent.now));
    if claimed - now > differ || moved - now > differ {
        return false;
    }
    let mut worst = true;
    for off_by in -differ..=differ {
        for under_way in 0..=whole(sent.attempt_max) {
            // A clock of our own may have stood still and is as little to be trusted to the minute.
            let since_the_claim = [Some(now - claimed), sent.measured.map(whole)];
            for passed in since_the_claim.into_iter().flatten() {
                let arrives_after = passed.max(0) + off_by + under_way;
                worst &= arrives_after < replay;
            }
        }
    }
    worst
}

proptest! {
    #[test]
    fn an_open_window_is_one_that_no_clock_and_no_delay_can_miss(
        replay in 0_i64..60,
        claimed in -30_i64..30,
        moved_after in 0_i64..30,
        now in -30_i64..60,
        measured in proptest::option::of(0_i64..60),
        attempt_max in 0_i64..10,
    ) {
        let sent = Sent {
            claimed_at: at(claimed),
            updated_at: at(claimed + moved_after),
            now: at(now),
            measured: measured.map(minutes),
            attempt_max: minutes(attempt_max),
        };
        let open = matches!(window(Some(minutes(replay)), &sent), Window::Open { .. });
        prop_assert_eq!(open, arrives_in_time(replay, &sent));
        prop_assert_eq!(window(None, &sent), Window::None);
    }

    #[test]
    fn an_open_window_names_its_end(
        replay in 0_i64..60,
        passed in 0_i64..60,
        measured in proptest::option::of(0_i64..60),
    ) {
        let sent = |now: Timestamp, measured: Option<Duration>| Sent {
            claimed_at: at(0),
            updated_at: at(0),
            now,
            measured,
            attempt_max: minutes(1),
        };
        let window_after = |later: Duration| {
            let measured = measured.map(|measured| minutes(measured).saturating_add(later));
            window(Some(minutes(replay)), &sent(at(passed).plus(later), measured))
        };
        if let Window::Open { until } = window_after(Duration::ZERO) {
            let left = until.since(at(passed));
            prop_assert_eq!(window_after(left), Window::Closed);
            prop_assert_eq!(window_after(left - Duration::from_millis(1)), Window::Open { until });
        }
    }
}

#[test]
fn a_window_no_longer_than_the_slack_is_never_open() {
    let sent = |attempt_max| Sent {
        claimed_at: at(0),
        updated_at: at(0),
        now: at(0),
        measured: Some(Duration::ZERO),
        attempt_max,
    };
    let half_a_minute = Duration::from_secs(30);
    assert_eq!(slack(half_a_minute), Duration::from_secs(330));
    let open_for = |secs| match window(Some(Duration::from_secs(secs)), &sent(half_a_minute)) {
        Window::Open { until } => Some(until.since(at(0)).as_secs()),
        Window::Closed => None,
        Window::None => panic!("there is a window"),
    };
    assert_eq!([0, 1, 330, 331, 86_400].map(open_for), [None, None, None, Some(1), Some(86_070)]);
    assert_eq!(window(Some(Duration::MAX), &sent(Duration::MAX)), Window::Closed);
    assert!(matches!(window(Some(Duration::MAX), &sent(half_a_minute)), Window::Open { .. }));
}
