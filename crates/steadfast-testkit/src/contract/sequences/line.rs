//! Helpers for checks of sequences.

use steadfast_core::clock::Timestamp;
use steadfast_core::operation::OperationId;
use steadfast_core::operation::record::{
    Act, Action, Claim, Claimed, Filter, Phase, Record, State, Takeover,
};
use steadfast_core::store::Store;
use steadfast_core::{Effect, Sequence};

use super::super::{LEASE, NOW, claim, claim_at, get, id, transition_at};

/// The operations of one check, all in one account except where a vendor is given.
pub(super) struct Line<'a> {
    store: &'a dyn Store,
    namespace: &'static str,
}

impl<'a> Line<'a> {
    pub(super) fn new(store: &'a dyn Store, namespace: &'static str) -> Line<'a> {
        Line { store, namespace }
    }

    pub(super) fn id(&self, key: &str) -> OperationId {
        self.id_of("v", key)
    }

    pub(super) fn id_of(&self, vendor: &str, key: &str) -> OperationId {
        id(&format!("{}/{vendor}//POST /x", self.namespace), key)
    }

    pub(super) fn claim(&self, key: &str, sequence: &str, now: Timestamp) -> Claim {
        Claim { due: Some(now), sequence: Some(Sequence::new(sequence)), ..claim_at(&self.id(key), now) }
    }

    pub(super) async fn enter(&self, key: &str, sequence: &str) {
        self.enter_at(key, sequence, NOW).await;
    }

    pub(super) async fn enter_at(&self, key: &str, sequence: &str, due: Timestamp) {
        let wanted = Claim { due: Some(due), ..self.claim(key, sequence, NOW) };
        let claimed = claim(self.store, wanted).await;
        let Claimed::Fresh(record) = claimed else { panic!("{key} is new: {claimed:?}") };
        assert_eq!(record.state, State::Scheduled { at: due });
        // The operation ahead may have ended since.
        let kept = self.record(key).await;
        let position = |record: &Record| record.sequence.as_ref().map(|place| place.position);
        assert_eq!((position(&kept), kept.fence >= record.fence), (position(&record), true), "{key}");
    }

    pub(super) async fn enter_into(&self, vendor: &str, key: &str, sequence: Sequence) {
        let wanted =
            Claim { due: Some(NOW), sequence: Some(sequence), ..claim_at(&self.id_of(vendor, key), NOW) };
        let claimed = claim(self.store, wanted).await;
        assert!(matches!(claimed, Claimed::Fresh(_)), "{key} is new: {claimed:?}");
    }

    pub(super) async fn take(&self) -> Vec<String> {
        self.take_at(NOW).await
    }

    pub(super) async fn take_at(&self, now: Timestamp) -> Vec<String> {
        self.take_left(Phase::Scheduled, now).await
    }

    pub(super) async fn take_left(&self, phase: Phase, now: Timestamp) -> Vec<String> {
        self.take_for("v", phase, now).await
    }

    pub(super) async fn take_of(&self, vendor: &str) -> Vec<String> {
        self.take_for(vendor, Phase::Scheduled, NOW).await
    }

    /// Takes operations, and returns their keys, sorted.
    pub(super) async fn take_for(&self, vendor: &str, phase: Phase, now: Timestamp) -> Vec<String> {
        let take = Takeover {
            phase,
            account: Some(format!("{}/{vendor}/", self.namespace)),
            now,
            lease: LEASE,
            attempt_max: super::super::ATTEMPT,
            vendor_clock_ms: None,
            holder: None,
            limit: 10,
            wanted: steadfast_core::operation::record::Wanted::default(),
        };
        let taken = self.store.take(take).await.expect("the store works");
        for record in &taken {
            assert_eq!(get(self.store, &record.id).await.map(|kept| kept.state), Some(record.state.clone()));
        }
        let mut keys: Vec<String> = taken.iter().map(|record| record.id.key.as_str().to_owned()).collect();
        keys.sort();
        keys
    }

    pub(super) async fn record(&self, key: &str) -> Record {
        get(self.store, &self.id(key)).await.expect("it is on record")
    }

    /// Ends an operation as its holder, without an effect.
    pub(super) async fn end(&self, key: &str, to: State) {
        let held = self.record(key).await;
        let now = held.updated_at;
        let mut transition = transition_at(held.fence, now, to);
        transition.effect = Effect::None;
        self.store
            .transition(&held, transition)
            .await
            .expect("the store works")
            .expect("the holder may write");
    }

    pub(super) async fn act(&self, key: &str, action: Action) -> Phase {
        let (by, why) = ("ada".to_owned(), "a check".to_owned());
        let act = Act { action, by, why, now: NOW, fence: None };
        let acted = self.store.act(&self.id(key), act).await.expect("the store works");
        acted.unwrap_or_else(|forbidden| panic!("{key}: {forbidden:?}")).phase()
    }

    /// Returns the places in the sequence `one`: key, position, and the key of the operation that has the turn.
    pub(super) async fn places(&self) -> Vec<(&'static str, u64, Option<&'static str>)> {
        let keys = ["a", "b", "c"];
        let mut places = Vec::new();
        for key in keys {
            let summary = self.record(key).await.summary();
            let place = summary.sequence.expect("it is in a sequence");
            assert_eq!((place.sequence.name(), place.sequence.skips_dead_letters()), ("one", false));
            let behind = place.behind.map(|ahead| ahead.id.key);
            let behind =
                keys.into_iter().find(|key| behind.as_ref().is_some_and(|other| other.as_str() == *key));
            places.push((key, place.position, behind));
        }
        places
    }

    pub(super) async fn listed(&self, sequence: &str) -> Vec<String> {
        self.list(Filter { sequence: Some(sequence.to_owned()), ..Filter::default() }).await
    }

    /// Returns the dead letters that hold a sequence.
    pub(super) async fn holding(&self) -> Vec<String> {
        self.list(Filter { holds_sequence: true, ..Filter::default() }).await
    }

    pub(super) async fn list(&self, filter: Filter) -> Vec<String> {
        let page = self.store.list(&filter, None, 100).await.expect("the store works");
        page.rows.iter().map(|row| row.id.key.as_str().to_owned()).collect()
    }
}
