//! A process that is stopped past its lease and goes on: what it still writes changes nothing.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use rustix::process::Signal;
use steadfast::operation::record::{Filter, Record, State};
use steadfast::store::Store as _;
use steadfast::testkit::Fault;
use tokio::task::JoinSet;

use crate::audit::Report;
use crate::file;
use crate::orders::{Ask, Job, Manner, Orders, Site, Task};
use crate::plan::VENDORS;
use crate::point::{Failpoint, Point, Sent, Step};
use crate::process::Process;
use crate::vendors::Vendors;
use crate::words::AllHeard;

const END_MAX: Duration = Duration::from_secs(60);

/// Where a call stops, and what its first request meets.
///
/// One place is missing on purpose: *before the send* at BigCommerce. Between the last look at the lease and the
/// first byte no client can be stopped and notice. Whoever has taken over meanwhile, and looked up in vain, sends
/// as well; only a vendor that knows keys could tell the two apart. This gap is covered by a settle time longer than
/// such a stop.
///
/// Postmark's settle time is short of its lease: a lookup that finds the message takes no renewal.
const STOPS: &[(Point, Option<Fault>, &[usize])] = &[
    (Step::Claim.after(), None, &[0, 1, 2]),
    (Step::Send.before(), None, &[0, 2]),
    (Step::Send.after(), None, &[0, 1, 2]),
    (Step::Succeed.before(), None, &[0, 1, 2]),
    (Step::Succeed.after(), None, &[0, 1, 2]),
    (Step::Renew.before(), Some(Fault::Error500Before), &[0, 1, 2]),
    (Step::Renew.before(), Some(Fault::DropAfterApply), &[0, 1]),
    (Step::Renew.after(), Some(Fault::Error500Before), &[0, 1, 2]),
    (Step::Renew.after(), Some(Fault::DropAfterApply), &[0, 1]),
    (Step::Lookup.before(), Some(Fault::Error500Before), &[1, 2]),
    (Step::Lookup.after(), Some(Fault::Error500Before), &[1, 2]),
    (Step::Lookup.after(), Some(Fault::DropAfterApply), &[1, 2]),
    (Step::Bury.before(), Some(Fault::Error500Before), &[2]),
    (Step::Bury.before(), Some(Fault::Stored500), &[0]),
];

pub async fn run() -> Report {
    let stops = STOPS
        .iter()
        .flat_map(|(point, fault, vendors)| vendors.iter().map(|vendor| (*vendor, *point, *fault)));
    let cases: Vec<(usize, Point, Option<Fault>, bool)> = stops
        .flat_map(|(vendor, point, fault)| [true, false].map(|at_rest| (vendor, point, fault, at_rest)))
        .collect();
    let lanes = cases.iter().map(|case| case.0).collect();
    let vendors = Arc::new(Vendors::start(lanes).await);
    let mut running = JoinSet::new();
    for (lane, (vendor, point, fault, at_rest)) in cases.into_iter().enumerate() {
        let file = vendors.directory().join(format!("stop-{lane}.db"));
        let site = Site { file: file.to_str().expect("a text").to_owned(), asks: Ask::Yes };
        let stopped = Stopped { lane, vendor, point, fault, at_rest, site, vendors: Arc::clone(&vendors) };
        running.spawn(async move { stopped.run().await });
    }
    let mut report = Report::new(0, 0, 0);
    while let Some(case) = running.join_next().await {
        report.add(case.expect("no panic"));
    }
    report.add(Report::new(0, 0, vendors.faults().await));
    report
}

struct Stopped {
    lane: usize,
    vendor: usize,
    point: Point,
    fault: Option<Fault>,
    /// Whether whoever took over has come to an end when the stopped process goes on, or still holds it.
    at_rest: bool,
    site: Site,
    vendors: Arc<Vendors>,
}

impl Stopped {
    async fn run(self) -> Report {
        let Stopped { point, fault, at_rest, .. } = &self;
        let vendor = VENDORS[self.vendor];
        let name = format!("{vendor}, stopped {point} after {fault:?}, the other at rest {at_rest}");
        if let Some(fault) = self.fault {
            self.vendors.next_fault(self.lane, fault).await;
        }
        let failpoint = Failpoint { point: self.point, signal: Sent::Stop, operations: 1 };
        let mut stopped = self.start(Task::Call, Some(failpoint));
        assert_eq!(stopped.line().await, format!("at {}", self.point), "{name}");

        // Long enough for the lease that it may just have renewed.
        self.vendors.time().sleep(HELD_MAX).await;
        let is_settled = self.point == Step::Succeed.after();
        if self.at_rest {
            self.rest(&name).await;
        } else if is_settled {
            // There is nothing to take.
            self.start(Task::Recover, None).rested(END_MAX).await;
        } else {
            let point = Step::TakeLapsed.after();
            let taker =
                self.start(Task::Recover, Some(Failpoint { point, signal: Sent::Kill, operations: 1 }));
            taker.died().await.unwrap_or_else(|why| panic!("{name}: it came to take: {why}"));
        }
        let before = self.record().await;
        stopped.signal(Signal::CONT);
        stopped.rested(END_MAX).await;
        let after = self.record().await;

        self.rest(&name).await;

        let mut report = Report::new(0, usize::from(!self.at_rest && !is_settled), 0);
        // Its true answer is proof, whoever holds the operation by now.
        let is_promoted = !matches!(before.state, State::Succeeded { .. })
            && matches!(after.state, State::Succeeded { .. })
            && after.fence == before.fence;
        if after != before && !is_promoted {
            report.broken.push(format!("from {before:?} to {after:?}"));
        }
        let is_overtaken = before.fence > 1;
        if is_overtaken == is_settled {
            report.broken.push(format!("at fence {}", before.fence));
        }
        let mut effects = self.vendors.effects(self.lane);
        let (missing, mut heard) = (BTreeSet::from([self.site.key()]), AllHeard::read(&self.words()));
        report.judge_file(&self.site.file, missing, &mut effects, &mut heard).await;
        report.judge_rest(effects);
        for broken in &mut report.broken {
            broken.insert_str(0, &format!("{name}: "));
        }
        report
    }

    async fn rest(&self, name: &str) {
        let (status, said) = self.start(Task::Rest, None).ended(END_MAX).await;
        assert!(status.success(), "{name}: {said:?}");
    }

    fn start(&self, task: Task, failpoint: Option<Failpoint>) -> Process {
        let urls = [(); VENDORS.len()].map(|()| self.vendors.urls[self.lane].clone());
        let job = Job::Alone { vendor: self.vendor, sites: vec![self.site.clone()], task };
        let (time, words) = (self.vendors.time(), self.words());
        let manner = Manner::default();
        let orders = Orders { urls, time, words, manner, failpoint, is_told: false, wall_off_ms: 0, job };
        Process::start("small_driver_process", [orders.to_environment()])
    }

    fn words(&self) -> PathBuf {
        self.vendors.words_directory(&self.lane.to_string())
    }

    async fn record(&self) -> Record {
        let store = file::open(&self.site.file);
        let page = store.list(&Filter::default(), None, 2).await.expect("a page");
        let [row] = &page.rows[..] else { panic!("one operation in {}", self.site.file) };
        let record = store.get(&row.id).await.expect("works").expect("is listed");
        store.close().await;
        record
    }
}

/// The longest that a call here holds its operation: Stripe's settle time, the lookup behind it, the margin, and a
/// little more.
const HELD_MAX: Duration = Duration::from_secs(80 + 30 + 30 + 2);
