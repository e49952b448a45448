//! Open operations that no client here carries on with, because account, namespace or vendor were renamed.

use std::collections::{BTreeMap, BTreeSet};

use steadfast_core::operation::Scope;
use steadfast_core::operation::record::{Filter, Phase};
use steadfast_core::store::OutboxTally;

use super::{DeadLetterError, DeadLetters};
use crate::client::Client;

/// Open operations of an account that no client has.
///
/// ```
#[doc = include_str!("../docs/setup/dead_letters.md")]
/// # let fake = steadfast::testkit::fakes::PostmarkFake::builder().test_clock(&clock).in_process();
/// use steadfast::Client;
/// use steadfast::dead_letter::DeadLetters;
/// use steadfast::operation::record::Phase;
/// use steadfast::vendor::Postmark;
///
/// // The service has named its account: it was `default` until today.
/// let renamed = Client::builder(Postmark::new("a-server-token").account("shop"))
/// #   .transport(fake.transport())
///     .build()?;
/// let unreached = DeadLetters::new(store).with_client(&renamed).unreached().await?;
/// let group = &unreached[0];
/// assert_eq!((&group.account[..], group.phase, group.count), ("default/postmark/default", Phase::Dead, 2));
#[doc = include_str!("../docs/setup/end.md")]
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Unreached {
    /// `{namespace}/{vendor}/{account}`.
    pub account: String,
    /// Phase of the operations.
    pub phase: Phase,
    /// Number that was seen.
    pub count: u64,
}

impl DeadLetters {
    /// Number of operations of a phase that [`unreached`](DeadLetters::unreached) looks at: a page, however long the
    /// backlog is.
    pub const UNREACHED_MAX: usize = 1_000;

    /// The open operations that no client known here carries on with, by account and phase. Their account, namespace
    /// or vendor has another name by now, or they are another service's. At most
    /// [`UNREACHED_MAX`](DeadLetters::UNREACHED_MAX) operations of a phase are looked at. Empty without a client.
    ///
    /// # Errors
    ///
    /// [`DeadLetterError::Store`].
    pub async fn unreached(&self) -> Result<Vec<Unreached>, DeadLetterError> {
        if self.clients.is_empty() {
            return Ok(Vec::new());
        }
        self.unreached_by(|path| self.clients.iter().any(|client| reaches(client, path))).await
    }

    /// Whether a client that is known here has the account with this path, or may have it; `true` without a client.
    pub fn reaches(&self, account: &str) -> bool {
        self.clients.is_empty() || self.clients.iter().any(|client| reaches(client, account))
    }

    /// Returns those of these accounts of the outbox whose rows no client admits. A client without its secret may not
    /// know its account: then those decide that clients have [registered](Client::register) in the store, if any of the
    /// vendor is.
    pub(super) async fn unadmitted(
        &self,
        outbox: &[OutboxTally],
    ) -> Result<BTreeSet<String>, DeadLetterError> {
        let mut unadmitted = BTreeSet::new();
        let path = |rows: &OutboxTally| format!("{}/{}/{}", rows.namespace, rows.vendor, rows.account);
        let paths: Vec<String> = outbox.iter().filter(|rows| rows.waiting > 0).map(path).collect();
        if paths.is_empty() {
            return Ok(unadmitted);
        }
        let registered = match self.store.maintenance() {
            Some(maintenance) => {
                maintenance.head().await.map_err(DeadLetterError::store("read the accounts"))?.accounts
            }
            None => BTreeMap::new(),
        };
        for path in paths {
            let scope = Scope::from_stored(format!("{path}/"));
            let is_ours = |client: &Client| scope.is_reached_by(&client.engine.account_path());
            let of_vendor = |account: &&String| {
                Scope::from_stored(format!("{account}/")).vendor_path() == scope.vendor_path()
            };
            let mut others = registered.keys().filter(of_vendor).peekable();
            let is_misspelt = others.peek().is_some() && !others.any(|account| scope.is_reached_by(account));
            if !self.reaches(&path) || (is_misspelt && !self.clients.iter().any(is_ours)) {
                unadmitted.insert(path);
            }
        }
        Ok(unadmitted)
    }

    pub(crate) async fn unreached_by(
        &self,
        is_reached: impl Fn(&str) -> bool,
    ) -> Result<Vec<Unreached>, DeadLetterError> {
        let mut unreached: Vec<Unreached> = Vec::new();
        for phase in [Phase::InProgress, Phase::Scheduled, Phase::Dead] {
            let filter = Filter { phases: vec![phase], ..Filter::default() };
            let page = self.page(&filter, None, DeadLetters::UNREACHED_MAX).await?;
            for summary in &page.rows {
                let path = summary.id.scope.account_path();
                if is_reached(path) {
                    continue;
                }
                match unreached.iter_mut().find(|group| group.account == path && group.phase == phase) {
                    Some(group) => group.count += 1,
                    None => unreached.push(Unreached { account: path.to_owned(), phase, count: 1 }),
                }
            }
        }
        unreached.sort_by(|one, other| (&one.account, one.phase).cmp(&(&other.account, other.phase)));
        Ok(unreached)
    }
}

/// Whether a client carries on with the operations of the account `path`. One without its secret may not know its own
/// account, and has the benefit of the doubt.
pub(super) fn reaches(client: &Client, path: &str) -> bool {
    let own = client.engine.account_path();
    let scope = |path: &str| Scope::from_stored(format!("{path}/"));
    scope(path).is_reached_by(&own)
        || (!client.engine.secret_is_known && scope(path).vendor_path() == scope(&own).vendor_path())
}
