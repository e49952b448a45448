//! Terms that clients register for their accounts.

use steadfast_core::store::Store;

/// Checks that the terms of the first client to register an account stay, until they are removed.
pub async fn check_terms(store: &dyn Store) {
    for (account, terms, before) in [
        ("prod/acme/a", Some("one"), None),
        ("prod/acme/a", Some("two"), Some("one")),
        ("prod/acme/b", Some("two"), None),
        ("prod/acme/a", None, Some("one")),
        ("prod/acme/a", None, None),
        ("prod/acme/a", Some("three"), None),
        ("prod/acme/a", Some("one"), Some("three")),
    ] {
        let found = store.register(account, terms).await.expect("the store works");
        assert_eq!(found.as_deref(), before, "{account} {terms:?}");
    }
    let Some(maintenance) = store.maintenance() else { return };
    let expected = [("prod/acme/a", "three"), ("prod/acme/b", "two")];
    let expected = expected.map(|(account, terms)| (account.to_owned(), terms.to_owned())).into();
    assert_eq!(maintenance.head().await.expect("the store works").accounts, expected);
}
