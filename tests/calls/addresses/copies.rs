//! Copies of stores that were given up, and terms that a store could not say.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use parking_lot::Mutex;
use tempfile::TempDir;

use steadfast::operation::record::{Filter, Phase, Record, Takeover};
use steadfast::store::{self, CopyError, Copying, Memory, Sqlite, Store, StoreError, Wrapper};
use steadfast::testkit::{ScriptedTransport, TestClock};
use steadfast::{Client, dispatcher};
use steadfast_core::store::maintenance::{Head, Maintenance, Restore, Stage, Standing};

use crate::addresses::terms::{OTHER, OWN, client, paid, pass};

async fn enqueue(client: &Client, key: &str) {
    client.post("/v1/quotes").key(key).form(&[("amount", "1000")]).enqueue().await.expect("recorded");
}

fn maintenance(store: &dyn Store) -> &dyn Maintenance {
    store.maintenance().expect("it can be copied")
}

async fn stage(store: &dyn Store) -> Stage {
    maintenance(store).head().await.expect("it works").standing.stage
}

async fn keys(store: &dyn Store) -> Vec<String> {
    let rows = store.list(&Filter::default(), None, 100).await.expect("it works").rows;
    rows.iter().map(|row| row.id.key.to_string()).collect()
}

/// A store that does otherwise what [`Trouble`] says.
#[derive(Debug)]
struct Troubled {
    store: Arc<dyn Store>,
    trouble: Trouble,
}

#[derive(Debug)]
enum Trouble {
    /// It fails while this is set: to register and to take.
    Out(AtomicBool),
    /// The copier is cut off at its first rows. They are on their way.
    Cut(Mutex<Option<Restore>>),
    /// These rows come in just before the store opens.
    Late(Mutex<Option<Restore>>),
}

impl Troubled {
    fn new(store: &Arc<dyn Store>, trouble: Trouble) -> Arc<Troubled> {
        Arc::new(Troubled { store: store.clone(), trouble })
    }

    fn check(&self) -> Result<(), StoreError> {
        match &self.trouble {
            Trouble::Out(out) if out.load(Ordering::Relaxed) => Err(StoreError::new("the store is out")),
            _ => Ok(()),
        }
    }
}

#[async_trait]
impl Wrapper for Troubled {
    fn inner(&self) -> &dyn Store {
        &*self.store
    }

    async fn take(&self, take: Takeover) -> Result<Vec<Record>, StoreError> {
        self.check()?;
        self.store.take(take).await
    }

    async fn register(&self, account: &str, terms: Option<&str>) -> Result<Option<String>, StoreError> {
        self.check()?;
        self.store.register(account, terms).await
    }

    fn maintenance(&self) -> Option<&dyn Maintenance> {
        Some(self)
    }
}

#[async_trait]
impl Maintenance for Troubled {
    async fn head(&self) -> Result<Head, StoreError> {
        maintenance(&*self.store).head().await
    }

    async fn stand(&self, from: &Standing, to: &Standing) -> Result<Standing, StoreError> {
        if let Trouble::Late(rows) = &self.trouble
            && to.stage == Stage::Open
        {
            let rows = rows.lock().take();
            // Whether it is refused shows in what is on record then.
            let _ = maintenance(&*self.store).restore(rows.expect("the store opens once")).await;
        }
        maintenance(&*self.store).stand(from, to).await
    }

    async fn restore(&self, restore: Restore) -> Result<(), StoreError> {
        if let Trouble::Cut(rows) = &self.trouble {
            *rows.lock() = Some(restore);
            return Err(StoreError::new("cut off"));
        }
        maintenance(&*self.store).restore(restore).await
    }
}

/// Three stores in memory, and three in files.
fn stores(place: &TempDir) -> [[Arc<dyn Store>; 3]; 2] {
    let names = ["a", "b", "c"];
    let file = |name| -> Arc<dyn Store> { Arc::new(Sqlite::open(place.path().join(name)).expect("opens")) };
    [names.map(|_| -> Arc<dyn Store> { Arc::new(Memory::new()) }), names.map(file)]
}

/// The mark of a copy that was given up said nothing of which. So the target of an old one opened a source whose records
/// had gone elsewhere since: both stores were due to send what was in them.
#[tokio::test]
async fn the_target_of_an_old_copy_does_not_open_a_source_that_moved_elsewhere() {
    let place = TempDir::new().expect("a directory");
    for [a, b, c] in stores(&place) {
        let clock = TestClock::auto();
        enqueue(&client(a.clone(), OWN, &clock, &paid()), "order-1").await;
        let how = |to| Copying::new("a", to).clock(clock.clone());
        let cut = Troubled::new(&b, Trouble::Cut(Mutex::default()));
        store::copy(&*a, &*cut, &how("b")).await.expect_err("cut off");
        for _ in 0..2 {
            store::give_up_copy(&*a, Some(&*b), &how("b")).await.expect("it is not complete");
        }
        assert_eq!((stage(&*a).await, stage(&*b).await), (Stage::Open, Stage::Arriving));
        store::copy(&*a, &*c, &how("c")).await.expect("copies");
        let opened = store::give_up_copy(&*a, Some(&*b), &how("b")).await;
        assert!(matches!(&opened, Err(CopyError::Elsewhere { other }) if other == "c"), "{opened:?}");
        assert_eq!((stage(&*a).await, stage(&*c).await), (Stage::Moved, Stage::Open));
        let opened = store::give_up_copy(&*a, Some(&*c), &how("c")).await;
        assert!(matches!(opened, Err(CopyError::Complete { .. })), "{opened:?}");
    }
}

/// A copier had rows on their way when its copy was given up. They came into a store that was filled from another one
/// by then: they were due in both.
#[tokio::test]
async fn what_a_copy_that_was_given_up_still_writes_does_not_arrive() {
    let place = TempDir::new().expect("a directory");
    for [a, b, c] in stores(&place) {
        let clock = TestClock::auto();
        enqueue(&client(a.clone(), OWN, &clock, &paid()), "of-a").await;
        enqueue(&client(c.clone(), OWN, &clock, &paid()), "of-c").await;
        let how = |from| Copying::new(from, "b").clock(clock.clone());
        let cut = Troubled::new(&b, Trouble::Cut(Mutex::default()));
        store::copy(&*a, &*cut, &how("a")).await.expect_err("cut off");
        store::give_up_copy(&*a, Some(&*b), &how("a")).await.expect("nothing is there yet");
        let Trouble::Cut(late) = &cut.trouble else { panic!("it is") };
        let late = Mutex::new(late.lock().take());
        let late = Troubled::new(&b, Trouble::Late(late));
        store::copy(&*c, &*late, &how("c")).await.expect("copies");
        assert_eq!((stage(&*a).await, stage(&*b).await), (Stage::Open, Stage::Open));
        assert_eq!((keys(&*a).await, keys(&*b).await), (vec!["of-a".to_owned()], vec!["of-c".to_owned()]));
    }
}

/// A store that was out when recovery began, and then came back: recovery went on without asking again, and sent what a
/// service at another address had recorded, to that address and with its own secret.
#[tokio::test]
async fn terms_that_a_store_could_not_say_are_asked_for_before_anything_is_taken() {
    let (store, clock, network) = (Arc::new(Memory::new()), TestClock::auto(), paid());
    let ours = client(store.clone(), OWN, &clock, &ScriptedTransport::new());
    ours.register().await.expect("the first");
    enqueue(&ours, "order-1").await;
    let shared: Arc<dyn Store> = store.clone();
    let out = Troubled::new(&shared, Trouble::Out(AtomicBool::new(true)));
    let other = client(out.clone(), OTHER, &clock, &network);
    let _recovery = other.keep_recovering(dispatcher::PERIOD);
    pass(&clock, Duration::from_secs(20)).await;
    let Trouble::Out(is_out) = &out.trouble else { panic!("it is") };
    is_out.store(false, Ordering::Relaxed);
    pass(&clock, Duration::from_secs(120)).await;
    assert_eq!(network.requests().len(), 0, "its secret does not go to our address");
    // Somebody means it: it goes on by itself. An operation that was recorded for our address still does not go there.
    store.register("default/stripe/test", None).await.expect("forgets");
    pass(&clock, Duration::from_secs(40)).await;
    assert_eq!(network.requests().len(), 0);
    let tally = store.tally().await.expect("the store works");
    assert!(matches!(&tally[..], [dead] if dead.phase == Phase::Dead && dead.count == 1), "{tally:?}");
    enqueue(&other, "order-2").await;
    pass(&clock, Duration::from_secs(40)).await;
    assert_eq!(network.requests().len(), 1);
}
