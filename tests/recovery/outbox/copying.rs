//! An outbox is not copied to another store, and nothing is left behind in it.

use steadfast::store::{self, CopyError, Copying};

use super::bench::{Shop, insert};

fn how() -> Copying {
    Copying::new("the old store", "the new one")
}

#[tokio::test]
async fn a_copy_waits_until_the_outbox_is_empty_and_then_closes_it() {
    let (shop, new) = (Shop::open(), Shop::open());
    shop.place(42);
    shop.sql(
        "INSERT INTO steadfast_outbox (vendor, account, path, key, rejected_at_ms, rejected) \
         VALUES ('stripe', 'test', '/v1/charges', 'wrong', 1, 'because')",
    );
    let refused = store::copy(&*shop.store, &*new.store, &how().wait()).await.expect_err("there are rows");
    assert!(matches!(refused, CopyError::Outbox { rows: 2, rejected: 1 }), "{refused}");

    // Nothing was changed: calls go on, and the row is admitted.
    shop.place(43);
    shop.deliver().await;
    assert_eq!(shop.fake.ledger().count(), 2);
    let refused = store::copy(&*shop.store, &*new.store, &how()).await.expect_err("one was rejected");
    assert!(matches!(refused, CopyError::Outbox { rows: 1, rejected: 1 }), "{refused}");
    shop.sql("DELETE FROM steadfast_outbox");
    assert_eq!(store::copy(&*shop.store, &*new.store, &how()).await.expect("copied").operations, 2);

    // An order whose charge nobody would make does not commit.
    let mut connection = shop.connection();
    let transaction = connection.transaction().expect("begins");
    insert(&transaction, 44);
    let error = shop.charge(44).blocking_enqueue_in(&transaction).expect_err("it is closed");
    assert!(format!("{error:#}").contains("its records were copied to another store"), "{error:#}");
    drop(transaction);
    assert_eq!((shop.count("steadfast_outbox"), shop.count("orders")), (0, 2));
    drop(connection);

    // The new store has an outbox of its own.
    new.place(44);
    new.deliver().await;
    assert_eq!((new.fake.ledger().count(), new.waiting()), (1, 0));
}

/// The copy was cut short in the old store: what lay in the outbox by then is neither lost nor left behind unseen.
#[tokio::test]
async fn a_copy_that_is_given_up_opens_the_outbox_again() {
    let shop = Shop::open();
    shop.place(42);
    shop.sql(
        "UPDATE store_state SET copy_state = '{\"stage\":\"leaving\",\"copy\":\"a\",\"other\":\"the new one\"}'",
    );
    let insert =
        "INSERT INTO steadfast_outbox (vendor, account, path, key) VALUES ('stripe', 'test', '/v1/x', 'k')";
    assert!(shop.connection().execute(insert, []).is_err());
    store::give_up_copy(&*shop.store, None, &how()).await.expect("open");
    shop.deliver().await;
    assert_eq!(shop.fake.ledger().count(), 1);
}
