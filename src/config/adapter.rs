//! The adapters' tables: what the file may say of each, and the adapter made of it.
//!
//! A key that is left out stays `None` and the adapter's own default holds, so that a number is written in one
//! place only: beside the reason for it.

use std::time::Duration;

use humantime_serde::Serde;
use secrecy::SecretString;
use serde::Deserialize;
use serde::de::IntoDeserializer;

use crate::client::{Client, ClientBuilder};
use crate::vendor::{Adyen, BigCommerce, Keyed, KeyedConfig, PRESETS, Postmark, Stripe};

/// Kind of adapter whose rules a vendor's calls follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Kind {
    Stripe,
    Postmark,
    BigCommerce,
    Adyen,
    Keyed,
    Checkout,
    GoCardless,
    Increase,
    PayPal,
    Plaid,
    Resend,
    Square,
}

impl Kind {
    /// The kind that a table's name stands for.
    pub(super) fn named(name: &str) -> Option<Kind> {
        Kind::deserialize(name.into_deserializer()).map_err(|_: serde::de::value::Error| ()).ok()
    }

    /// Returns the preset of a keyed vendor, for the kinds that are presets.
    pub(super) fn preset(self) -> Option<&'static str> {
        PRESETS.iter().find(|(name, _)| Kind::named(name) == Some(self)).map(|(_, text)| *text)
    }

    /// Names of the kinds with an adapter of their own.
    pub(super) const OWN: [&'static str; 4] = ["stripe", "postmark", "bigcommerce", "adyen"];

    /// All of them: those with an adapter of their own, `keyed`, and the presets of it.
    pub(super) fn names() -> impl Iterator<Item = &'static str> {
        Kind::OWN.into_iter().chain(["keyed"]).chain(PRESETS.iter().map(|(name, _)| *name))
    }
}

/// Adapter of one vendor, all but its secret.
#[derive(Clone, Debug)]
pub(super) enum Adapter {
    Stripe(StripeTable),
    Postmark(PostmarkTable),
    BigCommerce(BigCommerceTable),
    Adyen(AdyenTable),
    Keyed(Box<KeyedConfig>),
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct StripeTable {
    base_url: Option<String>,
    account: Option<String>,
    api_version: Option<String>,
    replay_window: Option<Serde<Duration>>,
    settle_time: Option<Serde<Duration>>,
    lookup_by_metadata: Option<Vec<String>>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct PostmarkTable {
    api: Option<Api>,
    base_url: Option<String>,
    account: Option<String>,
    message_id: Option<bool>,
    message_id_domain: Option<String>,
    settle_time: Option<Serde<Duration>>,
}

/// Owner of the token at Postmark.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Api {
    Server,
    Account,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct BigCommerceTable {
    store_hash: String,
    base_url: Option<String>,
    settle_time: Option<Serde<Duration>>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct AdyenTable {
    live_prefix: Option<String>,
    base_url: Option<String>,
    account: Option<String>,
    replay_window: Option<Serde<Duration>>,
}

impl Adapter {
    /// Whether it sends a secret at all.
    pub(super) fn needs_secret(&self) -> bool {
        match self {
            Adapter::Keyed(config) => config.needs_secret(),
            _ => true,
        }
    }

    /// A builder of the client that uses this adapter.
    pub(super) fn builder(&self, secret: SecretString) -> ClientBuilder {
        match self {
            Adapter::Stripe(table) => Client::builder(table.adapter(secret)),
            Adapter::Postmark(table) => Client::builder(table.adapter(secret)),
            Adapter::BigCommerce(table) => Client::builder(table.adapter(secret)),
            Adapter::Adyen(table) => Client::builder(table.adapter(secret)),
            Adapter::Keyed(config) => Client::builder(Keyed::new((**config).clone(), secret)),
        }
    }
}

impl StripeTable {
    fn adapter(&self, secret: SecretString) -> Stripe {
        let mut stripe = Stripe::new(secret);
        if let Some(url) = &self.base_url {
            stripe = stripe.base_url(url);
        }
        if let Some(account) = &self.account {
            stripe = stripe.account(account);
        }
        if let Some(version) = &self.api_version {
            stripe = stripe.api_version(version);
        }
        if let Some(window) = self.replay_window {
            stripe = stripe.replay_window(window.into_inner());
        }
        if let Some(time) = self.settle_time {
            stripe = stripe.settle_time(time.into_inner());
        }
        if let Some(routes) = &self.lookup_by_metadata {
            stripe = stripe.lookup_by_metadata(routes);
        }
        stripe
    }
}

impl PostmarkTable {
    fn adapter(&self, secret: SecretString) -> Postmark {
        let mut postmark = match self.api {
            Some(Api::Account) => Postmark::account_api(secret),
            Some(Api::Server) | None => Postmark::new(secret),
        };
        if let Some(url) = &self.base_url {
            postmark = postmark.base_url(url);
        }
        if let Some(account) = &self.account {
            postmark = postmark.account(account);
        }
        if let Some(domain) = &self.message_id_domain {
            postmark = postmark.message_id_domain(Some(domain));
        }
        if self.message_id == Some(false) {
            postmark = postmark.message_id_domain(None);
        }
        if let Some(time) = self.settle_time {
            postmark = postmark.settle_time(time.into_inner());
        }
        postmark
    }
}

impl BigCommerceTable {
    fn adapter(&self, secret: SecretString) -> BigCommerce {
        let mut bigcommerce = BigCommerce::new(&self.store_hash, secret);
        if let Some(url) = &self.base_url {
            bigcommerce = bigcommerce.base_url(url);
        }
        if let Some(time) = self.settle_time {
            bigcommerce = bigcommerce.settle_time(time.into_inner());
        }
        bigcommerce
    }
}

impl AdyenTable {
    fn adapter(&self, secret: SecretString) -> Adyen {
        let mut adyen = Adyen::new(secret);
        if let Some(prefix) = &self.live_prefix {
            adyen = adyen.live(prefix);
        }
        if let Some(url) = &self.base_url {
            adyen = adyen.base_url(url);
        }
        if let Some(account) = &self.account {
            adyen = adyen.account(account);
        }
        if let Some(window) = self.replay_window {
            adyen = adyen.replay_window(window.into_inner());
        }
        adyen
    }
}
