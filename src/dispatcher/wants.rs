//! The selection among a client's due operations while some of them could not be sent.
//!
//! An account whose credentials are refused is left out, and so is a route whose circuit is open. They would fill each
//! take, and operations that can be sent would wait behind them. Some of them probe whether that is over. Probes are
//! taken from both ends, the newest and the oldest. Those that no process held before come first, because one that
//! failed before is the least likely to be answered well. The same goes for operations that are taken beside them, but
//! for one part in [`TRIED_PART`].
//!
//! While the account's circuit is open, one of a route that has not failed is taken every [`UNTRIED_EVERY`]: it does
//! not wait for failures of others alone.

use std::time::Duration;

use steadfast_core::Error;
use steadfast_core::internal::policy::{Circuits, HeldAccount, OpenRoute};
use steadfast_core::operation::record::{Part, Phase, Takeover, Wanted};

use super::member::Member;
use super::places::Place;
use super::under_way::UnderWay;
use crate::telemetry;

/// Take of a member: from its work, into the places that it was given.
pub(super) struct Taking<'a> {
    pub member: &'a mut Member,
    /// The places that it may fill.
    pub places: &'a mut Vec<Place>,
    pub under_way: &'a mut UnderWay,
    /// Index of the member in the dispatcher.
    pub nth: usize,
}

impl Taking<'_> {
    /// Takes none of what there is none of.
    pub(super) async fn take_of(&mut self, phase: Phase, limit: usize) -> Result<usize, Error> {
        if limit == 0 || !*self.member.has.of(phase) {
            return Ok(0);
        }
        let (taken, is_more) = if phase == Phase::Scheduled {
            self.take_due(limit).await?
        } else {
            let taken = self.take_phase(phase, (limit, Wanted::default()), false).await?;
            (taken, taken >= limit)
        };
        *self.member.has.of(phase) = is_more;
        Ok(taken)
    }

    /// Takes at most `limit` of what is due, and says whether there may be more.
    pub(super) async fn take_due(&mut self, limit: usize) -> Result<(usize, bool), Error> {
        let (now, gates) = (self.member.now(), &self.member.client.engine.gates);
        let held = gates.credentials().held();
        let open = gates.circuits().map(|circuits| circuits.open(now)).unwrap_or_default();
        let (is_probing, fails) = (gates.probes(now), gates.circuits().is_some_and(Circuits::any));
        self.member.again_at = None;
        let mut all = self.probe_accounts(limit).await?;
        let without: Vec<Part> = held.into_iter().map(|held| Part::Account(held.path)).collect();
        // Probes have a half of the starts, and of a single one each second.
        self.member.takes = self.member.takes.wrapping_add(1);
        let for_probes =
            if limit == 1 { all + (self.member.takes % 2) as usize } else { all + (limit - all).div_ceil(2) };
        for route in open.iter().filter(|route| route.places > 0) {
            let only = vec![Part::Route(route.name.clone())];
            let wanted = Wanted { only, without: without.clone(), ..Wanted::default() };
            let most = for_probes.min(limit).saturating_sub(all).min(route.places as usize);
            all += self.probe(wanted, most).await?;
        }
        if all > 0 {
            self.member.again_at = Some(now.plus(PROBE_GAP));
        }
        let routes = open.into_iter().map(|OpenRoute { name, .. }| Part::Route(name));
        let without: Vec<Part> = without.into_iter().chain(routes).collect();
        let rest = limit - all;
        if is_probing {
            let taken = self.probe_whole(without, rest).await?;
            return Ok((all + taken, taken >= rest));
        }
        let taken = if fails {
            self.take_untried_first(without, rest).await?
        } else {
            self.take_wanted(rest, Wanted { without, ..Wanted::default() }, false).await?
        };
        Ok((all + taken, taken >= rest))
    }

    /// Probes of the accounts that are held, one of each whose turn it is.
    async fn probe_accounts(&mut self, limit: usize) -> Result<usize, Error> {
        let now = self.member.now();
        let mut all = 0;
        for account in self.member.client.engine.gates.credentials().due(now) {
            if all == limit {
                break;
            }
            let taken = self.probe_account(&account, limit - all).await?;
            all += taken;
            if taken > 0 && self.member.client.engine.gates.credentials().end_turn(now) {
                break;
            }
        }
        Ok(all)
    }

    /// Takes one probe of an account that is held, of a route that was not refused yet if one waits. An operation that
    /// has waited for it for as long as records are kept is given up, once the account has been held for
    /// [`HELD_LEAST`].
    async fn probe_account(&mut self, account: &HeldAccount, limit: usize) -> Result<usize, Error> {
        let only = vec![Part::Account(account.path.clone())];
        let mut given_up = 0;
        if self.member.now().since(account.since) >= HELD_LEAST
            && let Some(since) = self.member.client.engine.too_long_since().await
        {
            let overdue = Wanted { only: only.clone(), waiting_since: Some(since), ..Wanted::default() };
            given_up = self.take_wanted(limit, overdue, true).await?;
        }
        let limit = (limit - given_up).min(1);
        let without = account.refused.iter().cloned().map(Part::Route).collect();
        let others = Wanted { only: only.clone(), without, ..Wanted::default() };
        let mut taken = self.probe(others, limit).await?;
        if taken == 0 && limit > 0 && !account.refused.is_empty() {
            // All that waits is of routes that were refused before.
            self.member.client.engine.gates.credentials().probe_all(&account.path);
            taken = self.probe(Wanted { only, ..Wanted::default() }, limit).await?;
        }
        Ok(given_up + taken)
    }

    /// While the account's circuit is open: one of a route that has not failed, if one waits.
    pub(super) async fn take_untried_route(&mut self, limit: usize) -> Result<usize, Error> {
        let now = self.member.now();
        self.member.untried_at = Some(now.plus(UNTRIED_EVERY));
        let gates = &self.member.client.engine.gates;
        let held = gates.credentials().held().into_iter().map(|held| Part::Account(held.path));
        let without = held.chain(self.failing()).collect();
        self.take_wanted(limit, Wanted { without, ..Wanted::default() }, false).await
    }

    fn failing(&self) -> impl Iterator<Item = Part> + use<> {
        let circuits = self.member.client.engine.gates.circuits();
        circuits.map(Circuits::failing).unwrap_or_default().into_iter().map(Part::Route)
    }

    /// Probes of the whole account: of routes that have not failed, if any wait.
    async fn probe_whole(&mut self, without: Vec<Part>, limit: usize) -> Result<usize, Error> {
        let others = without.iter().cloned().chain(self.failing()).collect();
        // The other half is taken without regard to them: they may be all that is back.
        let most = limit.div_ceil(2);
        let taken = self.probe(Wanted { without: others, ..Wanted::default() }, most).await?;
        let rest = limit - taken;
        Ok(taken + self.probe(Wanted { without, ..Wanted::default() }, rest).await?)
    }

    /// Takes as many probes as `limit`, from both ends.
    async fn probe(&mut self, wanted: Wanted, limit: usize) -> Result<usize, Error> {
        let mut taken = 0;
        for (newest, most) in
            [(self.member.newest_first, limit.div_ceil(2)), (!self.member.newest_first, limit)]
        {
            let wanted = Wanted { tried: Some(false), newest, ..wanted.clone() };
            taken += self.take_wanted(most - taken, wanted, false).await?;
        }
        if taken == 0 {
            let wanted = Wanted { tried: Some(true), ..wanted };
            taken = self.take_wanted(limit.min(TRIED_MAX), wanted, false).await?;
        }
        self.member.newest_first ^= taken > 0;
        Ok(taken)
    }

    /// Takes what no process held before, and for one part in [`TRIED_PART`] and what that leaves what one did.
    async fn take_untried_first(&mut self, without: Vec<Part>, limit: usize) -> Result<usize, Error> {
        let is_turn_of_tried = self.member.takes.is_multiple_of(TRIED_PART as u32);
        let untried =
            if is_turn_of_tried { limit - limit.div_ceil(TRIED_PART) } else { limit - limit / TRIED_PART };
        let wanted = |tried| Wanted { without: without.clone(), tried, ..Wanted::default() };
        let mut taken = self.take_wanted(untried, wanted(Some(false)), false).await?;
        let is_full = taken == untried;
        taken += self.take_wanted(limit - taken, wanted(Some(true)), false).await?;
        if is_full {
            taken += self.take_wanted(limit - taken, wanted(Some(false)), false).await?;
        }
        Ok(taken)
    }

    async fn take_wanted(&mut self, limit: usize, wanted: Wanted, is_given_up: bool) -> Result<usize, Error> {
        if limit == 0 { Ok(0) } else { self.take_phase(Phase::Scheduled, (limit, wanted), is_given_up).await }
    }

    pub(super) async fn take_phase(
        &mut self,
        phase: Phase,
        (limit, wanted): (usize, Wanted),
        is_given_up: bool,
    ) -> Result<usize, Error> {
        let engine = &self.member.client.engine;
        let wall = engine.wall();
        let take = Takeover {
            phase,
            account: Some(self.member.account.clone()),
            now: wall,
            lease: engine.default_lease(),
            attempt_max: engine.longest_attempt(),
            vendor_clock_ms: engine.vendor_clock.less_ours(wall, || engine.clock.now()),
            holder: Some(crate::holder::this_process()),
            limit,
            wanted,
        };
        let now = engine.clock.now();
        let lease_until = now.plus(take.lease);
        let records = engine.take(take).await?;
        let taken = records.len();
        engine.gates.recovery().pay(taken, now);
        for record in records {
            match phase {
                Phase::InProgress => telemetry::taken_over(&**engine.vendor, &record),
                _ => telemetry::delivering(&**engine.vendor, &record),
            }
            let (place, held) = (self.places.pop(), (record, lease_until));
            self.under_way.carry_on(self.nth, &self.member.client, held, place, is_given_up);
        }
        Ok(taken)
    }
}

/// Pause between two takes of probes: about as long as one takes.
const PROBE_GAP: Duration = Duration::from_millis(100);

/// Least time for which an account is held before its operations are given up. An operation that is redriven weeks
/// later seems to have waited for all of that time, and so does one that a clock ahead recorded. Neither is given up
/// for a fault that a day mends.
const HELD_LEAST: Duration = Duration::from_secs(24 * 60 * 60);

/// Pause between two takes for routes that have not failed: good ones are sent within seconds, and in an outage it is a
/// read.
const UNTRIED_EVERY: Duration = Duration::from_secs(2);

/// Number of those that failed before which probe together: a circuit's own number of probes, whatever its rounds have
/// grown to.
const TRIED_MAX: usize = 3;

/// Where some fail, one in so many that are taken was held by a process before.
const TRIED_PART: usize = 8;

#[cfg(test)]
mod tests;
