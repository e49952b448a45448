//! The refusals of the Stripe fake, route by route, and that nothing is left of what it refused.

use std::collections::BTreeMap;

use http::Method;
use serde_json::{Map, Value, json};
use steadfast_fakes::StripeFake;

use support::answers::{self, shows, told};

/// A fake with one of everything, each under a name that paths and forms below use in braces.
struct Shop {
    fake: StripeFake,
    client: reqwest::Client,
    ids: BTreeMap<&'static str, String>,
}

impl Shop {
    async fn open() -> Shop {
        let (fake, client) = (StripeFake::start().await, answers::client());
        let mut shop = Shop { fake, client, ids: BTreeMap::new() };
        // The events for the webhooks wait, and can be counted.
        shop.ask(Method::POST, "/_fake/webhooks", r#"{"hold": true}"#).await;
        for [name, path, form] in rows(STOCK) {
            let (status, made) = shop.ask(Method::POST, path, form).await;
            assert_eq!(status, 200, "{name}: {made}");
            shop.ids.insert(name, made["id"].as_str().unwrap().to_owned());
        }
        shop
    }

    fn filled(&self, text: &str) -> String {
        self.ids.iter().fold(text.to_owned(), |text, (name, id)| text.replace(&format!("{{{name}}}"), id))
    }

    /// The status and the body of an answer.
    async fn ask(&self, method: Method, path: &str, form: &str) -> (u16, Value) {
        let url = format!("{}{}", self.fake.url(), self.filled(path));
        let request = self.client.request(method, url).bearer_auth("sk_test_123");
        let request = request.header("Content-Type", "application/x-www-form-urlencoded");
        told(request.body(self.filled(form))).await
    }

    /// Everything that anybody can see of what took effect.
    async fn seen(&self) -> BTreeMap<String, Value> {
        let contract: Map<String, Value> =
            serde_json::from_str(include_str!("../../fixtures/stripe_contract.json")).unwrap();
        let mut seen = BTreeMap::new();
        for name in contract.keys().filter(|name| *name != "_about") {
            let (status, page) = self.ask(Method::GET, &format!("/v1/{name}?limit=100"), "").await;
            // Of the events the newest are enough: another one would come first.
            assert!(status == 200 && (page["has_more"] == false || name == "events"), "{name}: {page}");
            seen.insert(name.clone(), page);
        }
        for path in ["/v1/balance", "/_fake/webhooks", "/_fake/ledger"] {
            let (_, mut page) = self.ask(Method::GET, path, "").await;
            if let Some(ledger) = page.as_object_mut() {
                // How often something was asked for is no effect.
                ledger.retain(|name, _| !name.contains("requests"));
            }
            seen.insert(path.to_owned(), page);
        }
        seen
    }
}

const STOCK: &str = "
endpoint | /v1/webhook_endpoints | url=http://192.0.2.1/&enabled_events[]=*
customer | /v1/customers | payment_method=pm_card_visa
poor | /v1/customers | name=Poor
method | /v1/payment_methods | type=card&card[token]=tok_visa
declined | /v1/payment_methods | type=card&card[token]=tok_chargeDeclined
owned | /v1/payment_methods | type=card&card[token]=tok_visa
owned | /v1/payment_methods/{owned}/attach | customer={customer}
charge | /v1/charges | amount=1000&currency=usd
uncaptured | /v1/charges | amount=1000&currency=usd&capture=false
refund | /v1/refunds | charge={charge}&amount=100
open | /v1/payment_intents | amount=1000&currency=usd&payment_method_types[]=card
ready | /v1/payment_intents | amount=1000&currency=usd&payment_method={declined}&payment_method_types[]=card
held | /v1/payment_intents | amount=1000&currency=usd&capture_method=manual&payment_method=pm_card_visa&confirm=true&payment_method_types[]=card
setup | /v1/setup_intents | customer={customer}&payment_method_types[]=card
product | /v1/products | name=P
other_product | /v1/products | name=Q
price | /v1/prices | product={product}&currency=usd&unit_amount=500&recurring[interval]=month&lookup_key=k
yearly | /v1/prices | product={product}&currency=usd&unit_amount=500&recurring[interval]=year
euros | /v1/prices | product={product}&currency=eur&unit_amount=500&recurring[interval]=month
once | /v1/prices | product={product}&currency=usd&unit_amount=500
tenths | /v1/prices | product={product}&currency=usd&unit_amount_decimal=0.1&recurring[interval]=month
draft | /v1/invoices | customer={poor}
item | /v1/invoiceitems | customer={poor}&invoice={draft}&amount=700&currency=usd
subscription | /v1/subscriptions | customer={customer}&default_payment_method={owned}&items[0][price]={price}
payout | /v1/payouts | amount=5&currency=usd
topup | /v1/topups | amount=5&currency=usd
account | /v1/accounts | type=express
transfer | /v1/transfers | amount=5&currency=usd&destination={account}
coupon | /v1/coupons | percent_off=10&duration=once
";

/// The lines of a table but for its comments, each in so many cells.
fn rows<const N: usize>(table: &str) -> impl Iterator<Item = [&str; N]> {
    let lines = table.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines.map(|line| line.split('|').map(str::trim).collect::<Vec<_>>().try_into().unwrap())
}

/// Each line of the table is a refused request: method and path, form, and status, code and parameter of its refusal.
async fn are_refused(table: &str) {
    let shop = Shop::open().await;
    let before = shop.seen().await;
    for [route, form, refusal] in rows(table) {
        let (method, path) = route.split_once(' ').unwrap();
        let (told, body) = shop.ask(method.parse().unwrap(), path, form).await;
        let error = &body["error"];
        let [code, param] = ["code", "param"].map(|name| error[name].as_str().unwrap_or("-"));
        assert_eq!(format!("{told} {code} {param}"), refusal, "{route} {form}: {body}");
        assert!(error["message"].is_string() && error["type"].is_string(), "{route} {form}: {body}");
        for (what, now) in shop.seen().await {
            assert_eq!(now, before[&what], "{route} {form}: {what}");
        }
    }
}

#[tokio::test]
async fn what_a_payment_cannot_be_is_refused_and_leaves_nothing() {
    are_refused(PAYMENTS).await;
}

const PAYMENTS: &str = "
POST /v1/charges | currency=usd | 400 parameter_missing amount
POST /v1/charges | amount=1 | 400 parameter_missing currency
POST /v1/charges | amount=1&currency=usx | 400 - currency
POST /v1/charges | amount=-1&currency=usd | 400 parameter_invalid_integer amount
POST /v1/charges | amount=1.5&currency=usd | 400 parameter_invalid_integer amount
POST /v1/charges | amount=1&currency=usd&shipping[x]=1 | 400 parameter_unknown shipping[x]
POST /v1/charges | amount=1&currency=usd&shipping=x | 400 - shipping
POST /v1/charges | amount=1&currency=usd&capture=yes | 400 - capture
POST /v1/charges | amount=1&currency=usd&customer=cus_none | 400 resource_missing customer
POST /v1/charges/ch_none/launch | | 404 - -
POST /v1/refunds | charge=ch_none | 400 resource_missing charge
POST /v1/refunds | amount=1 | 400 parameter_missing charge
POST /v1/charges | amount=49&currency=usd | 400 amount_too_small amount
POST /v1/charges | amount=29&currency=GBP | 400 amount_too_small amount
POST /v1/charges | amount=0&currency=usd | 400 parameter_invalid_integer amount
POST /v1/charges | amount=100&currency=usd&source=tok_none | 400 resource_missing source
POST /v1/charges | amount=100&currency=usd&on_behalf_of=acct_none | 400 resource_missing on_behalf_of
POST /v1/charges | amount=100&currency=usd&application_fee_amount=1 | 400 parameter_unknown application_fee_amount
POST /v1/charges/{charge} | customer=cus_none | 400 resource_missing customer
POST /v1/charges/{uncaptured}/capture | amount=1001 | 400 amount_too_large amount
POST /v1/charges/{uncaptured}/capture | amount=1000&colour=red | 400 parameter_unknown colour
POST /v1/charges/{charge}/capture | | 400 charge_already_captured -
POST /v1/charges/{charge}/refund | charge={charge} | 400 parameter_unknown charge
POST /v1/charges/{charge}/refunds | amount=901 | 400 - amount
POST /v1/refunds | charge={charge}&payment_intent={held} | 400 parameters_exclusive charge
POST /v1/refunds | charge={charge}&currency=usd | 400 parameter_unknown currency
POST /v1/refunds | charge={charge}&reverse_transfer=true | 400 charge_without_transfer -
POST /v1/refunds/{refund} | reason=duplicate | 400 parameter_unknown reason
POST /v1/refunds/{refund}/cancel | | 400 refund_not_cancelable -
POST /v1/payment_intents | amount=49&currency=usd | 400 amount_too_small amount
POST /v1/payment_intents | amount=100&currency=usd&confirm=true | 400 payment_intent_unexpected_state -
POST /v1/payment_intents | amount=100&currency=usd&payment_method=pm_card_visa&customer=cus_none | 400 resource_missing customer
POST /v1/payment_intents | amount=100&currency=usd&mandate=m | 400 parameter_unknown mandate
POST /v1/payment_intents/{open} | amount=49 | 400 amount_too_small amount
POST /v1/payment_intents/{open} | payment_method=pm_none | 400 resource_missing payment_method
POST /v1/payment_intents/{held} | payment_method=pm_card_visa | 400 payment_intent_unexpected_state -
POST /v1/payment_intents/{open}/confirm | | 400 payment_intent_unexpected_state -
POST /v1/payment_intents/{open}/confirm | payment_method=pm_card_visa&description=d | 400 parameter_unknown description
POST /v1/payment_intents/{held}/confirm | payment_method=pm_card_visa | 400 payment_intent_unexpected_state -
POST /v1/payment_intents/{held}/capture | amount_to_capture=1001 | 400 amount_too_large amount_to_capture
POST /v1/payment_intents/{held}/capture | metadata=x | 400 - metadata
POST /v1/payment_intents/{held}/cancel | cancellation_reason=nope | 400 - cancellation_reason
POST /v1/setup_intents | confirm=true | 400 setup_intent_unexpected_state -
POST /v1/setup_intents/{setup} | payment_method=pm_none | 400 resource_missing payment_method
POST /v1/setup_intents/{setup}/confirm | | 400 setup_intent_unexpected_state -
POST /v1/setup_intents/{setup}/cancel | cancellation_reason=fraudulent | 400 - cancellation_reason
";

#[tokio::test]
async fn what_a_customer_and_a_catalogue_cannot_be_is_refused_and_leaves_nothing() {
    are_refused(CATALOGUE).await;
}

const CATALOGUE: &str = "
POST /v1/customers | payment_method=pm_card_visa&source=tok_none | 400 resource_missing source
POST /v1/customers | payment_method=pm_card_visa&source=tok_chargeDeclined | 402 card_declined -
POST /v1/customers | payment_method={owned} | 400 payment_method_already_attached -
POST /v1/customers | balance=5 | 400 parameter_unknown balance
POST /v1/customers | payment_method=pm_card_visa&invoice_settings[default_payment_method]={method} | 400 resource_missing invoice_settings[default_payment_method]
POST /v1/customers/{customer} | invoice_settings[default_payment_method]={method} | 400 resource_missing invoice_settings[default_payment_method]
POST /v1/customers/{customer} | source=tok_visa | 400 parameter_unknown source
POST /v1/customers/{customer} | default_source=card_1 | 400 parameter_unknown default_source
POST /v1/payment_methods | type=card&card[number]=1 | 402 incorrect_number card[number]
POST /v1/payment_methods | type=card&card[token]=tok_visa&customer={customer} | 400 parameter_unknown customer
POST /v1/payment_methods/{method}/attach | customer=cus_none | 400 resource_missing customer
POST /v1/payment_methods/{owned}/attach | customer={poor} | 400 payment_method_already_attached -
POST /v1/payment_methods/{declined}/attach | customer={customer} | 402 card_declined -
POST /v1/payment_methods/{owned}/detach | colour=red | 400 parameter_unknown colour
POST /v1/payment_methods/{method}/detach | | 400 payment_method_not_attached -
POST /v1/products | name=P&default_price_data[currency]=usd | 400 parameter_missing default_price_data[unit_amount]
POST /v1/products | name=P&default_price_data[currency]=usx&default_price_data[unit_amount]=1 | 400 - default_price_data[currency]
POST /v1/products | name=P&id={product} | 400 resource_already_exists id
POST /v1/products/{product} | default_price=price_none | 400 resource_missing default_price
POST /v1/products/{other_product} | default_price={price} | 400 - default_price
POST /v1/prices | currency=usd&product_data[name]=P | 400 parameter_missing unit_amount
POST /v1/prices | currency=usd&product_data[name]=P&unit_amount=-1 | 400 parameter_invalid_integer unit_amount
POST /v1/prices | currency=usd&product_data[name]=P&product_data[id]={product}&unit_amount=1 | 400 resource_already_exists product_data[id]
POST /v1/prices | currency=usd&product={product}&product_data[name]=P&unit_amount=1 | 400 parameters_exclusive product
POST /v1/prices | currency=usd&product=prod_none&unit_amount=1 | 400 resource_missing product
POST /v1/prices | currency=usd&product_data[name]=P&unit_amount=1&lookup_key=k | 400 - lookup_key
POST /v1/prices | currency=usd&product={product}&billing_scheme=tiered | 400 - billing_scheme
POST /v1/prices/{once} | lookup_key=k | 400 - lookup_key
POST /v1/plans | currency=usd&interval=month&product={product} | 400 parameter_missing amount
POST /v1/plans | currency=usd&interval=month&amount=-1&product={product} | 400 parameter_invalid_integer amount
POST /v1/plans | currency=usd&interval=month&amount=5&product=prod_none | 400 resource_missing product
POST /v1/coupons | percent_off=5&duration=once&applies_to[products][]=prod_none | 400 resource_missing applies_to[products][0]
POST /v1/coupons | percent_off=5&amount_off=5&currency=usd | 400 parameters_exclusive percent_off
POST /v1/promotion_codes | promotion[type]=coupon&promotion[coupon]=none | 400 resource_missing promotion[coupon]
POST /v1/promotion_codes | promotion[type]=coupon | 400 parameter_missing promotion[coupon]
POST /v1/tax_rates | display_name=T&inclusive=true&percentage=a lot | 400 - percentage
POST /v1/shipping_rates | display_name=S&fixed_amount[amount]=1&fixed_amount[currency]=usx | 400 - fixed_amount[currency]
POST /v1/accounts | type=huge | 400 - type
POST /v1/webhook_endpoints | url=http://127.0.0.1/ | 400 parameter_missing enabled_events
POST /v1/webhook_endpoints | url=http://127.0.0.1/&enabled_events[]=*&connect=true | 400 parameter_unknown connect
POST /v1/webhook_endpoints/{endpoint} | disabled=perhaps | 400 - disabled
POST /v1/webhook_endpoints | url=http://127.0.0.1/&enabled_events[]=charge.succeeded&enabled_events[]=charge.exploded | 400 - enabled_events[1]
POST /v1/webhook_endpoints | url=http://127.0.0.1/&enabled_events[]=payment_intent.updated | 400 - enabled_events[0]
POST /v1/webhook_endpoints/{endpoint} | enabled_events[]=v1.charge.succeeded | 400 - enabled_events[0]
POST /v1/webhook_endpoints | url=shop&enabled_events[]=* | 400 url_invalid url
POST /v1/webhook_endpoints | url=localhost:80/&enabled_events[]=* | 400 url_invalid url
POST /v1/webhook_endpoints | url=ftp://shop.test/&enabled_events[]=* | 400 url_invalid url
POST /v1/webhook_endpoints | url=http://&enabled_events[]=* | 400 url_invalid url
POST /v1/webhook_endpoints/{endpoint} | url=shop | 400 url_invalid url
# The fake has no test clocks.
POST /v1/test_helpers/test_clocks | frozen_time=1800000000 | 404 - -
POST /v1/test_helpers/test_clocks/clock_1/advance | frozen_time=1800000000 | 404 - -
GET /v1/test_helpers/test_clocks | | 404 - -
DELETE /v1/test_helpers/test_clocks/clock_1 | | 404 - -
POST /v1/customers | test_clock=clock_1 | 400 parameter_unknown test_clock
";

#[tokio::test]
async fn what_cannot_be_billed_or_moved_is_refused_and_leaves_nothing() {
    are_refused(BILLING).await;
}

const BILLING: &str = "
POST /v1/subscriptions | customer=cus_none | 400 resource_missing customer
POST /v1/invoices | customer={poor}&discounts[0][coupon]={coupon} | 400 parameter_unknown discounts
POST /v1/invoices | customer={poor}&default_tax_rates[]=txr_none | 400 parameter_unknown default_tax_rates
POST /v1/invoices | customer={poor}&collection_method=send_invoice | 400 parameter_missing days_until_due
POST /v1/invoices | customer={poor}&days_until_due=5 | 400 - days_until_due
POST /v1/invoices | customer={poor}&collection_method=send_invoice&days_until_due=5&due_date=5000000000 | 400 parameters_exclusive days_until_due
POST /v1/invoices | customer={poor}&default_payment_method={owned} | 400 resource_missing default_payment_method
POST /v1/invoices/{draft} | collection_method=send_invoice | 400 parameter_missing days_until_due
POST /v1/invoices/{draft}/pay | | 400 resource_missing -
POST /v1/invoices/{draft}/pay | payment_method=pm_none | 400 resource_missing payment_method
POST /v1/invoices/{draft}/pay | off_session=true | 400 parameter_unknown off_session
POST /v1/invoices/{draft}/void | | 400 invoice_not_editable -
POST /v1/invoices/{draft}/finalize | auto_advance=perhaps | 400 - auto_advance
POST /v1/invoiceitems | customer={poor}&invoice={draft}&amount=5&currency=eur | 400 - currency
POST /v1/invoiceitems | customer={poor}&quantity_decimal=3&pricing[price]={once} | 400 parameter_unknown quantity_decimal
POST /v1/invoiceitems | customer={poor}&quantity=3&amount=5 | 400 parameters_exclusive amount
POST /v1/invoiceitems | customer={poor}&quantity=-3&pricing[price]={once} | 400 parameter_invalid_integer quantity
POST /v1/invoiceitems | customer={poor}&pricing[price]={once}&currency=eur | 400 - currency
POST /v1/invoiceitems | customer={poor}&pricing[price]=price_none | 400 resource_missing pricing[price]
POST /v1/invoiceitems | customer={poor} | 400 parameter_missing amount
POST /v1/invoiceitems | customer={poor}&amount=-100000000 | 400 amount_too_large amount
POST /v1/invoiceitems | customer={poor}&unit_amount_decimal=0.5 | 400 - unit_amount_decimal
POST /v1/invoiceitems/{item} | quantity=2 | 400 - quantity
POST /v1/invoiceitems/{item} | pricing[price]={euros} | 400 - pricing[price]
POST /v1/subscriptions | customer={customer} | 400 parameter_missing items
POST /v1/subscriptions | customer={customer}&items[0][price]={price}&items[1][price]=price_none | 400 resource_missing items[1][price]
POST /v1/subscriptions | customer={customer}&items[0][price]={price}&items[1][price]={euros} | 400 - items[1][price]
POST /v1/subscriptions | customer={customer}&items[0][price]={once} | 400 - items[0][price]
POST /v1/subscriptions | customer={customer}&items[0][price]={tenths} | 400 - items[0][price]
POST /v1/subscriptions | customer={customer}&items[0][price]={price}&default_payment_method={method} | 400 resource_missing default_payment_method
POST /v1/subscriptions | customer={customer}&items[0][price]={price}&collection_method=send_invoice | 400 parameter_missing days_until_due
POST /v1/subscriptions | customer={customer}&items[0][price]={price}&trial_end=5 | 400 - trial_end
POST /v1/subscriptions | customer={poor}&items[0][price]={price}&payment_behavior=error_if_incomplete | 400 resource_missing -
POST /v1/subscriptions/{subscription} | items[0][price]={price}&items[1][id]=si_none | 400 resource_missing items[1][id]
POST /v1/subscriptions/{subscription} | proration_behavior=perhaps | 400 - proration_behavior
POST /v1/subscriptions/{subscription} | proration_date=5 | 400 parameter_unknown proration_date
POST /v1/subscriptions/{subscription} | trial_end=now | 400 - trial_end
POST /v1/subscriptions/{subscription} | trial_end=5000000000 | 400 - trial_end
POST /v1/subscriptions/{subscription} | items[0][price]={yearly} | 400 - items
POST /v1/subscriptions | customer={customer}&items[0][price]={price}&items[1][price]={yearly} | 400 - items
POST /v1/subscription_items/si_none | quantity=2 | 404 resource_missing id
POST /v1/subscription_items | subscription={subscription}&price={price} | 404 - -
GET /v1/subscription_items/si_none | | 404 resource_missing id
POST /v1/subscription_schedules | customer={customer}&from_subscription={subscription} | 400 parameter_unknown from_subscription
POST /v1/subscription_schedules | end_behavior=release | 400 parameter_missing customer
POST /v1/payouts | amount=5&currency=usd&destination=ba_1 | 400 parameter_unknown destination
POST /v1/payouts | amount=5&currency=usd&method=instant | 400 - method
POST /v1/payouts/{payout}/cancel | colour=red | 400 parameter_unknown colour
POST /v1/topups | amount=5&currency=usd&source=src_1 | 400 parameter_unknown source
POST /v1/transfers | amount=5&currency=usd&destination=acct_none | 400 resource_missing destination
POST /v1/transfers | amount=5&currency=usd&destination={account}&source_transaction=ch_none | 400 resource_missing source_transaction
POST /v1/transfers | amount=1001&currency=usd&destination={account}&source_transaction={charge} | 400 - amount
POST /v1/transfers | amount=5&currency=usd&destination={account}&source_transaction={uncaptured} | 400 - source_transaction
POST /v1/transfers/{transfer}/reversals | amount=6 | 400 - amount
POST /v1/transfers/{transfer}/reversals | description=d | 400 parameter_unknown description
";

#[tokio::test]
async fn a_delete_and_a_read_take_no_parameter_that_they_do_not_know() {
    are_refused(READS).await;
}

const READS: &str = "
POST /v1/spaceships | | 404 - -
POST /v1/balance | | 404 - -
POST /v1/ | | 404 - -
GET /v1/spaceships | | 404 - -
GET /v1/customers/search?query=x | | 404 - -
GET /v1/charges/ch_none | | 404 resource_missing id
GET /v1/charges?colour=red | | 400 parameter_unknown colour
GET /v1/charges?limit=0 | | 400 - limit
GET /v1/charges?starting_after=ch_none | | 400 resource_missing starting_after
GET /v1/charges?created[around]=1 | | 400 parameter_unknown created[around]
# Paths of Stripe's that the fake has not, and no ids.
POST /v1/invoices/create_preview | customer={poor} | 404 - -
POST /v1/invoices/upcoming | | 404 - -
GET /v1/invoices/upcoming/lines | | 404 - -
DELETE /v1/products/search | | 404 - -
DELETE /v1/customers/{customer}?colour=red | | 400 parameter_unknown colour
DELETE /v1/products/{other_product} | colour=red | 400 parameter_unknown colour
DELETE /v1/products/{product} | | 400 product_has_prices -
DELETE /v1/subscriptions/{subscription} | prorate=true | 400 parameter_unknown prorate
DELETE /v1/subscriptions/{subscription} | expand[]=status | 400 - expand
DELETE /v1/invoiceitems/{item}?x=1 | | 400 parameter_unknown x
DELETE /v1/charges/{charge} | | 404 - -
GET /v1/balance?colour=red | | 400 parameter_unknown colour
GET /v1/balance?expand[]=available | | 400 - expand
GET /v1/account?colour=red | | 400 parameter_unknown colour
GET /v1/charges/{charge}?colour=red | | 400 parameter_unknown colour
GET /v1/charges/{charge}?expand[]=amount | | 400 - expand
GET /v1/charges/{charge}?expand[]=data.customer | | 400 - expand
GET /v1/charges?expand[]=customer | | 400 - expand
GET /v1/charges/{charge}/refunds?expand[]=data.invoice | | 400 - expand
GET /v1/charges?expand[]=data.payment_intent.latest_charge.payment_intent.customer | | 400 - expand
GET /v1/invoices/{draft}/lines?expand[]=data.amount | | 400 - expand
GET /v1/invoices?customer_account=x | | 400 parameter_unknown customer_account
";

/// Whatever a route takes: what it does not know, or what is of another kind, is refused before anything is done.
#[tokio::test]
async fn one_wrong_member_refuses_any_write() {
    let shop = Shop::open().await;
    let before = shop.seen().await;
    let good = rows(STOCK).map(|[_, path, form]| ["POST", path, form]).chain(rows(MORE));
    for [method, path, form] in good {
        for (wrong, param) in [
            ("colour=red", "colour"),
            ("metadata=x", "metadata"),
            ("expand[]=object", "expand"),
            ("expand[]=data.customer", "expand"),
        ] {
            let form = if form.is_empty() { wrong.to_owned() } else { format!("{form}&{wrong}") };
            let (status, body) = shop.ask(method.parse().unwrap(), path, &form).await;
            let said = (status, body["error"]["param"].as_str());
            assert_eq!(said, (400, Some(param)), "{method} {path} {form}: {body}");
        }
    }
    assert_eq!(shop.seen().await, before);
}

/// Writes beside those of the stock, each of which would be carried out.
const MORE: &str = "
POST | /v1/charges/{uncaptured}/capture | amount=500
POST | /v1/charges/{charge} | description=d
POST | /v1/charges/{charge}/refunds | amount=5
POST | /v1/payment_intents/{open} | amount=500
POST | /v1/payment_intents/{open}/confirm | payment_method=pm_card_visa
POST | /v1/payment_intents/{held}/capture |
POST | /v1/payment_intents/{held}/cancel |
POST | /v1/setup_intents/{setup}/confirm | payment_method=pm_card_visa
POST | /v1/setup_intents/{setup}/cancel |
POST | /v1/customers/{customer} | name=x
POST | /v1/payment_methods/{owned}/detach |
POST | /v1/prices/{once} | nickname=n
POST | /v1/plans | currency=usd&interval=month&amount=5&product={product}
POST | /v1/promotion_codes | promotion[type]=coupon&promotion[coupon]={coupon}
POST | /v1/invoices/{draft} | description=d
POST | /v1/invoices/{draft}/finalize |
POST | /v1/invoices/{draft}/send |
POST | /v1/invoiceitems/{item} | amount=5
POST | /v1/subscriptions/{subscription} | cancel_at_period_end=true
POST | /v1/payouts/{payout}/cancel |
POST | /v1/transfers/{transfer}/reversals | amount=1
DELETE | /v1/subscriptions/{subscription} |
DELETE | /v1/customers/{poor} |
DELETE | /v1/invoices/{draft} |
DELETE | /v1/coupons/{coupon} |
";

/// The traces that a card leaves when it is declined are documented: the charge that failed, and why, on the intent. A
/// subscription that is an error if it cannot be paid is not made, and neither is what was tried for it.
#[tokio::test]
async fn a_declined_payment_is_on_record_and_a_subscription_that_could_not_be_paid_is_not() {
    let shop = Shop::open().await;
    let (status, told) = shop.ask(Method::POST, "/v1/payment_intents/{ready}/confirm", "").await;
    assert_eq!((status, told["error"]["code"].as_str()), (402, Some("card_declined")));
    let charge = told["error"]["charge"].as_str().unwrap();
    let (_, charge) = shop.ask(Method::GET, &format!("/v1/charges/{charge}"), "").await;
    let (_, intent) = shop.ask(Method::GET, "/v1/payment_intents/{ready}", "").await;
    assert_eq!((&charge["status"], &intent["latest_charge"]), (&json!("failed"), &charge["id"]));

    let (_, expiring) = shop
        .ask(Method::POST, "/v1/payment_methods", "type=card&card[token]=tok_authenticationRequired")
        .await;
    let attach = format!("/v1/payment_methods/{}/attach", expiring["id"].as_str().unwrap());
    assert_eq!(shop.ask(Method::POST, &attach, "customer={customer}").await.0, 200);
    let before = shop.seen().await;
    let form = format!(
        "customer={{customer}}&items[0][price]={{price}}&payment_behavior=error_if_incomplete&default_payment_method={}",
        expiring["id"].as_str().unwrap()
    );
    let (status, told) = shop.ask(Method::POST, "/v1/subscriptions", &form).await;
    assert_eq!((status, told["error"]["code"].as_str()), (402, Some("authentication_required")));
    shows(&told["error"], &json!({ "charge": null, "payment_intent": null }));
    assert_eq!(shop.seen().await, before);
}

/// A parameter that no object shows needs code that acts on it, or it would be taken and lost. Who adds one to the
/// contract says here that there is such code, and tests it.
#[test]
fn the_contract_takes_no_parameter_that_is_neither_shown_nor_acted_on() {
    let acted_on: BTreeMap<&str, &str> = [
        ("charges", "capture"),
        ("customers", "payment_method source"),
        ("invoiceitems", "unit_amount_decimal"),
        ("invoices", "days_until_due pending_invoice_items_behavior"),
        ("payment_intents", "confirm error_on_requires_action off_session return_url use_stripe_sdk"),
        ("prices", "product_data transfer_lookup_key"),
        ("products", "default_price_data"),
        ("refunds", "refund_application_fee reverse_transfer"),
        ("setup_intents", "confirm return_url use_stripe_sdk"),
        ("subscriptions", "payment_behavior proration_behavior trial_period_days"),
        ("webhook_endpoints", "disabled"),
    ]
    .into();
    let contract: Map<String, Value> =
        serde_json::from_str(include_str!("../../fixtures/stripe_contract.json")).unwrap();
    for (name, resource) in contract.iter().filter(|(name, _)| *name != "_about") {
        let names = |part: &str| resource[part].as_object().into_iter().flat_map(Map::keys).cloned();
        let lists = ["nulls", "echo"].map(|part| resource[part].as_array().cloned().unwrap_or_default());
        let shown: Vec<String> =
            lists.concat().iter().map(|name| name.as_str().unwrap().to_owned()).collect();
        let shown: Vec<String> = shown.into_iter().chain(names("fields")).collect();
        let taken = names("create").chain(names("update_more"));
        let lost: Vec<String> = taken
            .filter(|param| !shown.contains(param) && !matches!(param.as_str(), "id" | "metadata"))
            .filter(|param| {
                !acted_on.get(name.as_str()).is_some_and(|known| known.split(' ').any(|known| known == param))
            })
            .collect();
        assert!(lost.is_empty(), "{name}: {lost:?}");
    }
}
