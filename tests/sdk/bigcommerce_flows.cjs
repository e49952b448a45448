const assert = require("node:assert");
const http = require("node:http");
const https = require("node:https");

// The library knows one host, by https. What it sends there goes to the fake as it is.
const url = new URL(process.env.FAKE_URL);
https.request = (options, ...rest) => http.request({ ...options, hostname: url.hostname, port: url.port }, ...rest);
const BigCommerce = require("node-bigcommerce");

const config = { clientId: "id", accessToken: "token", storeHash: "abc123", responseType: "json", headers: { "Accept-Encoding": "*" } };
const v2 = new BigCommerce({ ...config, apiVersion: "v2" });
const v3 = new BigCommerce({ ...config, apiVersion: "v3" });
const page = async (path, body) => (await fetch(`${process.env.FAKE_URL}/_fake/${path}`, body && { method: "POST", body: JSON.stringify(body) })).json();
const refused = (call) => call.then(() => assert.fail("not refused"), (error) => error);

async function flows() {
    const products = [{ name: "Mug", quantity: 3, price_inc_tax: 5, price_ex_tax: 5 }];
    const to = { first_name: "Jane", last_name: "Doe", zip: "78751", country_iso2: "US" };
    const order = await v2.post("/orders", { external_order_id: "n-1", billing_address: to, products });
    assert.equal(order.total_inc_tax, "15.0000");
    assert.equal((await v2.get(`/orders/${order.id}`)).id, order.id);
    assert.deepEqual((await v2.get("/orders?external_order_id=n-1")).map((one) => one.id), [order.id]);
    assert.equal(await v2.get("/orders?external_order_id=none"), "");
    assert.equal((await v2.put(`/orders/${order.id}`, { status_id: 5 })).status_id, 5);
    assert.equal((await v2.get("/orders/count")).count, 1);
    assert.match((await refused(v2.post("/orders", { external_order_id: "empty", billing_address: to }))).message, /products/);

    const misspelt = await refused(v2.post("/orders", { external_order_id: "m", billing_adress: to, billing_address: to, products }));
    assert.match(misspelt.message, /billing_adress/);

    const product = (await v3.post("/catalog/products", { name: "Mug", type: "physical", weight: 1, price: 5, sku: "MUG" })).data;
    assert.equal(product.sku, "MUG");
    const variants = (await v3.get(`/catalog/products/${product.id}/variants`)).data;
    assert.deepEqual(variants.map((one) => [one.id, one.sku, one.price]), [[product.base_variant_id, "MUG", null]]);
    assert.match((await refused(v3.post("/catalog/products", { name: "Cup" }))).message, /type|weight|price/);
    const again = await v3.post("/catalog/products", { name: "Mug", type: "physical", weight: 1, price: 5 }).catch((error) => error);
    assert.ok(again instanceof Error || again.status === 409, JSON.stringify(again));
    assert.deepEqual((await v3.get("/catalog/products?sku=MUG")).meta.pagination.total, 1);
    const many = await v3.put("/catalog/products", [{ id: product.id, price: 6 }]);
    assert.equal(many.data[0].price, 6);
    await v3.delete(`/catalog/products?id:in=${product.id}`);
    assert.deepEqual((await v3.get("/catalog/products")).data, []);
    const unknown = await v3.get("/spaceships").catch((error) => error);
    assert.ok(unknown instanceof Error, "a path that is not the store's is refused");

    // The library waits as long as the 429 says, and sends again.
    await page("faults", { fault: "too-many-requests=vendor:1000", method: "POST" });
    const waited = await v2.post("/orders", { external_order_id: "n-2", billing_address: to, products });
    assert.equal(waited.external_order_id, "n-2");
    await page("faults", { fault: "drop-after-apply", method: "POST" });
    await refused(v2.post("/orders", { external_order_id: "n-3", billing_address: to, products }));
    const ledger = await page("ledger");
    assert.equal(ledger.effects.filter((effect) => effect.wire_key === "n-3").length, 1);
    assert.equal((await v2.get("/orders?external_order_id=n-3")).length, 1);
}

flows().then(() => process.exit(0), (error) => { console.error(error); process.exit(1); });
