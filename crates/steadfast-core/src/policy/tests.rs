use super::*;
use crate::policy::backoff::BackoffExt;
use crate::policy::timeout::TimeoutsExt;

const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(3_600);

fn problem(policy: &Policy) -> String {
    policy.validate().expect_err("the policy is nonsense").to_string()
}

fn breaker() -> BreakerConfig {
    BreakerConfig::default()
}

fn with_breaker(config: BreakerConfig) -> Policy {
    Policy::background().breaker(config)
}

#[test]
fn the_presets_have_their_documented_figures_and_are_valid() {
    let background = Policy::default();
    assert_eq!(background, Policy::background());
    assert_eq!(background.backoff.steps, [500, 2_000, 5_000, 30_000].map(Duration::from_millis));
    assert_eq!(background.timeout, Timeouts::new(5 * SECOND, 30 * SECOND, 120 * SECOND));
    assert_eq!((background.request_bytes_max, background.reply_bytes_max), (1 << 20, 8 << 20));
    assert_eq!((background.retention, background.pause_max), (7 * 24 * HOUR, HOUR));
    assert_eq!((background.admission_wait, background.lookups_max), (Duration::ZERO, 3));
    assert_eq!(background.in_flight, InFlight::Refuse);
    let interactive = Policy::interactive();
    assert_eq!(interactive.timeout, Timeouts::new(SECOND, 5 * SECOND, 10 * SECOND));
    assert_eq!(interactive.backoff.wait(0, Duration::ZERO, 0.5), Some(Duration::from_millis(150)));
    assert_eq!(interactive.backoff.wait(4, Duration::ZERO, 0.5), None, "five attempts");
    for policy in [background, interactive] {
        assert!(policy.validate().is_ok());
    }
}

#[test]
fn impossible_times_are_refused_by_name() {
    let base = Policy::background();
    let timeout = |connect, attempt, total| base.clone().timeout(Timeouts::new(connect, attempt, total));
    let steps =
        |steps: &[u64]| base.clone().backoff(Backoff::ladder(steps.iter().copied().map(Duration::from_secs)));
    let zero = Duration::ZERO;
    let cases = [
        (timeout(SECOND, 31 * SECOND, 30 * SECOND), "timeout.attempt: 31s is longer than timeout.total, 30s"),
        (
            timeout(6 * SECOND, 5 * SECOND, 9 * SECOND),
            "timeout.connect: 6s is longer than timeout.attempt, 5s",
        ),
        (timeout(zero, SECOND, SECOND), "timeout.connect: zero leaves no time to do anything"),
        (timeout(SECOND, zero, SECOND), "timeout.attempt: zero leaves no time to do anything"),
        (timeout(SECOND, SECOND, zero), "timeout.total: zero leaves no time to do anything"),
        (steps(&[1, 0]), "backoff.steps[1]: zero would retry at once, without any wait"),
        (steps(&[1, 3, 2]), "backoff.steps[2]: 2s is shorter than the step before it, 3s"),
        (steps(&[604_801]), "backoff.steps[0]: 604801s is longer than the limit of 604800s"),
        (steps(&[1; 65]), "backoff.steps: 65 steps; at most 64 are allowed"),
        (
            steps(&[604_800, 604_800]),
            "record.keep: 604800s is shorter than the waits of backoff.steps together, 1209600s",
        ),
        (base.clone().retention(40 * SECOND), "record.keep: 40s is shorter than timeout.total, 120s"),
        (
            base.clone().lease_margin(zero),
            "record.lease_margin: zero ends the lease before the answer can be written down",
        ),
        (base.clone().pause_max(zero), "pause.max: zero ignores every vendor that asks for time"),
        (base.clone().admission_wait(HOUR), "admission_wait: 3600s is longer than timeout.total, 120s"),
    ];
    for (policy, expected) in cases {
        assert_eq!(problem(&policy), format!("invalid policy: {expected}"));
    }
}

#[test]
fn an_impossible_breaker_is_refused_by_name() {
    let slow = |over, rate| breaker().slow_call(over, rate);
    let cases = [
        (
            breaker().window(29 * SECOND),
            "breaker.window: 29s is shorter than timeout.attempt, 30s: calls would leave the window before they time out",
        ),
        (breaker().window(25 * HOUR), "breaker.window: 90000s is longer than the limit of 86400s"),
        (breaker().failure_rate(f64::NAN), "breaker.failure_rate: NaN is not between 0 and 1"),
        (breaker().failure_rate(-0.1), "breaker.failure_rate: -0.1 is not between 0 and 1"),
        (breaker().failure_rate(1.5), "breaker.failure_rate: 1.5 is not between 0 and 1"),
        (breaker().failure_rate(0.0), "breaker.failure_rate: 0 opens on health; switch it off with false"),
        (slow(SECOND, f64::INFINITY), "breaker.slow_call.rate: inf is not between 0 and 1"),
        (slow(Duration::ZERO, 0.5), "breaker.slow_call.over: zero makes every call slow"),
        (
            slow(30 * SECOND, 0.5),
            "breaker.slow_call.over: 30s is not below timeout.attempt, 30s: no call is slow",
        ),
        (breaker().minimum_calls(0), "breaker.minimum_calls: 0 calls have no rate"),
        (breaker().probes(0), "breaker.probes: 0 lets no call through, so that an open circuit never closes"),
        (breaker().open(Duration::ZERO, SECOND), "breaker.open_base: zero never keeps a call back"),
        (breaker().open(2 * SECOND, SECOND), "breaker.open_cap: 1s is shorter than breaker.open_base, 2s"),
        (breaker().open(SECOND, 25 * HOUR), "breaker.open_cap: 90000s is longer than the limit of 86400s"),
        (
            breaker().consecutive_failures(0),
            "breaker.consecutive_failures: 0 would never close; switch it off with false",
        ),
        (
            breaker().consecutive_failures(None).failure_rate(None),
            "breaker: no condition is on, so that it never opens; switch it off with false",
        ),
    ];
    for (config, expected) in cases {
        assert_eq!(problem(&with_breaker(config)), format!("invalid policy: {expected}"));
    }
}

#[test]
fn impossible_limits_are_refused_by_name() {
    let base = Policy::background();
    let budget = |ratio, burst, refill| base.clone().budget(BudgetConfig::new(ratio, burst, refill));
    let rate = |config| base.clone().rate(config);
    let cases = [
        (budget(f64::NAN, 1, 0.1), "budget.ratio: NaN is not between 0 and 1"),
        (budget(1.01, 1, 0.1), "budget.ratio: 1.01 is not between 0 and 1"),
        (budget(0.1, 1, f64::NAN), "budget.refill_per_second: NaN is not between 0 and 1000"),
        (budget(0.1, 1, -1.0), "budget.refill_per_second: -1 is not between 0 and 1000"),
        (
            budget(0.1, 0, 0.1),
            "budget.burst: 0 leaves budget.refill_per_second nowhere to go; set it to 0 too",
        ),
        (
            base.clone().budget(BudgetConfig::default().window(Duration::from_millis(99))),
            "budget.window: 99ms is shorter than the limit of 100ms",
        ),
        (
            rate(RateConfig::new(0, SECOND)),
            "rate.calls: 0 refuses every call; to stop calls use the kill switch",
        ),
        (rate(RateConfig::new(1, Duration::ZERO)), "rate.per: zero is no time to count in"),
        (rate(RateConfig::new(1, 25 * HOUR)), "rate.per: 90000s is longer than the limit of 86400s"),
        (
            rate(RateConfig::new(9, Duration::from_nanos(8))),
            "rate.calls: 9 in 8ns is more than one a nanosecond",
        ),
        (
            rate(RateConfig::new(5, SECOND).burst(0)),
            "rate.burst: 0 refuses every call; leave it out for a burst of rate.calls",
        ),
        (
            rate(RateConfig::new(5, SECOND).burst(6)),
            "rate.burst: 6 is more than rate.calls, 5: no more than that may start",
        ),
        (
            base.clone().concurrency(0),
            "concurrency.max: 0 refuses every call; to stop calls use the kill switch",
        ),
        (base.clone().request_bytes_max(0), "limits.request_bytes_max: 0 refuses every body"),
        (base.clone().reply_bytes_max(0), "limits.reply_bytes_max: 0 cuts every reply"),
        (base.clone().lookups_max(101), "lookups_max: 101 is over the limit of 100"),
    ];
    for (policy, expected) in cases {
        assert_eq!(problem(&policy), format!("invalid policy: {expected}"));
    }
}

#[test]
fn the_bounds_themselves_are_allowed() {
    let timeout = Timeouts::new(30 * SECOND, 30 * SECOND, 30 * SECOND);
    let policy = Policy::background()
        .backoff(Backoff::ladder([SECOND, SECOND]).jitter(Jitter::None))
        .timeout(timeout)
        .breaker(
            breaker().window(30 * SECOND).failure_rate(1.0).open(SECOND, SECOND).probes(1).minimum_calls(1),
        )
        .budget(BudgetConfig::new(1.0, 0, 0.0).window(Duration::from_millis(100)))
        .rate(RateConfig::new(1, Duration::from_nanos(1)).burst(1))
        .concurrency(1)
        .retention(30 * SECOND)
        .lease_margin(Duration::from_millis(1))
        .admission_wait(30 * SECOND)
        .lookups_max(0);
    assert!(policy.validate().is_ok());
    let bare = Policy::background().without_breaker().without_budget().without_rate().without_concurrency();
    assert!(bare.validate().is_ok());
}

#[test]
fn impossible_overrides_of_a_call_are_refused() {
    let timeouts = Timeouts::new(SECOND, 2 * SECOND, SECOND);
    assert!(timeouts.validate().is_err_and(|error| error.is_validation()));
    let falling = Backoff::ladder([Duration::ZERO]);
    assert!(falling.validate().is_err_and(|error| error.code() == "VALIDATION.policy"));
}

#[test]
fn an_empty_file_is_the_default_and_a_full_one_comes_back_as_it_was() {
    assert_eq!(toml::from_str::<Policy>("").unwrap(), Policy::default());
    let full = Policy::interactive()
        .breaker(breaker().slow_call(SECOND, 0.25).consecutive_failures(None))
        .rate(RateConfig::new(100, SECOND).burst(5))
        .concurrency(8);
    for policy in [Policy::default(), full, Policy::default().without_breaker().without_budget()] {
        let text = toml::to_string(&policy).unwrap();
        assert_eq!(toml::from_str::<Policy>(&text).unwrap(), policy, "{text}");
        let json = serde_json::to_string(&policy).unwrap();
        assert_eq!(serde_json::from_str::<Policy>(&json).unwrap(), policy, "{json}");
    }
}

#[test]
fn a_file_reads_as_one_would_write_it() {
    let policy: Policy = toml::from_str(
        r#"
        breaker = false
        admission_wait = "250ms"
        in_flight = "wait"
        backoff = { steps = ["100ms", "1s", "1m 30s"], jitter = "equal" }
        timeout = { attempt = "20s" }
        rate = { calls = 100, per = "1s" }
        [budget]
        ratio = 0.2
        "#,
    )
    .unwrap();
    let steps = [Duration::from_millis(100), SECOND, 90 * SECOND];
    let mut expected = Policy::background()
        .without_breaker()
        .admission_wait(Duration::from_millis(250))
        .in_flight(InFlight::Wait)
        .backoff(Backoff::ladder(steps).jitter(Jitter::Equal))
        .rate(RateConfig::new(100, SECOND));
    expected.timeout.attempt = 20 * SECOND;
    expected.budget = Some(BudgetConfig { ratio: 0.2, ..BudgetConfig::default() });
    assert_eq!(policy, expected);
    let policy: Policy =
        toml::from_str("breaker = { failure_rate = false, consecutive_failures = 3 }").unwrap();
    assert_eq!(policy.breaker, Some(breaker().failure_rate(None).consecutive_failures(3)));
}

#[test]
fn a_file_with_unknown_keys_bad_durations_or_a_bare_true_is_refused_in_words() {
    for (text, expected) in [
        ("timeuot = {}", "unknown field `timeuot`"),
        ("[breaker]\nprobez = 3", "unknown field `probez`"),
        ("[timeout]\nattempt = \"soon\"", "invalid value: string \"soon\", expected a duration"),
        ("backoff = { steps = [\"5\"] }", "invalid value: string \"5\", expected a duration"),
        ("breaker = true", "invalid value: boolean `true`, expected false, or the settings themselves"),
        ("budget = \"off\"", "invalid type: string \"off\", expected false, or the settings themselves"),
        ("backoff = { jitter = \"ful\" }", "unknown variant `ful`"),
    ] {
        let error = toml::from_str::<Policy>(text).unwrap_err().to_string();
        assert!(error.contains(expected), "{text}: {error}");
    }
}
