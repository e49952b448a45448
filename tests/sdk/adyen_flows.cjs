const assert = require("node:assert");
const http = require("node:http");
const { CheckoutAPI, Client, HttpURLConnectionClient, ManagementAPI, hmacValidator } = require("@adyen/api-library");

const { FAKE_URL } = process.env;

// The library speaks https alone. This is its own connection, with the address and the protocol of the fake.
class ToTheFake extends HttpURLConnectionClient {
    createRequest(endpoint, options) {
        const url = new URL(endpoint);
        const headers = { ...options.headers };
        if (options.idempotencyKey) {
            headers["Idempotency-Key"] = options.idempotencyKey;
        }
        const query = options.params ? `?${new URLSearchParams(options.params)}` : "";
        return http.request(`${FAKE_URL}${url.pathname}${query}`, { method: options.method ?? "POST", headers, agent: new http.Agent() });
    }
}

const client = new Client({ apiKey: "AQE-key", environment: "TEST" });
client.httpClient = new ToTheFake();
const { PaymentsApi: payments, ModificationsApi: changes, PaymentLinksApi: links } = new CheckoutAPI(client);
const { WebhooksMerchantLevelApi: hooks } = new ManagementAPI(client);

const refused = (call) => call.then(() => assert.fail("not refused"), (error) => error);
const page = async (path, body) => {
    const answer = await fetch(`${FAKE_URL}/_fake/${path}`, body && { method: "POST", body: JSON.stringify(body) });
    assert.equal(answer.status, 200);
    return answer.json();
};
const payment = (value, card, more) => ({
    merchantAccount: "ShopECOM", reference: "order-42", returnUrl: "https://shop.example/return", amount: { value, currency: "EUR" },
    paymentMethod: { type: "scheme", encryptedCardNumber: "test_5555341244441115", holderName: "Ann", ...card }, ...more,
});
const change = (value) => ({ merchantAccount: "ShopECOM", reference: "part", amount: { value, currency: "EUR" } });
const whole = { merchantAccount: "ShopECOM" };
// By default Adyen captures by itself.
const byRequest = { additionalData: { manualCapture: "true" } };

// What Drop-in and Pay by Link begin with. A shopper pays at the fake's page.
async function checkouts(received) {
    const { returnUrl, paymentMethod: card, ...asked } = payment(900, {}, { reference: "order-44", countryCode: "NL" });
    const listed = await payments.paymentMethods({ merchantAccount: "ShopECOM", countryCode: "NL", amount: asked.amount });
    assert.deepEqual(listed.paymentMethods.map(({ type }) => type), ["ideal", "scheme"]);
    const session = await payments.sessions({ ...asked, returnUrl }, { idempotencyKey: "session" });
    assert.deepEqual([session.reference, session.mode, session.amount.value], ["order-44", "embedded", 900]);
    assert.ok(session.expiresAt > new Date() && session.sessionData, JSON.stringify(session));
    assert.deepEqual(await payments.sessions({ ...asked, returnUrl }, { idempotencyKey: "session" }), session);
    const declined = await page("pay", { id: session.id, paymentMethod: { ...card, holderName: "DECLINED" } });
    const before = await payments.getResultOfPaymentSession(session.id, declined.sessionResult);
    assert.deepEqual([before.status, before.payments], ["active", undefined]);
    const paid = await page("pay", { id: session.id, paymentMethod: card });
    const result = await payments.getResultOfPaymentSession(session.id, paid.sessionResult);
    assert.deepEqual([result.id, result.status, result.reference], [session.id, "completed", "order-44"]);
    const [{ resultCode, paymentMethod, pspReference }] = result.payments;
    assert.deepEqual([resultCode, paymentMethod.brand, pspReference], ["Authorised", "mc", paid.pspReference]);
    const wrong = await refused(payments.getResultOfPaymentSession(session.id, "x"));
    assert.deepEqual([wrong.statusCode, wrong.apiError.message], [422, "Field 'sessionId' is not valid."]);

    const link = await links.paymentLinks({ ...asked, reusable: true, description: "A mug" }, { idempotencyKey: "link" });
    assert.deepEqual([link.status, link.reusable, link.url.endsWith(link.id)], ["active", true, true]);
    await page("pay", { id: link.id, paymentMethod: card });
    assert.deepEqual(await links.getPaymentLink(link.id), link);
    const ended = await links.updatePaymentLink(link.id, { status: "expired" });
    assert.deepEqual([ended.status, ended.id, ended.updatedAt instanceof Date], ["expired", link.id, true]);

    received.length = 0;
    await page("webhooks", {});
    const told = received.map(({ body }) => body.notificationItems[0].NotificationRequestItem);
    assert.deepEqual(told.map(({ eventCode, success }) => [eventCode, success]),
        [["AUTHORISATION", "false"], ["AUTHORISATION", "true"], ["AUTHORISATION", "true"]]);
    assert.deepEqual(told.map(({ additionalData }) => additionalData.checkoutSessionId ?? additionalData.paymentLinkId),
        [session.id, session.id, link.id]);
}

async function flows() {
    const received = [];
    const server = http.createServer((request, response) => {
        let body = "";
        request.on("data", (part) => (body += part));
        request.on("end", () => {
            received.push({ body: JSON.parse(body), authorization: request.headers.authorization });
            response.end("[accepted]");
        });
    });
    await new Promise((ready) => server.listen(0, "127.0.0.1", ready));
    const hook = await hooks.setUpWebhook("ShopECOM", {
        type: "standard", url: `http://127.0.0.1:${server.address().port}/hook`, active: true, communicationFormat: "json", username: "me", password: "secret",
    });
    assert.equal(hook.hasPassword, true);
    const { hmacKey } = await hooks.generateHmacKey("ShopECOM", hook.id);
    await page("webhooks", { hold: true });

    const paid = await payments.payments(payment(1000, {}, byRequest), { idempotencyKey: "order-42" });
    assert.deepEqual([paid.resultCode, paid.merchantReference, paid.amount.value], ["Authorised", "order-42", 1000]);
    assert.deepEqual(await payments.payments(payment(1000, {}, byRequest), { idempotencyKey: "order-42" }), paid);
    const declined = await payments.payments(payment(1000, { holderName: "DECLINED" }), { idempotencyKey: "declined" });
    assert.deepEqual([declined.resultCode, declined.refusalReasonCode], ["Refused", "2"]);
    const redirect = await payments.payments({ ...payment(10), paymentMethod: { type: "ideal" } }, { idempotencyKey: "ideal" });
    assert.deepEqual([redirect.resultCode, redirect.action.type, redirect.action.method], ["RedirectShopper", "redirect", "GET"]);
    const redirectResult = redirect.action.url.split("redirectData=")[1];
    const done = await payments.paymentsDetails({ details: { redirectResult } }, { idempotencyKey: "ideal/details" });
    assert.deepEqual([done.resultCode, done.pspReference], ["Authorised", redirectResult]);

    const { pspReference } = paid;
    const captured = await changes.captureAuthorisedPayment(pspReference, change(1000), { idempotencyKey: "capture" });
    assert.deepEqual([captured.status, captured.paymentPspReference, captured.amount.value], ["received", pspReference, 1000]);
    await changes.refundCapturedPayment(pspReference, change(1001), { idempotencyKey: "too much" });
    await changes.refundOrCancelPayment(pspReference, whole, { idempotencyKey: "reverse" });
    const other = await payments.payments(payment(500, {}, { reference: "order-43", ...byRequest }), { idempotencyKey: "other" });
    await changes.updateAuthorisedAmount(other.pspReference, change(600), { idempotencyKey: "adjust" });
    await changes.cancelAuthorisedPaymentByPspReference(other.pspReference, whole, { idempotencyKey: "cancel" });
    await changes.cancelAuthorisedPayment({ ...whole, paymentReference: "order-43", reference: "x" }, { idempotencyKey: "again" });
    const automatic = await payments.payments(payment(300), { idempotencyKey: "automatic" });
    await changes.captureAuthorisedPayment(automatic.pspReference, change(300), { idempotencyKey: "captured already" });
    await changes.refundCapturedPayment(automatic.pspReference, change(300), { idempotencyKey: "refund at once" });

    for (const [request, status, code] of [
        [payment(-1), 422, "137"],
        [payment(1, { number: "4111111111111112" }), 422, "101"],
        [{ ...payment(1), returnUrl: "" }, 422, "14_030"],
        [{ ...payment(1), merchantAccount: "" }, 403, "901"],
    ]) {
        const error = await refused(payments.payments(request));
        assert.deepEqual([error.statusCode, error.errorCode, error.apiError.status], [status, code, status], error.message);
    }
    const busy = (await page("faults", { fault: "key-in-use" }), await refused(payments.payments(payment(7), { idempotencyKey: "busy" })));
    assert.deepEqual([busy.statusCode, busy.errorCode, busy.responseHeaders["transient-error"]], [422, "704", "true"]);
    for (const fault of ["drop-after-apply", "truncated-body", "error-500-after", "html"]) {
        await page("faults", { fault, path: "/v72/payments" });
        await refused(payments.payments(payment(7), { idempotencyKey: fault }));
        assert.equal((await payments.payments(payment(7), { idempotencyKey: fault })).resultCode, "Authorised", fault);
    }

    await page("webhooks", { newest_first: true });
    const told = {};
    for (const { body, authorization } of received) {
        assert.equal(authorization, `Basic ${Buffer.from("me:secret").toString("base64")}`);
        const item = body.notificationItems[0].NotificationRequestItem;
        assert.ok(new hmacValidator().validateHMAC(item, hmacKey), JSON.stringify(item));
        assert.ok(!new hmacValidator().validateHMAC({ ...item, success: "maybe" }, hmacKey));
        (told[item.eventCode] ??= []).push([item.success, item.amount.value, item.reason]);
    }
    // Newest first.
    assert.deepEqual(told.CAPTURE, [["false", 300, "Insufficient balance on payment"], ["true", 1000, ""]]);
    assert.deepEqual(told.REFUND, [["true", 300, ""], ["false", 1001, "Insufficient balance on payment"]]);
    assert.deepEqual(told.CANCEL_OR_REFUND, [["true", 1000, ""]]);
    assert.deepEqual(told.CANCELLATION, [["true", 600, ""]]);
    assert.equal(told.AUTHORISATION.length, 9);
    await checkouts(received);
    await hooks.removeWebhook("ShopECOM", hook.id);
    server.close();
}

flows().then(() => process.exit(0), (error) => { console.error(error); process.exit(1); });
