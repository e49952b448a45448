use super::*;

const EVERY: [Fault; 6] = [
    Fault::SlowBody(Duration::from_millis(250)),
    Fault::TooManyRequests(WaitForm::None),
    Fault::TooManyRequests(WaitForm::Seconds(3)),
    Fault::TooManyRequests(WaitForm::HttpDate(Duration::from_secs(2))),
    Fault::TooManyRequests(WaitForm::VendorForm(Duration::from_millis(1500))),
    Fault::Reset,
];

fn decisions(plan: &FaultPlan, count: usize) -> Vec<Option<Fault>> {
    (0..count).map(|_| plan.decide(&Method::POST, "/charges")).collect()
}

#[test]
fn every_fault_survives_its_header() {
    for fault in EVERY.into_iter().chain(PLAIN) {
        assert_eq!(Fault::from_header(&fault.to_header()), Some(fault), "{}", fault.to_header());
    }
    assert_eq!(EVERY[2].to_header(), "too-many-requests=seconds:3");
    assert_eq!(EVERY[3].to_header(), "too-many-requests=date:2000");
}

#[test]
fn other_text_is_no_fault() {
    for text in ["", "=", "reset=", "reset=1", "slow-body", "slow-body=", "slow-body=-1", "too-many-requests"]
    {
        assert_eq!(Fault::from_header(text), None, "{text}");
    }
    for text in ["too-many-requests=", "too-many-requests=seconds", "too-many-requests=none:1", "Reset"] {
        assert_eq!(Fault::from_header(text), None, "{text}");
    }
}

#[test]
fn a_seed_gives_the_same_faults_in_every_run() {
    let plan = || FaultPlan::seeded(42, 0.3, &EVERY);
    let (first, second) = (decisions(&plan(), 1000), decisions(&plan(), 1000));
    assert_eq!(first, second);
    assert_ne!(first, decisions(&FaultPlan::seeded(43, 0.3, &EVERY), 1000));
}

#[test]
fn a_seeds_decision_depends_on_the_ordinal_alone() {
    let undisturbed = decisions(&FaultPlan::seeded(7, 0.5, &EVERY), 20);
    let plan = FaultPlan::seeded(7, 0.5, &EVERY);
    plan.next_n(Fault::Html, 3);
    let disturbed = decisions(&plan, 20);
    assert_eq!(disturbed[..3], [Some(Fault::Html); 3]);
    assert_eq!(disturbed[3..], undisturbed[3..]);
}

#[test]
fn a_seed_keeps_near_its_rate_and_uses_every_fault() {
    let plan = FaultPlan::seeded(1, 0.25, &EVERY);
    let faulted = decisions(&plan, 10_000).into_iter().flatten().count();
    // Five standard deviations of a binomial with n = 10,000 and p = 1/4 are 217.
    assert!((2_283..=2_717).contains(&faulted), "{faulted}");
    assert_eq!(plan.counts().len(), EVERY.len());
    assert_eq!(plan.injected_total(), faulted as u64);
}

#[test]
fn a_rate_out_of_range_is_clamped() {
    assert_eq!(decisions(&FaultPlan::seeded(1, f64::NAN, &EVERY), 50), [None; 50]);
    assert_eq!(decisions(&FaultPlan::seeded(1, -1.0, &EVERY), 50), [None; 50]);
    assert_eq!(decisions(&FaultPlan::seeded(1, 9.0, &[Fault::Html]), 50), [Some(Fault::Html); 50]);
    assert_eq!(decisions(&FaultPlan::seeded(1, 1.0, &[]), 50), [None; 50]);
}

#[test]
fn a_rule_is_for_its_method_and_path_only_and_used_up() {
    let plan = FaultPlan::new();
    plan.when("/charges", Method::POST, Fault::Reset);
    assert_eq!(plan.decide(&Method::GET, "/charges"), None);
    assert_eq!(plan.decide(&Method::POST, "/refunds"), None);
    assert_eq!(plan.pending(), 1);
    assert_eq!(plan.decide(&Method::POST, "/charges/1"), Some(Fault::Reset));
    assert_eq!(plan.decide(&Method::POST, "/charges/1"), None);
    assert_eq!(plan.pending(), 0);
}

#[test]
fn a_standing_rule_holds_until_the_plan_is_cleared() {
    let plan = FaultPlan::new();
    plan.whenever("/", Method::POST, Fault::Error500Before).when("/", Method::POST, Fault::Reset);
    assert_eq!(
        decisions(&plan, 3),
        [Some(Fault::Reset), Some(Fault::Error500Before), Some(Fault::Error500Before)]
    );
    plan.clear();
    assert_eq!(decisions(&plan, 2), [None, None]);
    assert_eq!(plan.injected(Fault::Error500Before), 2);
    assert_eq!(plan.requests(), 5);
}

#[test]
fn a_clone_shares_the_plan() {
    let plan = FaultPlan::new();
    let clone = plan.clone();
    clone.next(Fault::Hang);
    assert_eq!(decisions(&plan, 2), [Some(Fault::Hang), None]);
}
