//! The behaviour that the fake can be told to change. A builder's method and its field have one name, and so has the
//! plan file of `steadfast fakes`.

use std::collections::BTreeSet;
use std::time::Duration;

use serde::Deserialize;

use super::super::builder::Written;
use super::parts::Batches;

/// Each is told of at the builder's method of its name.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(in super::super) struct BigCommerceSettings {
    /// How long a write stays out of lookups.
    #[serde(with = "humantime_serde")]
    pub(in super::super) apply_after: Duration,
    /// How long a refund is pending.
    #[serde(with = "humantime_serde")]
    pub(in super::super) refund_pending: Duration,
    /// Whether the reasons of a refund's items are not kept.
    pub(in super::super) drops_refund_reasons: bool,
    /// Whether what can be applied of a batch is applied, and the answer says so.
    pub(in super::super) partial_batches: bool,
    /// The same, and the answer does not say so.
    pub(in super::super) partial_batches_unsaid: bool,
    /// Whether an order is answered with 200.
    pub(in super::super) orders_answer_ok: bool,
    /// Whether an order shows no refunded amount.
    pub(in super::super) refunded_amount_stays_zero: bool,
    /// Products that a store begins with.
    pub(in super::super) product: BTreeSet<u32>,
    /// Customers that a store begins with.
    pub(in super::super) customer: BTreeSet<u32>,
    /// Whether products of orders and carts, and customers of carts, must be the store's.
    pub(in super::super) refuse_unknown_ids: bool,
    /// Whether an order takes its stock when it is shipped or completed.
    pub(in super::super) stock_at_shipment: bool,
    /// Whether an order that is refunded or cancelled gives its stock back.
    pub(in super::super) returned_orders_restock: bool,
    /// Whether an edit of an order's products takes and gives back its stock.
    pub(in super::super) edited_orders_restock: bool,
    /// Orders that a store begins with.
    pub(in super::super) order: BTreeSet<u32>,
    /// Carts that a store begins with.
    pub(in super::super) cart: BTreeSet<String>,
    /// Requests per window.
    pub(in super::super) quota: Option<u32>,
}

impl BigCommerceSettings {
    pub(super) fn batches(&self) -> Batches {
        match (self.partial_batches, self.partial_batches_unsaid) {
            (false, false) => Batches::Whole,
            (true, _) => Batches::InPart,
            (false, true) => Batches::InPartUnsaid,
        }
    }
}

impl Written for BigCommerceSettings {
    fn check(&self) -> Result<(), &'static str> {
        if self.partial_batches && self.partial_batches_unsaid {
            return Err("partial_batches and partial_batches_unsaid exclude each other");
        }
        Ok(())
    }
}
