//! TapedStep runs of a driver, for tests.

use std::borrow::Cow;
use std::cell::RefCell;

use super::{Context, Now, Observed, Progress, Step, next_step};

/// One run, from its first step on.
#[derive(Debug)]
pub struct Tape {
    context: Context<'static>,
    /// Before the first step.
    progress: Progress,
    steps: Vec<TapedStep>,
}

#[derive(Debug)]
struct TapedStep {
    observed: Observed,
    now: Now,
    draw: f64,
    step: Step,
}

thread_local! {
    /// The tapes of this thread; `None` while it does not record.
    static TAPES: RefCell<Option<Vec<Tape>>> = const { RefCell::new(None) };
}

/// Carries `work` out, and returns the runs that drivers made on this thread meanwhile.
pub fn record<T>(work: impl FnOnce() -> T) -> (T, Vec<Tape>) {
    TAPES.set(Some(Vec::new()));
    let done = work();
    (done, TAPES.take().unwrap_or_default())
}

/// Begins a tape; `None` if this thread does not record.
pub fn begin(context: &Context<'_>, progress: &Progress) -> Option<usize> {
    TAPES.with_borrow_mut(|tapes| {
        let tapes = tapes.as_mut()?;
        let backoff = Cow::Owned(context.backoff.as_ref().clone());
        let context = Context { backoff, ..context.clone() };
        tapes.push(Tape { context, progress: progress.clone(), steps: Vec::new() });
        Some(tapes.len() - 1)
    })
}

/// Notes one step of a tape.
pub fn note(tape: usize, observed: &Observed, now: Now, draw: f64, step: Step) {
    TAPES.with_borrow_mut(|tapes| {
        if let Some(tape) = tapes.as_mut().and_then(|tapes| tapes.get_mut(tape)) {
            tape.steps.push(TapedStep { observed: observed.clone(), now, draw, step });
        }
    });
}

impl Tape {
    /// Number of steps.
    pub fn len(&self) -> usize {
        self.steps.len()
    }

    /// Whether the run made no step.
    pub fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }

    /// Replays the run without its driver.
    ///
    /// # Errors
    ///
    /// The first step that differs from the one that was carried out.
    pub fn replay(&self) -> Result<(), String> {
        let mut progress = self.progress.clone();
        for (place, recorded) in self.steps.iter().enumerate() {
            let TapedStep { observed, now, draw, step } = recorded;
            progress.observe(&self.context, observed, *now);
            let replayed = next_step(&self.context, &progress, observed, *now, *draw);
            if replayed != *step {
                return Err(format!("step {place} after {observed:?}: {replayed:?}, and not {step:?}"));
            }
            progress.follow(step, *now);
        }
        Ok(())
    }
}
