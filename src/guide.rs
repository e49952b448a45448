//! Longer pages: how to do things, how not to do them, and what to do when calls fail at night.
//!
//! | to | read |
//! |---|---|
//! | do something that has come up before | [recipes] |
//! | see what not to do, and why | [anti-patterns](anti_patterns) |
//! | read its logs and metrics, or alert on them | [observability] |
//! | know what happened and what to do, when paged | [operations] |
//! | know what a vendor makes possible, and what is done with its answers | [vendors] |
//! | know what it cannot do, and where it runs | [limits] |
//! | know what it costs | [performance] |
//! | know how the promise is tested | [proofs] |
//! | run something, and copy from it | [examples] |
//! | keep the records in Postgres | [postgres] |
//! | look up a key of the vendors file, or its default | [the vendors file](vendors_file) |
//! | call a vendor that no table describes | [an adapter of one's own](adapter) |
//! | see what is decided when, at each kind of vendor | [decisions] |
//! | read the source, or change it | [the life of a call](life_of_a_call) |
//! | know what a term means | [the glossary](glossary) |
//!
//! The same pages are in the repository, under `src/docs` and `examples`.

// Each page is a file that can also be read in the repository, so that its links lead to files: they are link
// definitions at the file's end. Here they must lead to pages of this documentation. Markdown takes the first
// definition of a label, so each page's labels are defined anew before its text. `tests/house/docs.rs` holds both lists
// to each other. Not only in builds of the documentation (`cfg(doc)`): a link to a page from another crate's
// documentation is resolved against a usual build.

/// [`Error::effect()`]: crate::Error::effect
/// [`Call::inbound`]: crate::Call::inbound
/// [`retry_at`]: crate::Error::retry_at
/// [`Client`]: crate::Client
/// [`on_unknown(Resend)`]: crate::Call::on_unknown
/// [retry budget]: crate::policy::BudgetConfig
/// [adapter]: crate::guide::adapter
///
#[doc = include_str!("docs/anti_patterns.md")]
pub mod anti_patterns {}

/// [`call.rs`]: ../../../src/steadfast/call.rs.html
/// [`next_step`]: https://docs.rs/steadfast-core/latest/src/steadfast_core/decision.rs.html
/// [`decision.rs`]: https://docs.rs/steadfast-core/latest/src/steadfast_core/decision.rs.html
/// [`resend.rs`]: https://docs.rs/steadfast-core/latest/src/steadfast_core/operation/record/resend.rs.html
/// [`record.rs`]: https://docs.rs/steadfast-core/latest/src/steadfast_core/operation/record.rs.html
/// [`gates.rs`]: https://docs.rs/steadfast-core/latest/src/steadfast_core/policy/gates.rs.html
/// [`vendor.rs`]: https://docs.rs/steadfast-core/latest/src/steadfast_core/vendor.rs.html
/// [`entry.rs`]: ../../../src/steadfast/engine/entry.rs.html
/// [`claim.rs`]: ../../../src/steadfast/engine/claim.rs.html
/// [`driver.rs`]: ../../../src/steadfast/engine/driver.rs.html
/// [`attempt.rs`]: ../../../src/steadfast/engine/attempt.rs.html
/// [`exchange.rs`]: ../../../src/steadfast/engine/exchange.rs.html
/// [`settle.rs`]: ../../../src/steadfast/engine/settle.rs.html
/// [`conclude.rs`]: ../../../src/steadfast/engine/conclude.rs.html
/// [`run.rs`]: ../../../src/steadfast/engine/run.rs.html
/// [`hold.rs`]: ../../../src/steadfast/engine/hold.rs.html
/// [`parts.rs`]: ../../../src/steadfast/engine/parts.rs.html
/// [`disagreement.rs`]: ../../../src/steadfast/engine/disagreement.rs.html
/// [`measures.rs`]: ../../../src/steadfast/engine/measures.rs.html
/// [`retention.rs`]: ../../../src/steadfast/engine/retention.rs.html
/// [`work.rs`]: ../../../src/steadfast/engine/work.rs.html
/// [`admit.rs`]: ../../../src/steadfast/engine/admit.rs.html
/// [`renew.rs`]: ../../../src/steadfast/engine/renew.rs.html
/// [`sleep.rs`]: ../../../src/steadfast/engine/sleep.rs.html
/// [`record_log.rs`]: ../../../src/steadfast/engine/record_log.rs.html
/// [`lookup.rs`]: ../../../src/steadfast/engine/lookup.rs.html
/// [`late_write.rs`]: ../../../src/steadfast/engine/late_write.rs.html
/// [`on_record.rs`]: ../../../src/steadfast/engine/on_record.rs.html
/// [`records.rs`]: ../../../src/steadfast/engine/records.rs.html
/// [`replay.rs`]: ../../../src/steadfast/engine/replay.rs.html
/// [`in_flight.rs`]: ../../../src/steadfast/engine/in_flight.rs.html
/// [`enqueue.rs`]: ../../../src/steadfast/engine/enqueue.rs.html
/// [`outbox.rs`]: ../../../src/steadfast/engine/outbox.rs.html
/// [`found.rs`]: ../../../src/steadfast/engine/found.rs.html
/// [`recovery.rs`]: ../../../src/steadfast/engine/recovery.rs.html
/// [`leaving.rs`]: ../../../src/steadfast/engine/leaving.rs.html
/// [`settling.rs`]: ../../../src/steadfast/engine/settling.rs.html
/// [`credentials.rs`]: ../../../src/steadfast/engine/credentials.rs.html
/// [`address.rs`]: ../../../src/steadfast/engine/address.rs.html
/// [`terms.rs`]: ../../../src/steadfast/engine/terms.rs.html
/// [`routes.rs`]: ../../../src/steadfast/engine/routes.rs.html
/// [`prefixes.rs`]: ../../../src/steadfast/engine/prefixes.rs.html
/// [`stream.rs`]: ../../../src/steadfast/engine/stream.rs.html
/// [`aside.rs`]: ../../../src/steadfast/engine/aside.rs.html
///
#[doc = include_str!("docs/life_of_a_call.md")]
pub mod life_of_a_call {}

/// [glossary]: crate::guide::glossary
///
#[doc = include_str!("docs/decisions.md")]
pub mod decisions {}

#[doc = include_str!("docs/glossary.md")]
pub mod glossary {}

/// [`send`]: crate::Call::send
/// [`enqueue`]: crate::Call::enqueue
/// [`code`]: crate::Error::code
/// [operations]: crate::guide::operations
/// [waits]: crate::InFlight::Wait
/// [outbox]: crate::outbox
/// [no namespace]: crate::guide::operations#two-services-one-account
/// [was renamed]: crate::guide::operations#an-account-a-namespace-or-a-vendor-was-renamed
/// [knows them as harmless]: crate::vendor::Vendor::may_show
/// [clients that tests build]: crate::ClientBuilder::store
/// [Another service]: crate::guide::operations#two-services-one-account
/// [streamed]: crate::Call::stream
/// [elsewhere]: crate::guide::operations#a-store-that-was-copied-or-moved
/// [one route's]: crate::guide::operations#one-route-fails
/// [wait for it]: crate::guide::operations#the-vendor-refuses-our-secret
///
#[doc = include_str!("docs/observability.md")]
pub mod observability {}

/// [`DeadLetters`]: crate::dead_letter::DeadLetters
/// [The limits]: crate::guide::limits
/// [observability]: crate::guide::observability
/// [what to alert on]: crate::guide::observability#what-to-alert-on
/// [every error code]: crate::guide::observability#the-error-codes
/// [the metrics]: crate::guide::observability#the-metrics
/// [the dispatcher's role]: crate::guide::postgres#roles
/// [the page of Postgres]: crate::guide::postgres
/// [`Dispatcher`]: crate::dispatcher::Dispatcher
/// [enqueued]: crate::guide::recipes#send-it-later
/// [sequence]: crate::guide::recipes#keep-calls-in-order
/// [share recovery's rate]: crate::guide::operations#a-process-that-delivers
/// [client]: crate::Client
/// [breaker]: crate::policy::BreakerConfig
/// [`Summary::is_late`]: crate::operation::record::Summary::is_late
/// [recovery's rate]: crate::policy::RecoveryConfig
/// [dead letter]: crate::dead_letter
/// [`redact`]: crate::Call::redact
/// [start over]: crate::guide::recipes#start-over
/// [late repeats]: crate::guide::recipes#guard-later-writes
/// [each kind is on its page]: crate::guide::postgres#when-something-is-wrong
/// [vendors file]: crate::guide::vendors_file
/// [`unauthorized`]: crate::vendor::KeyedConfig
#[cfg_attr(feature = "seal", doc = "[`SealKeys`]: crate::store::SealKeys")]
#[cfg_attr(not(feature = "seal"), doc = "[`SealKeys`]: crate#features")]
///
// Its program needs the feature that it is about.
#[cfg_attr(
    any(not(doctest), all(feature = "seal", feature = "sqlite")),
    doc = include_str!("docs/operations.md")
)]
pub mod operations {}

/// [`StoreErrorKind`]: crate::store::StoreErrorKind
/// [copied]: crate::guide::operations#moving-to-another-store
/// [copied or moved]: crate::guide::operations#a-store-that-was-copied-or-moved
/// [`keep_recovering`]: crate::Client::keep_recovering
/// [share recovery's rate]: crate::guide::operations#a-process-that-delivers
/// [outbox]: crate::outbox
/// [sequence]: crate::guide::recipes#keep-calls-in-order
/// [share recovery's rate]: crate::guide::operations#a-process-that-delivers
///
#[doc = include_str!("docs/postgres.md")]
pub mod postgres {}

/// [Postgres database]: crate::guide::postgres
/// [moves all records]: crate::guide::operations#moving-to-another-store
/// [rotate]: crate::guide::operations#sealing-what-is-stored
/// [Clients that tests build]: crate::ClientBuilder::store
/// [its JSON Schema]: crate::Vendors::SCHEMA
/// [`enqueue`]: crate::Call::enqueue
/// [`keep_recovering`]: crate::Client::keep_recovering
/// [`Dispatcher`]: crate::dispatcher::Dispatcher
/// [a process of its own]: crate::guide::operations#a-process-that-delivers
/// [`enqueue_in`]: crate::Call::enqueue_in
/// [outbox]: crate::outbox
/// [the dispatcher's role]: crate::guide::postgres#roles
/// [in Python]: crate::guide::postgres#enqueue-from-another-language
/// [`is_new`]: crate::Enqueued::is_new
/// [`sequence`]: crate::Call::sequence
/// [`is_deadline`]: crate::Error::is_deadline
/// [`retry_at`]: crate::Error::retry_at
/// [wait]: crate::Call::in_flight
/// [`disposition()`]: crate::Error::disposition
/// [`supersedes`]: crate::Call::supersedes
/// [`code()`]: crate::Error::code
/// [`path`]: crate::Call::path
/// [`deadline`]: crate::Call::deadline
/// [`multipart`]: crate::Call::multipart
/// [`redirects`]: crate::Call::redirects
/// [`pages`]: crate::Call::pages
/// [`pages_by`]: crate::Call::pages_by
/// [`stream`]: crate::Call::stream
/// [`is_broken_reply`]: crate::Error::is_broken_reply
/// [`recorded`]: crate::Call::recorded
/// [`Call::handle`]: crate::Call::handle
/// [`Client::ends`]: crate::Client::ends
/// [`execute`]: crate::Client::execute
/// [`Reply`]: crate::Reply
/// [`into_answer()`]: crate::Error::into_answer
/// [`form`]: crate::Call::form
/// [`Inbound`]: crate::inbound::Inbound
/// [extractor]: crate::inbound::Inbound#trait-implementations
/// [`pass_deadline_on`]: crate::Call::pass_deadline_on
/// [`answer()`]: crate::Error::answer
/// [`Keyed`]: crate::vendor::Keyed
/// [`Vendor`]: crate::vendor::Vendor
/// [vendors file]: crate::guide::vendors_file
/// [a whole adapter]: crate::guide::adapter
/// [`effect()`]: crate::Error::effect
/// [alerts]: crate::guide::observability#what-to-alert-on
/// [observability]: crate::guide::observability#the-error-codes
/// [renamed]: crate::guide::operations#an-account-a-namespace-or-a-vendor-was-renamed
#[cfg_attr(feature = "testkit", doc = "[`FakeBuilder`]: crate::testkit::fakes::FakeBuilder")]
#[cfg_attr(not(feature = "testkit"), doc = "[`FakeBuilder`]: crate#features")]
///
#[doc = include_str!("docs/recipes.md")]
pub mod recipes {}

/// [Stripe]: crate::vendor::Stripe
/// [20 creates]: crate::vendor::Stripe::lookup_by_metadata
/// [Postmark]: crate::vendor::Postmark
/// [BigCommerce]: crate::vendor::BigCommerce
/// [Adyen]: crate::vendor::Adyen
/// [Checkout.com]: crate::vendor::KeyedConfig::preset
/// [8 routes]: ../../../src/steadfast/vendor/keyed/presets.rs.html
/// [PayPal, Resend]: crate::vendor::KeyedConfig::preset
/// [17]: ../../../src/steadfast/vendor/keyed/presets.rs.html
/// [Square, Plaid, Increase, GoCardless]: crate::vendor::KeyedConfig::preset
/// [13 routes]: ../../../src/steadfast/vendor/keyed/presets.rs.html
/// [69]: ../../../src/steadfast/vendor/keyed/presets.rs.html
/// [another keyed vendor]: crate::guide::vendors_file
/// [an adapter of one's own]: crate::guide::adapter
/// [quickstart]: crate::guide::examples#200-orders-and-a-kill
/// [policy]: crate::policy
/// [the recipe for a mock]: crate::guide::recipes#test-with-your-own-wiremock
///
#[doc = include_str!("docs/vendors.md")]
pub mod vendors {}

/// [look after]: crate::guide::operations#the-command-line
/// [custom_vendor]: crate::guide::adapter
///
#[doc = include_str!("docs/examples.md")]
pub mod examples {}

/// [what it is]: crate::guide::operations#a-store-that-was-copied-or-moved
/// [namespace]: crate::guide::operations#two-services-one-account
/// [Ways out]: crate::guide::recipes#guard-later-writes
/// [The proofs]: crate::guide::proofs
/// [share recovery's rate]: crate::guide::operations#a-process-that-delivers
/// [two minutes]: crate::guide::operations#the-vendor-is-down
/// [directory of an SQLite file]: crate::guide::operations#a-store-that-was-copied-or-moved
///
#[doc = include_str!("docs/limits.md")]
pub mod limits {}

#[doc = include_str!("docs/performance.md")]
pub mod performance {}

/// [the limits]: crate::guide::limits
///
#[doc = include_str!("docs/proofs.md")]
pub mod proofs {}

/// # The vendors file
///
/// Every key of every table, with its default and the reason for it. [`Vendors`](crate::config::Vendors) reads it;
/// [`Vendors::SCHEMA`](crate::Vendors::SCHEMA) is the same for editors.
///
/// ```toml
#[doc = include_str!("../examples/vendors.toml")]
/// ```
pub mod vendors_file {}

/// # An adapter of one's own
///
/// A vendor whose idempotency is a key in a header or in a body field needs none:
/// [`Keyed`](crate::vendor::Keyed) is data. For any other, implement [`Vendor`](crate::vendor::Vendor): a name, a base
/// URL, a credential and the place of the key are [under 30 lines](crate::vendor). This whole program adds a mark of the
/// vendor's own answers, and a lookup.
///
/// Then run the conformance suite of [`testkit`] on it, in a test. It puts the adapter through every status, failure,
/// replay, wait and broken answer, and names each rule that is broken.
///
#[cfg_attr(feature = "testkit", doc = "[`testkit`]: crate::testkit::conformance")]
#[cfg_attr(not(feature = "testkit"), doc = "[`testkit`]: crate#features")]
///
/// ```
#[cfg_attr(any(not(doctest), feature = "testkit"), doc = include_str!("../examples/custom_vendor.rs"))]
/// ```
pub mod adapter {}
