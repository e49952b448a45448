//! The other dispatchers of an account on the same store, and this one's part of its recovery.
//!
//! While it has something to deliver, each dispatcher sends a heartbeat to the store's others once a second. It has the
//! number of its process's live calls, the time of its rate's last fall, and the pause that the vendor asked for. So
//! each knows how many they are, and takes an equal part of recovery's rate and of what live calls leave of the rate
//! limit. Where one falls or is asked to wait, all do. A dispatcher without a heartbeat for five seconds has gone.
//! Until then no other uses its part.
//!
//! An election of one that delivers for all was rejected: it would be one process's work, and a dead one's part would
//! be the whole. So was a bucket of starts in the store: each take would write to one row for all. The price is that
//! for a second two may know different numbers. A new one begins at its part of the first rate, and takes no more than
//! one operation before it has read the others' heartbeats.
//!
//! A dispatcher without anything to deliver sends no heartbeat, and an idle store is asked nothing.

use std::collections::BTreeMap;
use std::hash::{BuildHasher as _, RandomState};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use steadfast_core::Gate;
use steadfast_core::clock::Instant;
use steadfast_core::internal::ext::ErrorExt;
use steadfast_core::internal::policy::{Gates, Part, Refusal, Sign};
use steadfast_core::policy::{BreakerState, Mode};
use steadfast_core::store::Store;
use steadfast_core::store::delivery::{Beat, Heartbeat, Peer};

use super::asked;
use super::member::Member;
use crate::client::Client;
use crate::engine::Engine;
use crate::peer_status::{PeerStatus, Shut};
use crate::telemetry;

/// Other dispatchers on the account of one client.
#[derive(Debug)]
pub(super) struct Peers {
    name: String,
    /// Time of its last heartbeat, and whether it is still there for the others.
    told_at: Option<Instant>,
    is_told: bool,
    /// True if the store cannot exchange heartbeats: it has no `Delivery`.
    is_alone: bool,
    part: Part,
    live: Live,
    /// Number of its operations that came to an end, a second.
    gone: Live,
    /// Gates that were closed at its last heartbeat, and since when.
    shut: BTreeMap<(&'static str, Option<String>), Instant>,
}

/// Rate of events in a second, such as live attempts of this process.
#[derive(Clone, Copy, Debug, Default)]
struct Live {
    /// Time of the last count, and the number that had started by then.
    counted: Option<(Instant, u32)>,
    per_second: f64,
}

/// Exchanges heartbeats for these clients, which are of one store; each is with whether it has something to deliver. A
/// store that fails holds up no dispatcher: each goes on with the part that it had, and tries again a [`PERIOD`] later.
pub(super) async fn confer<'a>(engine: &Engine, members: impl IntoIterator<Item = (&'a mut Member, bool)>) {
    let (mut told, mut beats) = (Vec::new(), Vec::new());
    for (member, is_there) in members {
        if !member.peers.is_alone {
            let Member { client, account, peers, gone, .. } = &mut *member;
            beats.push(peers.beat((client, account, *gone), is_there));
            peers.told_at = Some(client.engine.clock.now());
            peers.is_told = is_there;
            told.push(member);
        }
    }
    if beats.is_empty() {
        return;
    }
    let heartbeat = Heartbeat { now: engine.wall(), lasts: LASTS, beats };
    let vendor = engine.vendor.name();
    let Some(delivery) = engine.store.delivery() else { return };
    let question = async { delivery.heartbeat(&heartbeat).await };
    match asked(&*engine.clock, TELL, question).await {
        Ok(Ok(heard)) => told
            .into_iter()
            .for_each(|Member { client, account, peers, .. }| peers.hear(client, account, &heard)),
        Ok(Err(error)) => telemetry::recovery_failed(vendor, &error.at_vendor(vendor)),
        Err(panic) => telemetry::recovery_panicked(vendor, TELL, &*panic),
    }
}

impl Peers {
    pub(super) fn new(store: &dyn Store) -> Peers {
        static PROCESS: LazyLock<u64> = LazyLock::new(|| RandomState::new().hash_one(()));
        static NEXT: AtomicU64 = AtomicU64::new(0);
        // The order of names says who has what a division leaves over, and nothing else. Within a process it is that of
        // their making, so that what a test sees is the same each time.
        let name = format!("{:016x}-{:08x}", *PROCESS, NEXT.fetch_add(1, Ordering::Relaxed));
        Peers {
            name,
            told_at: None,
            is_told: false,
            is_alone: store.delivery().is_none(),
            part: Part::WHOLE,
            live: Live::default(),
            gone: Live::default(),
            shut: BTreeMap::new(),
        }
    }

    /// Returns the number of operations that may be taken at `now`: one if it may not know of others yet.
    pub(super) fn room(&self, now: Instant) -> usize {
        let knows = self.is_alone || self.told_at.is_some_and(|told| now.since(told) < LASTS);
        if knows { usize::MAX } else { 1 }
    }

    /// Returns the time until the next heartbeat; `None` if there never is one.
    pub(super) fn due_in(&self, now: Instant) -> Option<Duration> {
        if self.is_alone {
            return None;
        }
        Some(self.told_at.map_or(Duration::ZERO, |told| told.plus(PERIOD).since(now)))
    }

    /// Whether the others believe that it has something to deliver.
    pub(super) const fn is_told(&self) -> bool {
        self.is_told
    }

    /// Its word to the others.
    fn beat(&mut self, (client, account, gone): (&Client, &str, u32), is_there: bool) -> Beat {
        let says =
            is_there.then(|| self.word(client, gone)).and_then(|word| serde_json::to_string(&word).ok());
        Beat { account: account.to_owned(), dispatcher: self.name.clone(), says }
    }

    fn word(&mut self, client: &Client, gone: u32) -> PeerStatus {
        let (now, gates) = (client.engine.clock.now(), &client.engine.gates);
        self.live.count(gates.live_started(), now);
        let fell = gates.recovery().fell(now).filter(|(at, _)| now.since(*at) < LASTS);
        let pause = gates.pause().own_until(now);
        self.gone.count(Some(gone), now);
        // Which is not the same for a limit that is used up: there it only waits for its turn.
        let is_closed = |refusal: Refusal| !matches!(refusal.gate, Gate::Rate | Gate::Concurrency);
        PeerStatus {
            delivers: !gates.room_for_recovery(now).is_err_and(is_closed),
            live_per_second: self.live.per_second,
            fell_ms: fell.map(|(at, _)| millis(now.since(at))),
            too_much: fell.is_some_and(|(_, sign)| sign == Sign::TooMuch),
            pause_ms: pause.map(|until| millis(until.since(now))),
            gone_per_second: self.gone.per_second,
            shut: self.shut(gates, now),
        }
    }

    /// Returns the gates that are closed, each with the time since its first heartbeat as closed.
    fn shut(&mut self, gates: &Gates, now: Instant) -> Vec<Shut> {
        let mut closed: Vec<(&'static str, Option<String>, Option<Duration>)> = Vec::new();
        if gates.kill_switch_is_engaged() {
            closed.push(("kill_switch", None, None));
        }
        match (gates.breaker_mode(), gates.breaker_state(now)) {
            (Some(Mode::ForcedOpen), _) => closed.push((CIRCUIT, None, None)),
            (Some(Mode::Normal), Some(BreakerState::Open { left })) => {
                closed.push((CIRCUIT, None, Some(left)));
            }
            (Some(Mode::Normal), Some(BreakerState::HalfOpen)) => closed.push((CIRCUIT, None, None)),
            _ => {}
        }
        if let Some(until) = gates.paused_until(now) {
            closed.push(("pause", None, Some(until.since(now))));
        }
        for route in gates.circuits().map(|circuits| circuits.open(now)).unwrap_or_default() {
            closed.push(("route", Some(route.name.to_string()), None));
        }
        let held = gates.credentials().held().into_iter().find(|held| held.is_told);
        closed.extend(held.map(|held| ("held", None, Some(held.probe_at.since(now)))));
        let before = std::mem::take(&mut self.shut);
        let told = |(gate, route, left): (&'static str, Option<String>, Option<Duration>)| {
            let since = before.get(&(gate, route.clone())).copied().unwrap_or(now);
            self.shut.insert((gate, route.clone()), since);
            Shut {
                gate: gate.to_owned(),
                route,
                since_ms: Some(millis(now.since(since))),
                left_ms: left.map(millis),
            }
        };
        closed.into_iter().map(told).collect()
    }

    /// Applies the heartbeats of all that deliver for its account, itself among them.
    fn hear(&mut self, client: &Client, account: &str, heard: &[Peer]) {
        let (now, gates) = (client.engine.clock.now(), &client.engine.gates);
        let (mut names, mut live_per_second) = (Vec::new(), 0.0);
        for peer in heard {
            if peer.account != account {
                continue;
            }
            let word: PeerStatus = serde_json::from_str(&peer.says).unwrap_or_default();
            if word.live_per_second > 0.0 {
                live_per_second += word.live_per_second;
            }
            if word.delivers {
                names.push(&peer.dispatcher);
            }
            if peer.dispatcher != self.name {
                heed(gates, &word, peer.ago, now);
            }
        }
        names.sort_unstable();
        let place = names.iter().position(|name| **name == self.name);
        // One that waits for a gate is none of those, and is the next of them once the gate opens.
        let dispatchers = names.len() as u32 + u32::from(place.is_none());
        let is_only = dispatchers == 1 && heard.iter().all(|peer| peer.dispatcher == self.name);
        let part = if is_only {
            Part::WHOLE
        } else {
            Part { dispatchers, place: place.unwrap_or(names.len()) as u32, live_per_second }
        };
        if part.dispatchers != self.part.dispatchers {
            telemetry::recovery::shared(client.vendor(), account, part.dispatchers);
        }
        self.part = part;
        gates.divide(&part, now);
    }
}

fn heed(gates: &Gates, word: &PeerStatus, ago: Duration, now: Instant) {
    if let Some(fell_ms) = word.fell_ms {
        let sign = if word.too_much { Sign::TooMuch } else { Sign::Failed };
        let since = Duration::from_millis(fell_ms).saturating_add(ago);
        gates.recovery().heard(sign, since, now);
    }
    let Some(pause_ms) = word.pause_ms else { return };
    gates.pause().hear(now, Duration::from_millis(pause_ms).saturating_sub(ago));
}

impl Live {
    /// Notes how many have started by `now`.
    fn count(&mut self, started: Option<u32>, now: Instant) {
        let Some(started) = started else { return };
        match self.counted {
            Some((at, _)) if now.since(at) < PERIOD => return,
            Some((at, before)) => {
                self.per_second = f64::from(started.wrapping_sub(before)) / now.since(at).as_secs_f64();
            }
            None => {}
        }
        self.counted = Some((now, started));
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// Period of heartbeats, each of which costs one small write.
const PERIOD: Duration = Duration::from_secs(1);

/// Time after which a dispatcher without a heartbeat has gone.
const LASTS: Duration = Duration::from_secs(5);

const CIRCUIT: &str = "circuit";

const TELL: &str = "tell the other dispatchers";

#[cfg(test)]
mod tests;
