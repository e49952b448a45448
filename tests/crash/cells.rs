//! Every named failpoint under every fault: a process dies there by its own SIGKILL, once.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use steadfast::testkit::Fault;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::audit::Report;
use crate::file;
use crate::orders::{Ask, Job, Manner, Orders, Site, Task};
use crate::plan::{STEPS, VENDORS, is_long};
use crate::point::{Failpoint, Point, Sent, Step};
use crate::process::Process;
use crate::seams::told;
use crate::table::{Life, MEETINGS, Meeting, points};
use crate::vendors::Vendors;
use crate::words::AllHeard;

/// How many drivers at once: they wait more than they work.
const AT_ONCE: usize = 64;
/// Lanes that share a part of life: who recovers waits out the longest exchange of the process that died, so that a
/// table in one row would take minutes.
const PARTS: usize = 16;
/// Files that one process has open.
const BATCH: usize = 16;
/// The same, where each request of the process has to be answered before its attempt is over.
const BATCH_ANSWERED: usize = 4;
const REST_MAX: Duration = Duration::from_secs(60);

/// Of so many cells one is drawn, by the seed, where the run is short.
const SHORT_EVERY: usize = 8;

/// Kills a driver in each cell of the table, lets all come to rest, and judges every operation. A short run has each
/// point at least once in each part of life at each vendor, and each fault at every eighth of its points.
pub async fn run(seed: u64) -> Report {
    let drawn = (!is_long()).then_some(seed as usize % SHORT_EVERY);
    let lanes: Vec<(usize, Life)> =
        (0..STEPS.len()).flat_map(|vendor| Life::ALL.map(|life| (vendor, life))).collect();
    let lanes: Vec<(usize, Life, usize)> = lanes
        .into_iter()
        .flat_map(|(vendor, life)| (0..PARTS).map(move |part| (vendor, life, part)))
        .collect();
    let of_vendors = lanes.iter().map(|lane| lane.0).collect();
    let vendors = Arc::new(Vendors::start(of_vendors).await);
    let room = Arc::new(Semaphore::new(AT_ONCE));
    let mut running = JoinSet::new();
    for (number, (vendor, life, part)) in lanes.into_iter().enumerate() {
        let (vendors, room) = (Arc::clone(&vendors), Arc::clone(&room));
        running.spawn(async move { Lane { number, vendor, life, part, drawn, vendors, room }.run().await });
    }
    let mut report = Report::new(seed, 0, 0);
    while let Some(lane) = running.join_next().await {
        report.add(lane.expect("no panic"));
    }
    report.add(Report::new(0, 0, vendors.faults().await));
    report
}

/// One vendor's fake, and the operations that are killed in one part of their life.
struct Lane {
    number: usize,
    vendor: usize,
    life: Life,
    /// Which of the [`PARTS`] of the table it has.
    part: usize,
    /// Which of the [`SHORT_EVERY`] are drawn; `None` is all cells.
    drawn: Option<usize>,
    vendors: Arc<Vendors>,
    room: Arc<Semaphore>,
}

/// One process that is to die, or one that is to show the points that it passes.
struct Cell {
    meeting: Meeting,
    failpoint: Option<Failpoint>,
    site: Site,
}

impl Lane {
    async fn run(self) -> Report {
        let cells = self.cells();
        self.prepare(&cells).await;
        let mut report = Report::new(0, 0, 0);
        for cell in &cells {
            match self.die(cell).await {
                Ok(killed) => report.kills += usize::from(killed),
                Err(why) => report
                    .broken
                    .push(format!("{:?} {} {:?}: {why}", self.life, VENDORS[self.vendor], cell.meeting)),
            }
        }
        for some in cells.chunks(BATCH) {
            let sites = some.iter().map(|cell| cell.site.clone()).collect();
            let _permit = self.room.acquire().await.expect("open");
            self.start(sites, Task::Rest, EXACT, None, false).rested(REST_MAX).await;
        }
        let mut effects = self.vendors.effects(self.number);
        let mut heard = AllHeard::read(&self.words());
        for cell in &cells {
            let missing = BTreeSet::from([cell.site.key()]);
            report.judge_file(&cell.site.file, missing, &mut effects, &mut heard).await;
        }
        report.judge_rest(effects);
        report
    }

    /// For each fault, one process that is left alone, and one for each point that it is to pass.
    fn cells(&self) -> Vec<Cell> {
        let (mut cells, mut met) = (Vec::new(), BTreeSet::new());
        for (nth_meeting, meeting) in MEETINGS.into_iter().enumerate() {
            let points: BTreeSet<Point> = points(self.life, self.vendor, meeting).into_iter().collect();
            for (nth_point, point) in std::iter::once(None).chain(points.into_iter().map(Some)).enumerate() {
                let is_drawn =
                    self.drawn.is_none_or(|drawn| (nth_meeting + nth_point) % SHORT_EVERY == drawn);
                if !met.insert(point) && !is_drawn {
                    continue;
                }
                // Every other one of each part, of which there are several.
                let nth = (cells.len() / PARTS) as u64;
                let file = file::name(nth, &format!("lane-{}-{}.db", self.number, cells.len()));
                let file = self.vendors.directory().join(file).to_str().expect("a text").to_owned();
                let asks = if meeting == Meeting::No { Ask::No } else { Ask::Yes };
                let failpoint = point.map(|point| Failpoint { point, signal: Sent::Kill, operations: 1 });
                cells.push(Cell { meeting, failpoint, site: Site { file, asks } });
            }
        }
        cells.into_iter().skip(self.part).step_by(PARTS).collect()
    }

    /// Brings the operations to the part of their life that this lane is about.
    async fn prepare(&self, cells: &[Cell]) {
        if self.life == Life::Call {
            return;
        }
        for was_applied in [true, false] {
            let sites = cells.iter().filter(|cell| cell.meeting.was_applied() == was_applied);
            let sites: Vec<Site> = sites.map(|cell| cell.site.clone()).collect();
            for some in sites.chunks(BATCH_ANSWERED) {
                match self.life {
                    Life::Redrive => self.make_dead_letters(some.to_vec(), was_applied).await,
                    _ => self.let_lapse(some.to_vec(), was_applied).await,
                }
            }
        }
        // The lease of what is to be swept is over then, and the settle time of a letter that is looked up.
        self.vendors.time().sleep(LEFT_FOR).await;
    }

    async fn let_lapse(&self, sites: Vec<Site>, was_applied: bool) {
        let point = if was_applied { Step::Send.after() } else { Step::Send.before() };
        let failpoint = Failpoint { point, signal: Sent::Kill, operations: sites.len() };
        let _permit = self.room.acquire().await.expect("open");
        let driver = self.start(sites, Task::Call, EXACT, Some(failpoint), false);
        driver.died().await.expect("all of them came to the point");
    }

    /// A service with lookups leaves no letter of an unknown effect within a day: it asks until it is told. So it is one
    /// without them whose letters are redriven by one that has them.
    async fn make_dead_letters(&self, sites: Vec<Site>, was_applied: bool) {
        let post = if was_applied { Fault::Error500After } else { Fault::Error500Before };
        let _permit = self.room.acquire().await.expect("open");
        self.vendors.tell(&format!("whenever {} POST {}", self.number, post.to_header())).await;
        let without_lookups = Manner { without_lookups: true, ..EXACT };
        self.start(sites, Task::Call, without_lookups, None, false).rested(REST_MAX).await;
        self.vendors.tell(&format!("clear {}", self.number)).await;
    }

    /// Lets one process meet the fault and die, or else pass.
    async fn die(&self, cell: &Cell) -> Result<bool, String> {
        let task = match self.life {
            Life::Call => Task::Call,
            Life::Sweep => Task::Recover,
            Life::Redrive => Task::Redrive,
        };
        let _permit = self.room.acquire().await.expect("open");
        if let Meeting::Fault(fault) = cell.meeting {
            self.vendors.next_fault(self.number, fault).await;
        }
        let is_told = cell.failpoint.is_none();
        let driver = self.start(vec![cell.site.clone()], task, EXACT, cell.failpoint, is_told);
        let outcome = match cell.failpoint {
            Some(failpoint) => driver
                .died()
                .await
                .and_then(|at| {
                    let wanted = failpoint.point.to_string();
                    if at == wanted { Ok(true) } else { Err(format!("died at {at}, not {wanted}")) }
                })
                .map_err(|why| format!("{}: {why}", failpoint.point)),
            None => {
                let (_, said) = driver.ended(REST_MAX).await;
                let wanted = points(self.life, self.vendor, cell.meeting);
                if passed(&said, &wanted) { Ok(false) } else { Err(format!("{said:?}, not {wanted:?}")) }
            }
        };
        self.vendors.tell(&format!("clear {}", self.number)).await;
        outcome
    }

    fn words(&self) -> PathBuf {
        self.vendors.words_directory(&self.number.to_string())
    }

    fn start(
        &self,
        sites: Vec<Site>,
        task: Task,
        manner: Manner,
        failpoint: Option<Failpoint>,
        is_told: bool,
    ) -> Process {
        let urls = [(); VENDORS.len()].map(|()| self.vendors.urls[self.number].clone());
        let job = Job::Alone { vendor: self.vendor, sites, task };
        let (time, words) = (self.vendors.time(), self.words());
        let orders = Orders { urls, time, words, manner, failpoint, is_told, wall_off_ms: 0, job };
        Process::start("small_driver_process", [orders.to_environment()])
    }
}

/// Whether these points were passed, all of them and in this order. Two things may differ: on a machine that is busy a
/// lease is renewed earlier, and more often than it has to be, and a lookup has a page more where much was made. A
/// renewal that a send needs comes right before it, always.
fn passed(said: &[String], points: &[Point]) -> bool {
    let wanted: Vec<String> = points.iter().map(|point| told(*point)).collect();
    let renewed = told(Step::Renew.after());
    let renewals = |lines: &[String]| lines.iter().filter(|line| **line == renewed).count();
    let of_sends = [Step::Send, Step::Resend].map(|step| told(step.before()));
    let renewed_sends = |lines: &[String]| {
        let renewed = lines.windows(2).filter(|pair| pair[0] == renewed && of_sends.contains(&pair[1]));
        renewed.count()
    };
    let is_renewed = renewals(said) >= renewals(&wanted) && renewed_sends(said) == renewed_sends(&wanted);

    let of_renewals = [Step::Renew.before(), Step::Renew.after()].map(told);
    let lookups = [Step::Lookup.before(), Step::Lookup.after()].map(told);
    let mut others = wanted.iter().filter(|line| !of_renewals.contains(line)).peekable();
    let looks_up = wanted.iter().any(|line| lookups.contains(line));
    let in_order = said
        .iter()
        .filter(|line| !of_renewals.contains(line))
        .all(|line| others.next_if_eq(&line).is_some() || looks_up && lookups.contains(line));
    is_renewed && in_order && others.next().is_none()
}

/// The manner without jitter: what follows from the waits is known.
const EXACT: Manner = Manner { without_jitter: true, without_lookups: false };

/// A lease, and a little more. A lookup's settle time is shorter.
const LEFT_FOR: Duration = Duration::from_secs(62);
