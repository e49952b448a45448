//! Selection of dead letters by a filter: pages and groups.

use std::collections::BTreeSet;

use steadfast_core::clock::Timestamp;
use steadfast_core::operation::record::{Filter, Page, Phase, Summary};
use steadfast_core::transport::SendErrorKind;
use steadfast_core::{AttemptReport, Effect, Error, Input};

use super::{DeadLetterError, DeadLetters, OPEN, PAGE_ROWS};

/// The dead letters that failed in the same way.
///
/// ```
#[doc = include_str!("../docs/setup/dead_letters.md")]
/// use steadfast::operation::record::Filter;
///
/// let groups = letters.groups(&Filter::default()).await?;
/// let counts: Vec<_> = groups.iter().map(|group| (group.code, group.count)).collect();
/// assert_eq!(counts, [("RATE_LIMIT.exceeded", 1), ("UNKNOWN.effect", 1)]);
#[doc = include_str!("../docs/setup/end.md")]
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Group {
    /// `{namespace}/{vendor}`.
    pub vendor: String,
    /// Name of their [`Reason`](crate::Reason).
    pub reason: String,
    /// Effect that they may have had: `none` or `unknown`.
    pub effect: String,
    /// The last answer's status.
    pub status: Option<u16>,
    /// The error's code.
    pub code: &'static str,
    /// Number of letters.
    pub count: u64,
    /// Time at which the first of them last moved.
    pub oldest: Timestamp,
    /// Time at which the last of them last moved.
    pub newest: Timestamp,
}

impl DeadLetters {
    /// A page of dead letters, in the order of their first claim. If the filter has a code, a page may have fewer
    /// rows than `limit` before the end of the list.
    ///
    /// # Errors
    ///
    /// [`DeadLetterError::Invalid`] for a phase that no dead letter is in, or a vendor's name that several namespaces
    /// have; [`DeadLetterError::Store`], also for a cursor that the store did not give.
    pub async fn list(
        &self,
        filter: &Filter,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Page<Summary>, DeadLetterError> {
        let asked = self.asked(filter).await?;
        self.letters(&asked, filter.code.as_deref(), after.map(str::to_owned), limit).await
    }

    /// A page of operations that are not at their end: scheduled or in progress, in the order of their first claim.
    /// Without phases, both.
    ///
    /// ```
    #[doc = include_str!("../docs/setup/dead_letters.md")]
    /// use steadfast::operation::record::Filter;
    ///
    /// let overdue = Filter { due_before: Some(letters.now()), ..Filter::default() };
    /// assert!(letters.waiting(&overdue, None, 20).await?.rows.is_empty());
    #[doc = include_str!("../docs/setup/end.md")]
    /// ```
    ///
    /// # Errors
    ///
    /// [`DeadLetterError::Invalid`] for another phase, for a code, or for a vendor's name that several namespaces have;
    /// [`DeadLetterError::Store`].
    pub async fn waiting(
        &self,
        filter: &Filter,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Page<Summary>, DeadLetterError> {
        let phases = allowed(filter, [Phase::InProgress, Phase::Scheduled], "no operation that waits")?;
        let vendor = self.vendor_path(filter.vendor.as_deref(), &phases).await?;
        self.page(&Filter { vendor, phases, ..filter.clone() }, after, limit).await
    }

    /// Returns the number of dead letters of each failure, the most frequent first.
    ///
    /// # Errors
    ///
    /// As [`list`](DeadLetters::list).
    pub async fn groups(&self, filter: &Filter) -> Result<Vec<Group>, DeadLetterError> {
        let asked = self.asked(filter).await?;
        let mut groups: Vec<Group> = Vec::new();
        let mut after = None;
        loop {
            let page = self.letters(&asked, filter.code.as_deref(), after, PAGE_ROWS).await?;
            for letter in page.rows {
                let one = Group::of(&letter);
                match groups.iter_mut().find(|group| group.failure() == one.failure()) {
                    Some(group) => group.add(&one),
                    None => groups.push(one),
                }
            }
            after = page.next;
            if after.is_none() {
                break;
            }
        }
        groups.sort_by(|a, b| b.count.cmp(&a.count).then_with(|| a.failure().cmp(&b.failure())));
        Ok(groups)
    }

    /// A page of at least one letter, unless there are no more: of those that the store gives, those with this code.
    pub(super) async fn letters(
        &self,
        asked: &Filter,
        code: Option<&str>,
        mut after: Option<String>,
        limit: usize,
    ) -> Result<Page<Summary>, DeadLetterError> {
        loop {
            let page = self.page(asked, after.as_deref(), limit).await?;
            let mut rows = Vec::with_capacity(page.rows.len());
            for summary in page.rows {
                let letter = self.with_code(summary).await?;
                if code.is_none() || code == letter.code {
                    rows.push(letter);
                }
            }
            if !rows.is_empty() || page.next.is_none() {
                return Ok(Page { rows, next: page.next });
            }
            after = page.next;
        }
    }

    /// Returns the filter for the store: the phases of dead letters, the whole name of the vendor, and no code, which a
    /// store does not know.
    pub(super) async fn asked(&self, filter: &Filter) -> Result<Filter, DeadLetterError> {
        let phases = phases(filter)?;
        let vendor = self.vendor_path(filter.vendor.as_deref(), &phases).await?;
        Ok(Filter { vendor, phases, code: None, ..filter.clone() })
    }

    /// `stripe` is `prod/stripe` if no dead letter is of another namespace's. Asked of the dead letters and not of the
    /// store's tally: that reads every row, and these are few.
    async fn vendor_path(
        &self,
        vendor: Option<&str>,
        phases: &[Phase],
    ) -> Result<Option<String>, DeadLetterError> {
        let Some(vendor) = vendor else { return Ok(None) };
        if vendor.contains('/') {
            return Ok(Some(vendor.to_owned()));
        }
        let named = |path: &str| path.rsplit('/').next() == Some(vendor);
        let (mut paths, mut after) = (BTreeSet::new(), None);
        if !phases.contains(&Phase::Resolved) {
            let queues = self.backlog(self.now()).await?.queues;
            let of_phases = queues.iter().filter(|queue| phases.contains(&queue.phase));
            let found = of_phases.map(|queue| queue.scope.vendor_path()).filter(|path| named(path));
            return one_of(vendor, found.map(str::to_owned).collect());
        }
        let filter = Filter { phases: phases.to_vec(), ..Filter::default() };
        loop {
            let page = self.page(&filter, after.as_deref(), PAGE_ROWS).await?;
            let found = page.rows.iter().map(|summary| summary.id.scope.vendor_path());
            paths.extend(found.filter(|path| named(path)).map(str::to_owned));
            after = page.next;
            if after.is_none() {
                return one_of(vendor, paths);
            }
        }
    }

    async fn with_code(&self, mut summary: Summary) -> Result<Summary, DeadLetterError> {
        let needs_evidence = summary.effect == Effect::None && summary.status.is_none();
        let evidence = if needs_evidence { self.evidence(&summary).await? } else { Vec::new() };
        summary.code = Some(code(&summary, last_attempt(&evidence)));
        Ok(summary)
    }

    async fn evidence(&self, summary: &Summary) -> Result<Vec<AttemptReport>, DeadLetterError> {
        self.store.evidence(&summary.id).await.map_err(DeadLetterError::store("read the attempts"))
    }
}

impl Group {
    fn of(letter: &Summary) -> Group {
        Group {
            vendor: letter.id.scope.vendor_path().to_owned(),
            reason: letter.reason.map(|reason| reason.to_string()).unwrap_or_default(),
            effect: letter.effect.to_string(),
            status: letter.status,
            code: letter.code.unwrap_or_default(),
            count: 1,
            oldest: letter.updated_at,
            newest: letter.updated_at,
        }
    }

    fn add(&mut self, other: &Group) {
        self.count += other.count;
        self.oldest = self.oldest.min(other.oldest);
        self.newest = self.newest.max(other.newest);
    }

    /// Returns the properties that they have in common.
    fn failure(&self) -> (&str, &str, &str, Option<u16>, &'static str) {
        (&self.vendor, &self.reason, &self.effect, self.status, self.code)
    }
}

/// The vendor's path, unless several are named like it.
fn one_of(vendor: &str, mut paths: BTreeSet<String>) -> Result<Option<String>, DeadLetterError> {
    if paths.len() > 1 {
        let paths: Vec<String> = paths.into_iter().collect();
        let problem = format!("several namespaces have {vendor:?}; name one of {}", paths.join(", "));
        return Err(DeadLetterError::Invalid(Error::validation(Input::Other("vendor"), problem)));
    }
    Ok(Some(paths.pop_first().unwrap_or_else(|| vendor.to_owned())))
}

/// The phases of the filter, which may be these; without any, both.
fn allowed(filter: &Filter, these: [Phase; 2], no: &str) -> Result<Vec<Phase>, DeadLetterError> {
    if filter.phases.is_empty() {
        return Ok(these.to_vec());
    }
    match filter.phases.iter().find(|phase| !these.contains(phase)) {
        None => Ok(filter.phases.clone()),
        Some(other) => {
            let problem = format!("{no} is {other}; name {}, {}, or both", these[0], these[1]);
            Err(DeadLetterError::Invalid(Error::validation(Input::Other("phases"), problem)))
        }
    }
}

fn phases(filter: &Filter) -> Result<Vec<Phase>, DeadLetterError> {
    if filter.phases.is_empty() {
        return Ok(OPEN.to_vec());
    }
    allowed(filter, [Phase::Dead, Phase::Resolved], "no dead letter")
}

/// The last on the log that is no lookup.
pub(super) fn last_attempt(log: &[AttemptReport]) -> Option<&AttemptReport> {
    log.iter().rev().find(|report| !report.is_lookup())
}

/// The code of the error that the caller of a dead letter was given, from what is on record of it.
pub(super) fn code(summary: &Summary, last: Option<&AttemptReport>) -> &'static str {
    let met = last.and_then(|last| last.failure_kind);
    match (summary.effect, summary.status) {
        (Effect::Unknown | Effect::Applied, _) => "UNKNOWN.effect",
        (Effect::None, Some(429)) => "RATE_LIMIT.exceeded",
        (Effect::None, Some(504)) => "DEPENDENCY.timeout",
        (Effect::None, None) if met == Some(SendErrorKind::Timeout) => "DEPENDENCY.timeout",
        (Effect::None, _) => "DEPENDENCY.unavailable",
    }
}
