//! The stores.

use std::fs;

use async_trait::async_trait;

use steadfast::operation::OperationId;
use steadfast::operation::record::{Action, Claim, Claimed, Forbidden, Record, Resolution, is_final};
use steadfast::store::{self, Memory, Said, SealKeys, Sqlite, Store, StoreError, StoreErrorKind, Wrapper};
use steadfast::testkit::ScriptedTransport;
use steadfast::vendor::Stripe;
use steadfast::{Client, Effect};
use steadfast_core::store::maintenance::Standing;

use crate::guards::life::{BURIED, DAY, HOUR, act, at, lapsed, says, scope, success, wanted};
use crate::guards::wait;

async fn claimed(store: &dyn Store, key: &str, now: u64) -> Record {
    match store.claim(wanted(key, now)).await.expect("a store") {
        Claimed::Fresh(record) => record,
        other => panic!("{other:?}"),
    }
}

pub fn what_has_settled_just_now_is_not_purged() -> bool {
    wait(async {
        let store = Memory::new();
        let held = claimed(&store, "k", 0).await;
        let settled = store.transition(&held, says(held.fence, 10, Effect::None, success())).await;
        settled.expect("a store").expect("its holder says so");
        store.purge(at(20), 10).await.expect("a store") == 0
    })
}

pub fn a_key_that_a_file_forgot_goes_on_with_its_fences() -> bool {
    wait(async {
        let directory = tempfile::tempdir().expect("a directory");
        let store = Sqlite::open(directory.path().join("calls.db")).expect("a store");
        let held = claimed(&store, "k", 0).await;
        let settled = store.transition(&held, says(held.fence, 10, Effect::None, success())).await;
        settled.expect("a store").expect("its holder says so");
        // A time so far ahead is believed an hour later.
        store.purge(at(30 * DAY), 10).await.expect("a store");
        assert_eq!(store.purge(at(30 * DAY + HOUR), 10).await.expect("a store"), 1);
        claimed(&store, "k", 30 * DAY + HOUR).await.fence > held.fence
    })
}

pub fn a_full_store_refuses_before_it_forgets_what_a_person_closed() -> bool {
    wait(async {
        let store = Memory::with_capacity(1);
        let held = claimed(&store, "k", 0).await;
        let buried = store.transition(&held, says(held.fence, 10, Effect::Unknown, BURIED)).await;
        buried.expect("a store").expect("its holder says so");
        let word = act(Action::Resolve(Resolution::NotApplied), 20);
        store.act(&held.id, word).await.expect("a store").expect("it is dead");
        store.claim(wanted("k2", 30)).await.is_err_and(|error| error.kind() == StoreErrorKind::Full)
    })
}

pub fn two_operations_never_share_a_name() -> bool {
    wait(async {
        let store = Memory::new();
        let old = claimed(&store, "k", 0).await;
        let mut there = wanted("k", 0);
        there.id = OperationId::new(scope("w"), old.id.key.clone());
        store.claim(there).await.expect("a store");
        let adopted = store.act(&old.id, act(Action::Adopt { to: scope("w") }, DAY)).await;
        adopted.expect("a store").is_err_and(|forbidden| forbidden == Forbidden::NameTaken)
    })
}

pub fn a_store_whose_file_was_replaced_takes_nothing() -> bool {
    wait(async {
        let directory = tempfile::tempdir().expect("a directory");
        let (path, copy) = (directory.path().join("calls.db"), directory.path().join("copy.db"));
        let store = Sqlite::open(&path).expect("a store");
        claimed(&store, "k", 0).await;
        fs::copy(&path, &copy).expect("a copy");
        fs::rename(&copy, &path).expect("in its place");
        let taken = store.take(lapsed(60)).await;
        taken.is_err_and(|error| error.kind() == StoreErrorKind::Replaced)
    })
}

/// A standby of a store's server, which has nothing of late yet.
#[derive(Debug)]
struct Behind(Memory);

#[async_trait]
impl Wrapper for Behind {
    fn inner(&self) -> &dyn Store {
        &self.0
    }

    async fn claim(&self, _: Claim) -> Result<Claimed, StoreError> {
        Err(StoreError::new("it only reads").of_kind(StoreErrorKind::ReadOnly))
    }

    async fn get(&self, id: &OperationId) -> Result<Option<Record>, StoreError> {
        let found = self.0.get(id).await?;
        let only_reads = || StoreError::new("it only reads").of_kind(StoreErrorKind::ReadOnly);
        if is_final(found.as_ref()) { Ok(found) } else { Err(only_reads()) }
    }
}

pub fn a_standby_does_not_say_that_nothing_was_done() -> bool {
    wait(async {
        let client = Client::builder(Stripe::new("sk_test_1")).store(Behind(Memory::new()));
        let client = client.transport(ScriptedTransport::new()).build().expect("a client");
        let charge = client.post("/v1/charges").key("k").form(&[("amount", "1000")]).send().await;
        charge.is_err_and(|error| error.effect() == Effect::Unknown)
    })
}

pub fn a_copy_of_a_file_takes_nothing() -> bool {
    wait(async {
        let directory = tempfile::tempdir().expect("a directory");
        let (path, copy) = (directory.path().join("calls.db"), directory.path().join("copy.db"));
        let store = Sqlite::open(&path).expect("a store");
        claimed(&store, "k", 0).await;
        store.close().await;
        fs::copy(&path, &copy).expect("a copy");
        let copy = Sqlite::open(&copy).expect("a store");
        copy.take(lapsed(60)).await.is_err_and(|error| error.kind() == StoreErrorKind::Displaced)
    })
}

async fn displaced(store: &Memory) {
    let maintenance = store.maintenance().expect("it can be copied");
    let elsewhere = Standing::displaced("elsewhere".to_owned());
    maintenance.stand(&Standing::default(), &elsewhere).await.expect("a store");
}

pub fn a_copy_does_not_say_that_there_is_nothing() -> bool {
    wait(async {
        let store = Memory::new();
        displaced(&store).await;
        store.get(&wanted("k", 0).id).await.is_err()
    })
}

pub fn what_is_open_in_a_copy_is_left_to_the_original() -> bool {
    wait(async {
        let store = Memory::new();
        claimed(&store, "k", 0).await;
        displaced(&store).await;
        let copy = store::here(&store, Some(Said::Copy), ("ada", "staging"), at(10)).await;
        copy.expect("it is one");
        store.take(lapsed(60)).await.expect("it is open").is_empty()
    })
}

pub fn no_client_is_built_on_a_file_of_two_names() -> bool {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("calls.db");
    let store = Sqlite::open(&path).expect("a store");
    fs::hard_link(&path, directory.path().join("other.db")).expect("a link");
    Client::builder(Stripe::new("sk_test_123")).store(store).build().is_err()
}

pub fn a_request_in_the_clear_is_not_read_in_a_sealed_store() -> bool {
    wait(async {
        let directory = tempfile::tempdir().expect("a directory");
        let (plain, sealed) = (directory.path().join("plain.db"), directory.path().join("sealed.db"));
        let forger = Sqlite::open(&plain).expect("a store");
        claimed(&forger, "k", 0).await;
        forger.close().await;
        let store = Sqlite::builder(&sealed).seal(SealKeys::new([1; 32])).open().expect("a store");
        claimed(&store, "k", 0).await;
        // A process that can write to the file, and has no key.
        let file = rusqlite::Connection::open(&sealed).expect("opens");
        let forge = format!(
            "ATTACH '{}' AS plain; UPDATE main.operation SET request = (SELECT request FROM plain.operation)",
            plain.display()
        );
        file.execute_batch(&forge).expect("forges");
        store.get(&wanted("k", 0).id).await.is_err_and(|error| error.kind() == StoreErrorKind::Corrupt)
    })
}
