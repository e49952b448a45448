use super::*;

fn at(ms: u64) -> Instant {
    Instant::from_nanos(ms * 1_000_000)
}

fn recovery(config: RecoveryConfig) -> Recovery {
    Recovery::new(&config, None, None, at(0))
}

/// Sends as fast as it may in `from..to` milliseconds at a vendor that answers at once as `sign` says. How often.
fn send(recovery: &Recovery, (from, to): (u64, u64), sign: impl Fn(u64) -> Sign) -> u64 {
    let mut sent = 0;
    for ms in from..to {
        if let Ok(starts) = recovery.ready(at(ms)) {
            recovery.pay(starts, at(ms));
            for _ in 0..starts {
                recovery.heed(sign(sent), at(ms));
                sent += 1;
            }
        }
    }
    sent
}

#[test]
fn the_rate_doubles_each_second_while_the_vendor_answers_well_and_stops_at_the_most() {
    let recovery = recovery(RecoveryConfig::new(10, 200));
    assert_eq!(recovery.ready(at(0)), Ok(10));
    let mut seen = vec![];
    for second in 0..7 {
        send(&recovery, (second * 1_000, second * 1_000 + 1_000), |_| Sign::Good);
        seen.push(recovery.per_second(at(second * 1_000 + 999)) as u64);
    }
    // The first second has the ten in hand besides.
    for (rate, least) in seen.iter().zip([20, 40, 80, 160, 200, 200, 200]) {
        assert!((least..=least * 2).contains(rate) && *rate <= 200, "{seen:?}");
    }
    let sent = send(&recovery, (7_000, 17_000), |_| Sign::Good);
    assert!((1_990..=2_020).contains(&sent), "the whole rate: {sent} in 10 s");
}

#[test]
fn one_failure_halves_it_once_a_second_and_a_row_of_them_takes_it_to_the_floor() {
    let recovery = recovery(RecoveryConfig::new(10, 200));
    send(&recovery, (0, 8_000), |_| Sign::Good);
    recovery.heed(Sign::Failed, at(8_000));
    assert_eq!(recovery.per_second(at(8_000)), 100.0);
    recovery.heed(Sign::Good, at(8_000));
    recovery.heed(Sign::Failed, at(8_999));
    assert!(recovery.per_second(at(8_999)) > 100.0, "a second failure among good answers, within the second");
    recovery.heed(Sign::Failed, at(9_000));
    assert!(recovery.per_second(at(9_000)) < 51.0);
    for _ in 0..60 {
        recovery.heed(Sign::Failed, at(9_000));
    }
    assert_eq!(recovery.per_second(at(9_000)), FLOOR_PER_SECOND);
    let sent = send(&recovery, (9_000, 69_000), |_| Sign::Failed);
    assert!(sent <= 7, "a trickle in a minute: {sent}");
    let sent = send(&recovery, (69_000, 79_000), |_| Sign::Good);
    assert!(sent > 100, "and {sent} in the ten seconds after it");
}

#[test]
fn one_failure_in_a_hundred_leaves_most_of_the_rate() {
    let recovery = recovery(RecoveryConfig::new(10, 200));
    let sent = send(&recovery, (0, 60_000), |nth| if nth % 100 == 99 { Sign::Failed } else { Sign::Good });
    assert!(sent > 60 * 100, "{sent} in a minute, of 12,000");
}

#[test]
fn a_429_and_a_closed_gate_take_it_to_the_start_or_lower() {
    let first = RecoveryConfig::new(10, 200);
    let recovery = recovery(first);
    send(&recovery, (0, 8_000), |_| Sign::Good);
    recovery.heed(Sign::TooMuch, at(8_000));
    assert_eq!(recovery.per_second(at(8_000)), 10.0);
    recovery.heed(Sign::TooMuch, at(8_000));
    assert_eq!(recovery.per_second(at(8_000)), 5.0);
    recovery.restart(at(8_000));
    assert_eq!(recovery.per_second(at(8_000)), 5.0, "a closed gate raises nothing");
    send(&recovery, (8_000, 16_000), |_| Sign::Good);
    recovery.restart(at(16_000));
    assert_eq!(recovery.per_second(at(16_000)), 10.0);
    assert!(recovery.ready(at(16_000)).is_ok_and(|starts| starts <= 10));
}

#[test]
fn an_unused_rate_starts_over() {
    let recovery = recovery(RecoveryConfig::new(10, 200));
    send(&recovery, (0, 8_000), |_| Sign::Good);
    assert_eq!(recovery.per_second(at(17_000)), 200.0);
    assert_eq!(recovery.per_second(at(18_000)), 10.0);
    assert_eq!(recovery.ready(at(18_000)), Ok(10), "and no more in hand than at first");
}

#[test]
fn debt_is_paid_off_before_the_next_start() {
    let recovery = recovery(RecoveryConfig::new(10, 200));
    recovery.pay(10, at(0));
    recovery.pay(5, at(0));
    let next = recovery.ready(at(0)).expect_err("in debt");
    assert_eq!(next.as_nanos() / 1_000_000, 600);
    assert_eq!(recovery.ready(next), Ok(1));
    recovery.give_back(next);
    assert_eq!(recovery.ready(next), Ok(2));
    recovery.pay(usize::MAX, next);
    assert!(
        recovery.ready(next).expect_err("in debt").since(next) < Duration::from_secs(11),
        "a bounded one"
    );
}

#[test]
fn it_is_never_over_the_rate_limit_and_leaves_places() {
    let limit = RateConfig::new(75, Duration::from_secs(30));
    let recovery = Recovery::new(&RecoveryConfig::default(), Some(&limit), Some(8), at(0));
    assert_eq!((recovery.per_second(at(0)), recovery.at_once()), (2.5, 4));
    assert_eq!(Recovery::new(&RecoveryConfig::default(), None, Some(1), at(0)).at_once(), 1);
}

#[test]
fn impossible_figures_are_refused() {
    let config = RecoveryConfig::default();
    for (wrong, problem) in [
        (RecoveryConfig::new(0, 5), "recovery.start_per_second: 0 never starts"),
        (RecoveryConfig::new(6, 5), "recovery.max_per_second: 5 is under recovery.start_per_second, 6"),
        (RecoveryConfig::new(1, 10_001), "recovery.max_per_second: 10001 is over the limit of 10000"),
        (config.at_once(0), "recovery.at_once: 0 carries nothing on"),
        (config.at_once(4_097), "recovery.at_once: 4097 is over the limit of 4096"),
        (config.share(0.0), "recovery.share: 0 is not between 0 and 1"),
        (config.share(1.0), "recovery.share: 1 is not between 0 and 1"),
        (config.share(f64::NAN), "recovery.share: NaN is not between 0 and 1"),
    ] {
        let refused = wrong.validate().expect_err(problem).to_string();
        assert!(refused.contains(problem), "{refused}");
    }
    assert!(config.validate().is_ok());
}

#[test]
fn every_point_in_time_can_be_asked_at() {
    let recovery = recovery(RecoveryConfig::default());
    for nanos in [0, u64::MAX, 5, u64::MAX / 2] {
        let now = Instant::from_nanos(nanos);
        recovery.heed(Sign::Failed, now);
        let _ = recovery.ready(now);
        recovery.pay(1, now);
    }
}

#[test]
fn debt_of_a_faster_time_takes_no_longer_than_all_that_a_slower_one_can_have() {
    // Whoever looks at once, and whoever looks later: ten seconds for the debt, and ten for a start.
    for looks in [1, 5_000, 11_000, 19_000] {
        let recovery = recovery(RecoveryConfig::new(10, 200));
        recovery.pay(40, at(0));
        // To the floor, and no further look at it.
        for _ in 0..7 {
            recovery.heed(Sign::Failed, at(0));
        }
        let ready = recovery.ready(at(looks)).expect_err("still in debt");
        assert!(ready <= at(20_100), "looked at {looks} ms: {ready:?}");
        assert_eq!(recovery.per_second(at(looks)), FLOOR_PER_SECOND);
        assert_eq!(recovery.ready(at(20_100)), Ok(1));
    }
}

#[test]
fn others_that_come_and_go_do_not_take_it_under_the_floor() {
    let recovery = recovery(RecoveryConfig::new(10, 500));
    for minute in 0..100 {
        recovery.divide(3, at(minute * 60_000));
        recovery.divide(2, at(minute * 60_000 + 1_000));
    }
    assert!((recovery.per_second(at(6_000_000)) - 0.1).abs() < 1e-9, "as a vendor that fails leaves it");
    recovery.divide(1_000, at(6_000_000));
    assert!(
        (recovery.per_second(at(6_000_000)) - 0.01).abs() < 1e-9,
        "a thousand of them have their part of the first"
    );
}

#[test]
fn behind_a_gate_that_opens_each_of_several_begins_with_its_part_of_the_first_rate() {
    let recovery = recovery(RecoveryConfig::new(100, 200));
    recovery.divide(4, at(0));
    send(&recovery, (0, 8_000), |_| Sign::Good);
    assert_eq!(recovery.per_second(at(8_000)), 50.0);
    recovery.restart(at(8_000));
    assert_eq!(recovery.per_second(at(8_000)), 25.0);
}

#[test]
fn a_peers_fall_counts_once_however_often_it_is_reported() {
    let recovery = recovery(RecoveryConfig::new(10, 200));
    send(&recovery, (0, 8_000), |_| Sign::Good);
    for beat in 0..5 {
        recovery.heard(Sign::Failed, Duration::from_millis(beat * 1_000), at(8_000 + beat * 1_000));
    }
    assert_eq!(recovery.per_second(at(12_000)), 100.0);
}
