//! Counters and lines, without a run.

use std::str::FromStr as _;

use quickstart::progress::Progress;
use quickstart::vendors::ORDERS;
use steadfast::clock::Timestamp;
use steadfast::operation::record::{Phase, Tally};

fn tally(vendor: &str, phase: &str, count: u64) -> Tally {
    let phase = Phase::from_str(phase).expect("a phase");
    Tally { vendor: format!("default/{vendor}"), phase, count, oldest: Timestamp::from_millis(0) }
}

#[test]
fn an_order_is_through_when_its_mail_is_sent_or_a_step_has_failed() {
    let orders = |tallies: &[Tally]| Progress::new(tallies).orders();
    assert_eq!(orders(&[]), 0);
    assert_eq!(orders(&[tally("stripe", "succeeded", 9), tally("bigcommerce", "succeeded", 7)]), 0);
    assert_eq!(orders(&[tally("postmark", "succeeded", 5), tally("postmark", "in_progress", 2)]), 5);
    let failed = ["refused", "dead", "resolved"].map(|phase| tally("stripe", phase, 1));
    assert_eq!(orders(&failed), 3);

    let mails = |count| Progress::new(&[tally("postmark", "succeeded", count), tally("postmark", "dead", 1)]);
    let all = u64::try_from(ORDERS).expect("small");
    assert!(!mails(all - 2).is_complete());
    assert!(mails(all - 1).is_complete());
}

#[test]
fn a_line_of_progress_fits_and_covers_the_one_before() {
    let vendors = ["stripe", "bigcommerce", "postmark"];
    let most = vendors.map(|vendor| tally(vendor, "succeeded", 200));
    let others = [("dead", 99), ("in_progress", 99), ("scheduled", 99)]
        .map(|(phase, count)| tally("stripe", phase, count));
    let (most, least) = (Progress::new(&[most, others].concat()).line(), Progress::new(&[]).line());
    assert_eq!(most, "  200 charged  200 ordered  200 mailed  99 failed  99 under way  99 postponed");
    assert_eq!(most.len(), least.len());
}
