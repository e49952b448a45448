//! The gates let a send or a lookup through: the hold on the operation comes next.
//!
//! The lease that a holder measures may be over for all other processes: the wall clock was set, or the machine slept,
//! while its own clock knows nothing of it. Another process may then have taken the operation, looked it up and sent it,
//! or found that it never took effect and ended it so. Neither the method nor the vendor's key helps against the second:
//! what is sent then would be the only effect, of an operation that failed without one. So every send but the one right
//! behind the claim or the take asks the store again, by a renewal under its fence. It costs a write where a wait came
//! before anyway.

use super::situation::Situation;
use super::{Errand, Goal, Step};
use crate::effect::Effect;
use crate::guard::Guard;

/// After a claim: sends, unless the vendor was told meanwhile to be left alone.
pub(super) fn claimed(situation: &Situation<'_>, is_paused: bool) -> Step {
    behind_the_store(situation, Errand::Send, is_paused)
}

/// After a wait, or for an operation that was taken: renews the lease first.
pub(super) fn admitted(situation: &Situation<'_>, is_paused: bool) -> Step {
    let Situation { context, progress, now, .. } = *situation;
    let errand = match progress.goal() {
        Goal::Lookup(_) => Errand::Lookup,
        Goal::Send(errand) => errand,
        _ => Errand::Send,
    };
    match (errand, progress.lease()) {
        (Errand::Lookup, _) if Guard::LookupKeepsLease.is_out() => Step::Lookup,
        (Errand::Lookup, _) | (_, None) => behind_the_store(situation, errand, is_paused),
        // Its take is as good as a renewal where nothing came between.
        (Errand::Send, Some(lease))
            if context.is_recovery
                && progress.admitted() == 1
                && !progress.has_waited()
                && progress.effect() == Effect::None
                && lease.is_fresh(now) =>
        {
            behind_the_store(situation, errand, is_paused)
        }
        _ if Guard::RenewBeforeSend.is_out() => behind_the_store(situation, errand, is_paused),
        (errand, Some(_)) => {
            let (needed, spends_resend) = (context.attempt_max, errand == Errand::SendAtRisk);
            Step::Renew { needed, spends_resend, wait: None }
        }
    }
}

/// A send or a lookup under a lease that the store gave just now, or that only has to last.
fn behind_the_store(situation: &Situation<'_>, errand: Errand, is_paused: bool) -> Step {
    let needed = situation.context.attempt_max;
    match errand {
        _ if !situation.is_held_for(needed) => Step::Renew { needed, spends_resend: false, wait: None },
        _ if situation.heeds_pause(is_paused) => Step::Pursue(situation.progress.goal()),
        Errand::Lookup => Step::Lookup,
        Errand::Send | Errand::SendAtRisk => Step::Send,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::decision::sample::{Sample, at, check, wait};
    use crate::decision::{Observed, Purpose, Search, Why};
    use crate::store::sample::ATTEMPT;

    const fn renew(spends_resend: bool) -> Step {
        Step::Renew { needed: ATTEMPT, spends_resend, wait: None }
    }

    #[test]
    fn a_claim_is_followed_by_a_send_unless_the_vendor_asks_to_be_left_alone() {
        let claimed = |is_paused| Observed::Claimed { admitted_at: at(0), is_paused };
        check([
            (Sample::claimed(), claimed(false), Step::Send),
            (Sample::claimed(), claimed(true), Step::SEND),
            (Sample::plain(), claimed(true), Step::Send),
            // The lease has 55 s, an attempt takes 20.
            (Sample::claimed().later(34_999), claimed(false), Step::Send),
            (Sample::claimed().later(35_000), claimed(false), renew(false)),
        ]);
    }

    #[test]
    fn any_other_send_asks_the_store_first() {
        let admitted = |is_paused| Observed::Admitted { is_paused };
        let send = |call: Sample| call.did(Step::Admit(Errand::Send));
        let search = Goal::Lookup(Search::new(Purpose::BeforeSend));
        let waited = || {
            let waits = Sample::taken().did(Step::Wait(wait(at(0), Why::Retry, 0)));
            send(waits.seen(&Observed::Woken))
        };
        let lookup = |call: Sample| call.wants(search).did(Step::Admit(Errand::Lookup));
        check([
            (send(Sample::plain()), admitted(true), Step::Send),
            (send(Sample::claimed()), admitted(false), renew(false)),
            (send(Sample::taken()), admitted(false), Step::Send),
            (send(Sample::taken()), admitted(true), Step::SEND),
            (send(Sample::taken()).later(1_000), admitted(false), Step::Send),
            (send(Sample::taken()).later(1_001), admitted(false), renew(false)),
            (send(Sample::taken()).seen(&admitted(false)), admitted(false), renew(false)),
            (waited(), admitted(false), renew(false)),
            (send(Sample::unknown().recovered()), admitted(false), renew(false)),
            (Sample::unknown().did(Step::Admit(Errand::SendAtRisk)), admitted(false), renew(true)),
            (lookup(Sample::unknown()), admitted(false), Step::Lookup),
            (lookup(Sample::unknown()), admitted(true), Step::Pursue(search)),
            (lookup(Sample::unknown()).later(35_000), admitted(false), renew(false)),
            (
                send(Sample::claimed()).with(|context| context.attempt_max = Duration::from_secs(30)),
                admitted(false),
                Step::Renew { needed: Duration::from_secs(30), spends_resend: false, wait: None },
            ),
        ]);
    }
}
