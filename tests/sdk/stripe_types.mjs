// Every object that the fake gives, held against the vendor's own types for Node: each field that a type requires is
// there, and is of the kind that the type says.

import fs from "node:fs";
import path from "node:path";
import Stripe from "stripe";

const types = path.join(process.cwd(), "node_modules/stripe/cjs/resources");
const url = new URL(process.env.FAKE_URL);
const stripe = new Stripe("sk_test_1", { host: url.hostname, port: url.port, protocol: "http", maxNetworkRetries: 0 });

// The fields of an interface: name, whether it may be missing, and its type as it is written.
function fieldsOf(file, name) {
    const text = fs.readFileSync(path.join(types, `${file}.d.ts`), "utf8").replace(/\/\*\*[\s\S]*?\*\//g, "");
    const start = text.search(new RegExp(`interface ${name} \\{`));
    if (start < 0) throw new Error(`${file} has no ${name}`);
    const fields = [];
    let depth = 0;
    for (const line of text.slice(start).split("\n")) {
        const field = depth === 1 && /^\s*(\w+)(\??): (.*?);?$/.exec(line);
        if (field) fields.push({ name: field[1], optional: field[2] === "?", type: field[3] });
        depth += (line.match(/\{/g) ?? []).length - (line.match(/\}/g) ?? []).length;
        if (depth === 0) break;
    }
    return fields;
}

function isOf(value, type) {
    if (value === null) return /\bnull\b/.test(type);
    const plain = type.replace(/\s*\|\s*null\b/, "");
    if (plain === "number") return Number.isInteger(value) || typeof value === "number";
    if (plain === "boolean") return typeof value === "boolean";
    if (plain === "string") return typeof value === "string";
    if (plain.startsWith("Array<")) return Array.isArray(value);
    if (/^'[^']*'( \| '[^']*')*$/.test(plain)) return plain.includes(`'${value}'`);
    return true;
}

const problems = [];
function check(file, name, object) {
    // The types of v2 have no null: what is null in the examples of its documentation is optional there.
    const isUnset = (field, optional) => optional && object[field] === null && file.startsWith("V2/");
    for (const { name: field, optional, type } of fieldsOf(file, name)) {
        if (!(field in object)) {
            if (!optional) problems.push(`${name}.${field} is missing`);
        } else if (!isUnset(field, optional) && !isOf(object[field], type)) {
            problems.push(`${name}.${field} is ${JSON.stringify(object[field])}, not ${type}`);
        }
    }
}

const customer = await stripe.customers.create({ email: "a@example.com", shipping: { name: "A", address: { line1: "1" } } });
check("Customers", "Customer", customer);
check("Customers", "Customer", await stripe.customers.update(customer.id, { address: { city: "London" } }));
const method = await stripe.paymentMethods.create({ type: "card", card: { token: "tok_visa" } });
check("PaymentMethods", "PaymentMethod", method);
await stripe.paymentMethods.attach(method.id, { customer: customer.id });
await stripe.customers.update(customer.id, { invoice_settings: { default_payment_method: method.id } });
const held = await stripe.paymentIntents.create({ amount: 100, currency: "usd", shipping: { name: "A", address: { line1: "1" } } });
check("PaymentIntents", "PaymentIntent", held);
const intent = await stripe.paymentIntents.create({
    amount: 1000, currency: "usd", customer: customer.id, payment_method: method.id, confirm: true, metadata: { a: "b" },
    return_url: "https://example.com",
});
check("PaymentIntents", "PaymentIntent", intent);
const charge = await stripe.charges.retrieve(intent.latest_charge);
check("Charges", "Charge", charge);
check("Charges", "Charge", await stripe.charges.create({ amount: 50, currency: "usd", source: "tok_visa", capture: false }));
check("BalanceTransactions", "BalanceTransaction", await stripe.balanceTransactions.retrieve(charge.balance_transaction));
check("Refunds", "Refund", await stripe.refunds.create({ charge: charge.id, amount: 10 }));
check("SetupIntents", "SetupIntent", await stripe.setupIntents.create({ customer: customer.id, payment_method: "pm_card_visa", confirm: true, return_url: "https://example.com" }));
const product = await stripe.products.create({ name: "P", images: ["https://example.com/a.png"], package_dimensions: { height: 1, length: 2, weight: 3, width: 4 } });
check("Products", "Product", product);
const priced = await stripe.products.create({ name: "Q", default_price_data: { currency: "usd", unit_amount: 100 }, expand: ["default_price"] });
check("Products", "Product", priced);
check("Prices", "Price", priced.default_price);
const price = await stripe.prices.create({ product: product.id, currency: "usd", unit_amount: 100, recurring: { interval: "month" } });
check("Prices", "Price", price);
check("Prices", "Price", await stripe.prices.create({ product: product.id, currency: "usd", unit_amount_decimal: "0.5" }));
check("Plans", "Plan", await stripe.plans.create({ product: product.id, currency: "usd", amount: 5, interval: "year" }));
const subscription = await stripe.subscriptions.create({ customer: customer.id, items: [{ price: price.id }] });
check("Subscriptions", "Subscription", subscription);
check("SubscriptionItems", "SubscriptionItem", subscription.items.data[0]);
check("Plans", "Plan", subscription.items.data[0].plan);
check("SubscriptionItems", "SubscriptionItem", await stripe.subscriptionItems.update(subscription.items.data[0].id, { quantity: 3 }));
check("InvoiceItems", "InvoiceItem", (await stripe.invoiceItems.list({ customer: customer.id, limit: 1 })).data[0]);
const item = await stripe.invoiceItems.create({ customer: customer.id, pricing: { price: price.id }, quantity: 2 });
check("InvoiceItems", "InvoiceItem", item);
check("InvoiceItems", "InvoiceItem", await stripe.invoiceItems.create({ customer: customer.id, unit_amount_decimal: "50", quantity: 2 }));
const invoice = await stripe.invoices.create({ customer: customer.id, pending_invoice_items_behavior: "include" });
check("Invoices", "Invoice", invoice);
check("InvoiceLineItems", "InvoiceLineItem", invoice.lines.data[0]);
check("Invoices", "Invoice", await stripe.invoices.pay(invoice.id));
check("InvoiceLineItems", "InvoiceLineItem", (await stripe.invoices.retrieve(subscription.latest_invoice)).lines.data[0]);
check("Payouts", "Payout", await stripe.payouts.create({ amount: 5, currency: "usd" }));
const account = await stripe.accounts.create({ type: "express", country: "US", business_profile: { name: "A" } });
check("Accounts", "Account", account);
const transfer = await stripe.transfers.create({ amount: 5, currency: "usd", destination: account.id });
check("Transfers", "Transfer", transfer);
check("TransferReversals", "TransferReversal", await stripe.transfers.createReversal(transfer.id, { amount: 2 }));
check("Topups", "Topup", await stripe.topups.create({ amount: 5, currency: "usd" }));
const coupon = await stripe.coupons.create({ amount_off: 5, currency: "usd", duration: "repeating", duration_in_months: 3 });
check("Coupons", "Coupon", coupon);
check("PromotionCodes", "PromotionCode", await stripe.promotionCodes.create({ promotion: { type: "coupon", coupon: coupon.id } }));
check("TaxRates", "TaxRate", await stripe.taxRates.create({ display_name: "VAT", percentage: 7.5, inclusive: false }));
check("ShippingRates", "ShippingRate", await stripe.shippingRates.create({ display_name: "Post", type: "fixed_amount", fixed_amount: { amount: 5, currency: "usd" } }));
check("SubscriptionSchedules", "SubscriptionSchedule", await stripe.subscriptionSchedules.create({ customer: customer.id }));
const endpoint = await stripe.webhookEndpoints.create({ url: "https://example.com/", enabled_events: ["*"] });
check("WebhookEndpoints", "WebhookEndpoint", endpoint);
check("Balance", "Balance", await stripe.balance.retrieve());
check("Events", "EventBase", (await stripe.events.list({ limit: 1 })).data[0]);

const destinations = stripe.v2.core.eventDestinations;
const destination = await destinations.create({
    name: "D", type: "webhook_endpoint", event_payload: "snapshot", snapshot_api_version: "2026-07-29.dahlia",
    enabled_events: ["charge.succeeded"], description: "d", metadata: { a: "b" }, webhook_endpoint: { url: "https://example.com/" },
    include: ["webhook_endpoint.signing_secret", "webhook_endpoint.url"],
});
const inner = (object) => check("V2/Core/EventDestinations", "WebhookEndpoint", object.webhook_endpoint);
check("V2/Core/EventDestinations", "EventDestination", destination);
inner(destination);
const disabled = await destinations.disable(destination.id);
check("V2/Core/EventDestinations", "EventDestination", disabled);
check("V2/Core/EventDestinations", "Disabled", disabled.status_details.disabled);
const page = await destinations.list();
check("V2/Core/EventDestinations", "EventDestination", page.data[0]);
inner(page.data[0]);
if (page.next_page_url !== null || page.previous_page_url !== null) problems.push("a whole list has other pages");
check("V2/DeletedObject", "DeletedObject", await destinations.del(destination.id));

if (problems.length > 0) {
    console.log([...new Set(problems)].join("\n"));
    process.exit(1);
}
