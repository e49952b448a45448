//! The rules of a vendor: what it really does with a repeated request, as data and pure functions.
//!
//! [`Vendor`] is for the author of an adapter. It does no I/O and keeps no state. It says how a request is stamped
//! and authorised, for how long the vendor replays a key, what an attempt's outcome means, and how an effect can be
//! looked up. The engine does the rest.
//!
//! The adapters are [`Stripe`], [`Postmark`], [`BigCommerce`] and [`Adyen`]. [`Keyed`] is for every vendor whose idempotency is
//! a key in a header or a body field: it is configuration and no code.
//!
//! # An adapter of one's own
//!
//! It is a name, a [`BaseUrl`], a [`Credential`], and the [`KeyPlace`] where the key goes. All else has a default that
//! errs on the safe side. Verdicts follow HTTP and the form of the answer ([`rules`]), nothing is replayed, and nothing
//! can be looked up: a POST whose answer is lost ends as *unknown*.
//!
//! ```
//! use steadfast::Error;
//! use steadfast::http::header::AUTHORIZATION;
//! use steadfast::operation::WireKey;
//! use steadfast::transport::Request;
//! use steadfast::url::Url;
//! use steadfast::vendor::{BaseUrl, Credential, KeyPlace, Vendor};
//!
//! #[derive(Debug)]
//! struct Parcels {
//!     base: BaseUrl,
//!     token: Credential,
//! }
//!
//! impl Vendor for Parcels {
//!     fn name(&self) -> &str {
//!         "parcels"
//!     }
//!     fn base_url(&self) -> &Url {
//!         self.base.url()
//!     }
//!     fn check(&self) -> Result<(), Error> {
//!         self.token.check()?;
//!         self.base.check()
//!     }
//!     fn authorize(&self, request: &mut Request) {
//!         self.token.put(AUTHORIZATION, &mut request.headers);
//!     }
//!     fn stamp(&self, wire_key: WireKey, request: &mut Request) -> Result<String, Error> {
//!         let key = wire_key.to_string();
//!         KeyPlace::Body("reference".to_owned()).put(&key, request)?;
//!         Ok(key)
//!     }
//! }
//!
//! let parcels = Parcels {
//!     base: BaseUrl::new("https://api.parcels.example"),
//!     token: Credential::new("Token ", "a-token"),
//! };
//! parcels.check()?;
//! # #[cfg(feature = "testkit")]
//! assert_eq!(steadfast::testkit::conformance::vendor(&parcels).breaches(), []);
//! # Ok::<(), Error>(())
//! ```
//!
//! Where the vendor documents that it replays a key, say so in [`Vendor::replay_window`]. Where an effect can be found
//! by the key, add [`Vendor::lookup`], [`Vendor::read_lookup`] and [`Vendor::settle_time`]. Compare a hit with the
//! [request](Subject::request): the key alone does not distinguish it from another service's. Ask for what was archived
//! too, and say so in [`Vendor::lists_deleted`]. Where a PUT or a DELETE must not be repeated, say so in
//! [`Vendor::is_idempotent`]. Where the vendor's own failures have a mark, check it in [`Vendor::is_own`]. Where
//! requests carry what no reader should be shown, such as a card's number, name the fields in [`Vendor::redacted`]. The
//! suite `testkit::conformance` puts the adapter through every status, failure, replay and wait, and names the rule
//! that it breaks.

mod adyen;
mod bigcommerce;
mod keyed;
mod postmark;
#[cfg(test)]
mod rig;
#[cfg(test)]
mod shown;
mod stripe;

pub use adyen::Adyen;
pub use bigcommerce::BigCommerce;
pub(crate) use bigcommerce::STORE_HASH_FOUND;
pub(crate) use keyed::PRESETS;
pub use keyed::{Keyed, KeyedConfig};
pub use postmark::Postmark;
#[doc(inline)]
pub use steadfast_core::vendor::{
    Attempt, BaseUrl, Credential, Finding, KeyPlace, SpeaksFor, Subject, Vendor, Verdict, is_idempotent,
    is_plain, rules, wait,
};
pub use stripe::Stripe;
