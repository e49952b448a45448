//! The driver's store and transport with the failpoints in them: the library itself knows nothing of these.

use std::io::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use http::Method;
use http::header::DATE;
use rustix::process::{Signal, getpid, kill_process};
use steadfast::AttemptReport;
use steadfast::BoxFuture;
use steadfast::operation::OperationId;
use steadfast::operation::record::{
    Act, Action, Claim, Claimed, Declined, Filter, Forbidden, Phase, Record, State, Takeover, Transition,
};
use steadfast::store::{Store, StoreError, Wrapper};
use steadfast::transport::{Answer, Limits, Request, SendError, Transport};

use crate::point::{Failpoint, Moment, Point, Sent, Step};
use crate::words::{OPERATION, Words};

/// The points that a process passes on its way, and where it dies or stops.
#[derive(Debug)]
pub struct Passage {
    failpoint: Option<Failpoint>,
    /// Whether each point that is passed is said, for whoever compares.
    is_told: bool,
    waiting: AtomicUsize,
    pub words: Words,
}

impl Passage {
    pub fn new(failpoint: Option<Failpoint>, is_told: bool, words: Words) -> Arc<Passage> {
        Arc::new(Passage { failpoint, is_told, waiting: AtomicUsize::new(0), words })
    }

    fn is_watched(&self) -> bool {
        self.is_told || self.failpoint.is_some()
    }

    /// A call knows how things stand now: the store is about to be asked, and answers of this moment or a later one.
    fn knows_now(&self) {
        self.words.knows(self.words.time.wall());
    }

    /// A call that hears of an end knows that the last send has left. It knows so from the answer on: a server that was
    /// killed meanwhile answers late, and other processes have sent since the question.
    fn hears_of(&self, state: &State) {
        if !matches!(state, State::InProgress { .. } | State::Scheduled { .. }) {
            self.knows_now();
        }
    }

    async fn before(&self, step: Step) {
        self.at(Point { moment: Moment::Before, step }).await;
    }

    async fn after(&self, step: Step) {
        self.at(Point { moment: Moment::After, step }).await;
    }

    async fn at(&self, point: Point) {
        if self.is_told {
            say(&told(point));
        }
        let Some(failpoint) = self.failpoint.filter(|failpoint| failpoint.point == point) else { return };
        let waiting = self.waiting.fetch_add(1, Ordering::SeqCst) + 1;
        match failpoint.signal {
            Sent::Kill => {
                if waiting == failpoint.operations {
                    say(&format!("at {point}"));
                    kill_process(getpid(), Signal::KILL).expect("itself");
                }
                // Nobody goes past the point.
                std::future::pending::<()>().await;
            }
            Sent::Stop if waiting == failpoint.operations => {
                say(&format!("at {point}"));
                kill_process(getpid(), Signal::STOP).expect("itself");
                // Another thread may be the one to take the signal, and this one not stop at once. It must not go
                // on meanwhile: whoever is stopped in the middle of a commit has the file locked for everybody.
                std::thread::sleep(STOPPED_AFTER_MAX);
            }
            Sent::Stop => {}
        }
    }
}

/// The line that is said at each point, if any is.
pub fn told(point: Point) -> String {
    format!("passed {point}")
}

/// To whoever started this process, in one write.
pub fn say(line: &str) {
    std::io::stderr().write_all(format!("{line}\n").as_bytes()).expect("somebody listens");
}

#[derive(Debug)]
pub struct SeamStore<S> {
    pub inner: S,
    pub passage: Arc<Passage>,
}

#[async_trait]
impl<S: Store> Wrapper for SeamStore<S> {
    fn inner(&self) -> &dyn Store {
        &self.inner
    }

    async fn claim(&self, claim: Claim) -> Result<Claimed, StoreError> {
        self.passage.before(Step::Claim).await;
        self.passage.knows_now();
        let claimed = self.inner.claim(claim).await;
        if let Ok(Claimed::Settled(record)) = &claimed {
            self.passage.hears_of(&record.state);
        }
        self.passage.after(Step::Claim).await;
        claimed
    }

    async fn transition(
        &self,
        held: &Record,
        transition: Transition,
    ) -> Result<Result<Record, Declined>, StoreError> {
        let step = match &transition.to {
            State::InProgress { .. } => Step::Renew,
            State::Scheduled { .. } => Step::Schedule,
            State::Succeeded { .. } => Step::Succeed,
            State::Refused { .. } => Step::Refuse,
            State::Dead { .. } => Step::Bury,
        };
        self.passage.before(step).await;
        self.passage.knows_now();
        let applied = self.inner.transition(held, transition).await;
        self.passage.after(step).await;
        applied
    }

    async fn take(&self, take: Takeover) -> Result<Vec<Record>, StoreError> {
        let step = match take.phase {
            Phase::InProgress => Step::TakeLapsed,
            Phase::Scheduled => Step::TakeDue,
            other => panic!("nothing takes what is {other}"),
        };
        // Who recovers asks again and again: only what is taken is a step.
        let is_step = self.passage.is_watched() && self.has_for(&take).await?;
        if is_step {
            self.passage.before(step).await;
        }
        let taken = self.inner.take(take).await;
        if is_step {
            self.passage.after(step).await;
        }
        taken
    }

    async fn act(&self, id: &OperationId, act: Act) -> Result<Result<Record, Forbidden>, StoreError> {
        let is_redrive = matches!(act.action, Action::Redrive { .. });
        if is_redrive {
            self.passage.before(Step::Redrive).await;
        }
        let acted = self.inner.act(id, act).await;
        if is_redrive {
            self.passage.after(Step::Redrive).await;
        }
        acted
    }

    async fn append_evidence(
        &self,
        id: &OperationId,
        reports: Vec<AttemptReport>,
    ) -> Result<Result<(), Declined>, StoreError> {
        self.passage.before(Step::AppendEvidence).await;
        let appended = self.inner.append_evidence(id, reports).await;
        self.passage.after(Step::AppendEvidence).await;
        appended
    }

    async fn get(&self, id: &OperationId) -> Result<Option<Record>, StoreError> {
        self.passage.knows_now();
        let read = self.inner.get(id).await;
        if let Ok(Some(record)) = &read {
            self.passage.hears_of(&record.state);
        }
        read
    }
}

impl<S: Store> SeamStore<S> {
    /// Whether the file's operations are there to be taken: a driver that is watched has one of them in each.
    async fn has_for(&self, take: &Takeover) -> Result<bool, StoreError> {
        let page = self.inner.list(&Filter::default(), None, 1).await?;
        let Some(row) = page.rows.first() else { return Ok(false) };
        let record = self.inner.get(&row.id).await?;
        Ok(record.is_some_and(|record| record.take(take).is_some()))
    }
}

/// Less than any stop, and far longer than a busy machine takes to run the thread that takes the signal.
const STOPPED_AFTER_MAX: Duration = Duration::from_secs(2);

/// One per file, so that the first send of its operation is told from the further ones.
#[derive(Debug)]
pub struct SeamTransport<T> {
    pub inner: T,
    pub passage: Arc<Passage>,
    pub sent: AtomicUsize,
}

impl<T: Transport> Transport for SeamTransport<T> {
    fn send(&self, request: Request, limits: Limits) -> BoxFuture<'_, Result<Answer, SendError>> {
        let step = match request.method {
            Method::GET => Step::Lookup,
            _ if self.sent.fetch_add(1, Ordering::SeqCst) == 0 => Step::Send,
            _ => Step::Resend,
        };
        Box::pin(async move {
            self.passage.before(step).await;
            let operation = request.headers.get(OPERATION).and_then(|value| value.to_str().ok());
            if let Some(operation) = operation.filter(|_| step != Step::Lookup) {
                self.passage.words.leaves(operation);
            }
            let mut answered = self.inner.send(request, limits).await;
            let now = self.passage.words.time.wall();
            self.passage.words.knows(now);
            if let Ok(answer) = &mut answered
                && let Some(date) = answer.headers.get_mut(DATE)
            {
                // The fakes' server dates its answers by the machine, and the vendor lives in the run's time.
                *date = now.to_string().parse().expect("a date");
            }
            self.passage.after(step).await;
            answered
        })
    }

    fn queue_max(&self, _: &url::Url) -> Duration {
        Duration::ZERO
    }
}
