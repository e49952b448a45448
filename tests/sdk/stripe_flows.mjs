import assert from "node:assert";
import http from "node:http";
import Stripe from "stripe";

const { FAKE_URL } = process.env;
const url = new URL(FAKE_URL);
const client = (secret, retries) => new Stripe(secret, { host: url.hostname, port: url.port, protocol: "http", maxNetworkRetries: retries });
const stripe = client("sk_test_1", 2);

const page = async (path, body) => {
    const answer = await fetch(`${FAKE_URL}/_fake/${path}`, body && { method: "POST", body: JSON.stringify(body) });
    assert.equal(answer.status, 200, await answer.clone().text());
    return answer.json();
};
const refused = (call) => call.then(() => assert.fail("not refused"), (error) => error);

// Money.
const intent = await stripe.paymentIntents.create({ amount: 2000, currency: "eur", payment_method: "pm_card_visa", payment_method_types: ["card"], confirm: true, expand: ["latest_charge"] });
assert.equal(intent.status, "succeeded");
assert.equal(intent.latest_charge.amount_captured, 2000);
const over = await refused(stripe.refunds.create({ payment_intent: intent.id, amount: 2001 }));
assert.ok(over instanceof Stripe.errors.StripeInvalidRequestError && /greater than/.test(over.message));
await stripe.refunds.create({ payment_intent: intent.id });
assert.equal((await refused(stripe.refunds.create({ payment_intent: intent.id }))).code, "charge_already_refunded");
const declined = await refused(stripe.paymentIntents.create({ amount: 50, currency: "usd", payment_method: "pm_card_visa_chargeDeclined", payment_method_types: ["card"], confirm: true }));
assert.ok(declined instanceof Stripe.errors.StripeCardError);
assert.deepEqual([declined.code, declined.decline_code, declined.payment_intent.status], ["card_declined", "generic_decline", "requires_payment_method"]);
assert.equal((await refused(stripe.paymentIntents.capture(intent.id))).code, "payment_intent_unexpected_state");
assert.ok((await refused(client("nonsense", 0).charges.list())) instanceof Stripe.errors.StripeAuthenticationError);

// Nested and unset.
const customer = await stripe.customers.create({ name: "Ada", phone: "1", address: { line1: "x", country: "GB" }, preferred_locales: ["en"], metadata: { a: "1", b: "2" } });
assert.deepEqual(customer.preferred_locales, ["en"]);
assert.equal(customer.address.country, "GB");
const changed = await stripe.customers.update(customer.id, { phone: "", metadata: { a: null } });
assert.deepEqual([changed.phone, changed.metadata], [null, { b: "2" }]);
assert.equal((await stripe.customers.del(customer.id)).deleted, true);

// Lists, both ways.
const made = [];
for (let n = 0; n < 23; n++) made.unshift((await stripe.coupons.create({ percent_off: 1 + n, duration: "once" })).id);
const seen = [];
for await (const coupon of stripe.coupons.list({ limit: 10 })) seen.push(coupon.id);
assert.deepEqual(seen, made);
const back = [];
for await (const coupon of stripe.coupons.list({ limit: 5, ending_before: made[20] })) back.push(coupon.id);
assert.deepEqual(back, made.slice(0, 20).reverse());
assert.equal((await stripe.coupons.list({ created: { lt: 1 } })).data.length, 0);
assert.equal((await refused(stripe.coupons.list({ colour: "red" }))).param, "colour");

// Faults that the library retries by itself, under its own key.
for (const fault of ["drop-after-apply", "error-500-after", "drop-before-read", "key-in-use"]) {
    const before = (await page("ledger")).effects.length;
    await page("faults", { fault, method: "POST", path: "/v1/charges" });
    const charge = await stripe.charges.create({ amount: 100, currency: "usd", source: "tok_visa" });
    const effects = (await page("ledger")).effects.slice(before);
    assert.deepEqual(effects.map((effect) => effect.id), [charge.id], fault);
}
await page("faults", { fault: "too-many-requests=none" });
assert.ok((await refused(stripe.charges.create({ amount: 100, currency: "usd" }))) instanceof Stripe.errors.StripeRateLimitError);
const key = { idempotencyKey: "node-1" };
const first = await stripe.charges.create({ amount: 100, currency: "usd" }, key);
assert.equal((await stripe.charges.create({ amount: 100, currency: "usd" }, key)).id, first.id);
assert.ok((await refused(stripe.charges.create({ amount: 110, currency: "usd" }, key))) instanceof Stripe.errors.StripeIdempotencyError);

// v2: JSON, keys on DELETE too, and lists that name the URL of their next page.
const v2 = stripe.v2.core.eventDestinations;
const destination = (name) => ({ name, type: "webhook_endpoint", event_payload: "thin", enabled_events: ["v1.billing.meter.error_report_triggered"], webhook_endpoint: { url: "https://example.com/hook" } });
const secret = await v2.create({ ...destination("first"), include: ["webhook_endpoint.signing_secret"] });
assert.match(secret.webhook_endpoint.signing_secret, /^whsec_/);
const destinations = [secret.id];
for (const fault of ["drop-after-apply", "error-500-after", "drop-before-read", "stored-500"]) {
    const before = (await page("ledger")).effects.length;
    await page("faults", { fault, method: "POST", path: "/v2/core/event_destinations" });
    destinations.unshift((await v2.create(destination(fault))).id);
    const effects = (await page("ledger")).effects.slice(before);
    assert.deepEqual(effects.map((effect) => effect.id), [destinations[0]], fault);
}
const listed = [];
for await (const one of v2.list({ limit: 2, include: ["webhook_endpoint.url"] })) {
    assert.equal(one.webhook_endpoint.url, "https://example.com/hook");
    listed.push(one.id);
}
assert.deepEqual(listed, destinations);
const renamed = await v2.update(secret.id, { name: "renamed", metadata: { a: "1", b: "2" } });
assert.deepEqual([renamed.name, renamed.metadata], ["renamed", { a: "1", b: "2" }]);
assert.deepEqual((await v2.update(secret.id, { metadata: { a: null } })).metadata, { b: "2" });
assert.equal((await v2.disable(secret.id)).status_details.disabled.reason, "user");
assert.equal((await v2.enable(secret.id)).status, "enabled");
assert.equal((await v2.retrieve(secret.id)).name, "renamed");
const unfit = await refused(v2.create({ ...destination("unfit"), colour: "red" }));
assert.ok(unfit instanceof Stripe.errors.StripeInvalidRequestError && unfit.code === "invalid_fields");
const again = { idempotencyKey: "node-2" };
const once = await v2.create(destination("once"), again);
assert.equal((await v2.create(destination("once"), again)).id, once.id);
assert.ok((await refused(v2.create(destination("twice"), { ...again, maxNetworkRetries: 0 }))) instanceof Stripe.errors.StripeIdempotencyError);
await page("faults", { fault: "drop-after-apply", method: "DELETE", path: `/v2/core/event_destinations/${once.id}` });
assert.deepEqual({ ...(await v2.del(once.id)) }, { id: once.id, object: "v2.core.event_destination" });
assert.equal((await page("ledger")).effects.filter((effect) => effect.method === "DELETE" && effect.id === once.id).length, 1);
const absent = await refused(v2.retrieve(once.id));
assert.deepEqual([absent.statusCode, absent.code], [404, "not_found"]);

// A webhook, verified by the library.
const received = [];
let arrived;
const next = () => new Promise((resolve) => { arrived = resolve; });
const receiver = http.createServer(async (request, answer) => {
    let body = "";
    for await (const part of request) body += part;
    received.push({ body, signature: request.headers["stripe-signature"] });
    answer.end();
    arrived?.();
}).listen(0, "127.0.0.1");
await new Promise((resolve) => receiver.on("listening", resolve));
const endpoint = await stripe.webhookEndpoints.create({ url: `http://127.0.0.1:${receiver.address().port}/`, enabled_events: ["payment_intent.succeeded"] });
const waits = next();
const paid = await stripe.paymentIntents.create({ amount: 77, currency: "usd", payment_method: "pm_card_visa", confirm: true, return_url: "https://example.com" });
await waits;
const event = stripe.webhooks.constructEvent(received[0].body, received[0].signature, endpoint.secret);
assert.deepEqual([event.type, event.data.object.id], ["payment_intent.succeeded", paid.id]);
assert.throws(() => stripe.webhooks.constructEvent(received[0].body, received[0].signature, "whsec_other"));
receiver.close();
process.exit(0);
