//! BigCommerce: no keys at all, a uniqueness rule here and there, and lookups by what the client wrote itself.
//!
//! The fake ignores `Idempotency-Key` on purpose: a repeat executes. Whether the second is refused depends on
//! the resource, and where the documentation is silent (two orders with one `external_order_id`) it is not.
//! A 504 executes first: the documentation advises to retry one and does not say what became of the write.

use std::sync::Arc;
use std::time::Duration;

use self::machine::Machine;
pub(super) use self::settings::BigCommerceSettings;
use super::builder::FakeBuilder;
use super::serve::Served;
use super::shared::shared_by_fakes;

mod answers;
mod bodies;
mod carts;
mod changes;
mod contract;
mod customers;
mod edits;
mod fields;
mod hooks;
mod items;
mod keys;
mod lines;
mod machine;
mod orders;
mod parents;
mod parts;
mod payments;
mod quota;
mod refunds;
mod routes;
mod settings;
mod shares;
mod shipments;
mod stock;
mod taking;
mod totals;
mod writes;

pub use answers::BigCommerceAnswer;

/// A BigCommerce store that counts what was made in it.
///
/// ```
/// use serde_json::json;
/// use steadfast::Client;
/// use steadfast::testkit::{Fault, TestClock, fakes::BigCommerceFake};
/// use steadfast::vendor::BigCommerce;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), steadfast::Error> {
/// let clock = TestClock::auto();
/// let fake = BigCommerceFake::builder().test_clock(&clock).start().await;
/// fake.plan().next(Fault::DropAfterApply); // The order is made, and its answer lost.
///
/// // The code under test, with a client of the fake.
/// let vendor = BigCommerce::new("abc123", "a-token").base_url(fake.url());
/// let store = Client::builder(vendor).clock(clock).build()?;
/// let order = json!({
///     "billing_address": {"first_name": "Jane", "last_name": "Doe", "zip": "12345"},
///     "products": [{"product_id": 1, "quantity": 1}],
/// });
/// store.post("/v2/orders").key("order-42").json(&order).send().await?;
///
/// assert_eq!((fake.plan().pending(), fake.ledger().count()), (0, 1));
/// # Ok(())
/// # }
/// ```
///
/// | request | what happens | wire key in the ledger |
/// |---|---|---|
/// | `POST /v2/orders` | another order each time; 400 without products or a billing address | `external_order_id` |
/// | `POST /v3/checkouts/{id}/orders` | another order of that cart each time; 404 without one | the cart's id |
/// | `POST /v3/catalog/products`, `/brands`, `/categories` | 409 for a second of that name (or `sku`) | `sku`, else `name` |
/// | `POST /v3/customers` | up to 10 at once; 422 for all if one e-mail exists, by default | `email` |
/// | `POST /v3/pricelists`, `/v2/coupons` | 409 for a second of that name, or code | `name`, `code` |
/// | `POST /v3/orders/{id}/payment_actions/refunds` | another refund each time, of at most what the order is of; 404 without one, 422 without `payments` | the UUID in `reason`, else all of it |
/// | `POST /v3/orders/{id}/payment_actions/refund_quotes` | what a refund would come to; no effect | none |
/// | `POST /payments` | a payment of an order with the status Incomplete (0); error 30101 for another | the payment access token |
/// | `POST` of carts, shipments, inventory adjustments | another each time; 422 (400 in V2) without items | none |
/// | `POST` of the store's other resources | another each time | none |
///
/// `GET` on the same paths lists and filters, or reads one by its id; `PUT …/{id}` and `DELETE …/{id}` change
/// and remove. V2 counts (`…/count`); V3 changes several (`PUT` of an array) and removes them (`DELETE …?id:in=`). The
/// refunds of an order add up to its total at most. All paths are below `/stores/{hash}` and need `X-Auth-Token`; payments
/// need `Authorization: PAT …`, as `POST /v3/payments/access_tokens` gives it.
///
/// An order follows what is done with it, as documented. A shipment makes it Shipped or Partially Shipped, and a refund
/// Refunded or Partially Refunded. A payment makes it Awaiting Fulfillment, and ends its cart. An inventory adjustment
/// changes the stock of its product.
///
/// An order comes to its products, its shipping, handling and wrapping, less its discount. A request may set the subtotal
/// and the total instead. A `PUT` of products or of costs computes the order anew. The store has no rules of tax: tax is
/// the difference of the prices that a request gives, and it is not below zero. A refund gives the tax of its items back.
/// An order that is Incomplete is not refunded, and none is edited to less than was refunded.
///
/// A product without options is sold as its base variant, which has the product's SKU, price and stock.
///
/// An order takes the stock of the products and variants that are tracked, once it has another status than Incomplete. One
/// that asks for more than there is, or for less or more than a product's `order_quantity_minimum` and
/// `order_quantity_maximum`, is refused. When stock is taken, whether it is given back, and whether an edit moves it, are
/// settings of a store. A cart takes no stock.
///
/// The fake refuses everything that it does not know. A path that is not the store's is a 404, and so is one below an
/// order, a product, a customer or a cart that the store does not hold. A method that the path does not have is a 405.
/// A member of a body that the specification does not list is 422 in V3 and 400 in V2. So is a required one that is
/// missing, and one of another kind. A member that the specification calls read-only is left out, or refused where
/// that is documented. An order of a customer that the store does not hold is refused. Whether its products exist is
/// asked with [`refuse_unknown_ids`](FakeBuilder::refuse_unknown_ids) alone. A webhook's scope that the fake never
/// fires is refused.
///
/// A query parameter that BigCommerce's specification does not list for the route is 422 in V3 and 400 in V2.
/// So is one that it lists and the fake does not implement; the text tells which. BigCommerce documents such a refusal for
/// channels, and V2 was seen to refuse. For most V3 lists nothing is documented, and a filter may be ignored there. A fake
/// that ignored it would show everything, and hide a misspelt lookup.
///
/// A product whose stock is below zero, or whose URL cannot be, is saved without it and answered with 207, as documented.
/// A batch with a refused item is refused as a whole: see [`partial_batches`](FakeBuilder::partial_batches).
#[derive(Debug)]
pub struct BigCommerceFake {
    served: Served,
    machine: Arc<Machine>,
}

impl BigCommerceFake {
    /// The base URL, `http://127.0.0.1:{port}`, without `/stores/{hash}`.
    pub fn url(&self) -> String {
        self.served.url()
    }
}

impl FakeBuilder<BigCommerceFake> {
    /// How long a write takes to show in lookups, as if it were still under way. It is in the ledger, and
    /// refuses duplicates, at once: a client that looks up too early sees nothing and must not believe it.
    /// Default: zero.
    pub fn apply_after(mut self, lag: Duration) -> Self {
        self.settings.bigcommerce.apply_after = lag;
        self
    }

    /// How long a refund stays pending; a second one for the same order is refused with 422 meanwhile ("not
    /// yet supported", say the documents; status and words are composed). Default: zero, never refused.
    pub fn refund_pending(mut self, pending: Duration) -> Self {
        self.settings.bigcommerce.refund_pending = pending;
        self
    }

    /// Takes the reasons of a refund's items and does not show them again: that they are kept is not documented.
    /// Default: they are kept.
    pub fn drops_refund_reasons(mut self) -> Self {
        self.settings.bigcommerce.drops_refund_reasons = true;
        self
    }

    /// Applies what can be applied of a batch, and answers 207 where the store refuses an item. `data` has the items that
    /// were applied, `errors` the refusals. A batch is a `POST` or `PUT` of customers or addresses, or a `PUT` of products.
    ///
    /// Whether BigCommerce does so is not documented. The specification has a 207 for products whose stock or URL was not
    /// saved, and none for customers. Default: one refused item refuses the batch.
    pub fn partial_batches(mut self) -> Self {
        self.settings.bigcommerce.partial_batches = true;
        self.settings.bigcommerce.partial_batches_unsaid = false;
        self
    }

    /// Applies what can be applied of a batch, and answers the first refusal (422 or 409) without a word on the items that
    /// were applied. It is the worst that the documentation leaves open. Default: see
    /// [`partial_batches`](Self::partial_batches).
    pub fn partial_batches_unsaid(mut self) -> Self {
        self.settings.bigcommerce.partial_batches = false;
        self.settings.bigcommerce.partial_batches_unsaid = true;
        self
    }

    /// Answers a `POST` of an order with 200, as the specification has it. Default: 201, as published answers have it.
    pub fn orders_answer_ok(mut self) -> Self {
        self.settings.bigcommerce.orders_answer_ok = true;
        self
    }

    /// Shows an order's `refunded_amount` as zero whatever was refunded: the specification of 2026-04 says that it "always
    /// returns `0`". Default: what was refunded so far, as BigCommerce's guide for migrations has it.
    pub fn refunded_amount_stays_zero(mut self) -> Self {
        self.settings.bigcommerce.refunded_amount_stays_zero = true;
        self
    }

    /// A product that every store holds from the beginning. It has the SKU `SKU-{id}`, the price 10 and a stock of a
    /// thousand. Products that are made get later ids. Default: a store begins empty.
    pub fn product(mut self, id: u32) -> Self {
        self.settings.bigcommerce.product.insert(id);
        self
    }

    /// A customer that every store holds from the beginning, with the e-mail address `customer-{id}@example.com`. Customers
    /// that are made get later ids. Default: a store begins empty.
    pub fn customer(mut self, id: u32) -> Self {
        self.settings.bigcommerce.customer.insert(id);
        self
    }

    /// Refuses an order or a cart of a product that the store does not hold, and a cart of such a customer: 400 in V2 and
    /// 422 in V3. BigCommerce does not document whether it does. Default: such a product costs nothing where the request
    /// does not price it.
    pub fn refuse_unknown_ids(mut self) -> Self {
        self.settings.bigcommerce.refuse_unknown_ids = true;
        self
    }

    /// Takes the stock of an order when it is shipped or completed. That is the store's setting `update_stock_behavior` at
    /// BigCommerce. Default: when it is placed, which is when it has another status than Incomplete.
    pub fn stock_at_shipment(mut self) -> Self {
        self.settings.bigcommerce.stock_at_shipment = true;
        self
    }

    /// Gives the stock of an order back when its status becomes Refunded or Cancelled. That is the store's setting
    /// `refund_order_stock_adjustment` at BigCommerce. Its guide to refunds says that a refund by API gives nothing back.
    /// Default: nothing is given back.
    pub fn returned_orders_restock(mut self) -> Self {
        self.settings.bigcommerce.returned_orders_restock = true;
        self
    }

    /// Takes and gives back stock when a `PUT` changes an order's products. That is the store's setting
    /// `edit_order_stock_adjustment` at BigCommerce. Default: such an edit moves no stock that is taken, as BigCommerce's
    /// guide to orders has it. An order that has not taken its stock yet takes what it is of by then.
    pub fn edited_orders_restock(mut self) -> Self {
        self.settings.bigcommerce.edited_orders_restock = true;
        self
    }

    /// An order that every store holds from the beginning, to be refunded or shipped. A `PUT` of the status 0 lets it be
    /// paid. It is of the products 1 to 50, a thousand of each at 10.0000, and goes to the address 1. It takes no stock. It
    /// is no effect, so the ledger does not know it. Orders that are made get later ids. Default: a store begins empty.
    pub fn order(mut self, id: u32) -> Self {
        self.settings.bigcommerce.order.insert(id);
        self
    }

    /// A cart that every store holds from the beginning, to be checked out. It is of one product at 10.0000. Default: a
    /// store begins empty.
    pub fn cart(mut self, id: impl Into<String>) -> Self {
        self.settings.bigcommerce.cart.insert(id.into());
        self
    }

    /// Requests allowed per 30 s, the store's window; further ones get a 429. Default: no limit.
    pub fn quota(mut self, requests: u32) -> Self {
        self.settings.bigcommerce.quota = Some(requests);
        self
    }
}

shared_by_fakes!(BigCommerceFake, BigCommerceAnswer, bigcommerce, items);
