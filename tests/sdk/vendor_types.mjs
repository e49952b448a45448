// The answers of the fakes of Adyen and Postmark, held against the types of the vendors' own libraries for Node: each
// field that a type requires is there, each is of the kind that the type says, and there is none that the type has not.

import fs from "node:fs";
import http from "node:http";
import path from "node:path";

const [adyen, postmark] = process.env.FAKE_URL.split(" ");
const problems = new Set();

// The types of a library: the fields of each interface and class, and the values of each enumeration.
class Types {
    constructor(...folders) {
        this.shapes = new Map();
        this.enums = new Map();
        for (const folder of folders) {
            for (const file of fs.readdirSync(folder, { recursive: true }).filter((name) => name.endsWith(".d.ts"))) {
                this.read(fs.readFileSync(path.join(folder, file), "utf8"));
            }
        }
    }

    read(text) {
        const lines = text.replace(/\/\*[\s\S]*?\*\//g, "").split("\n").map((line) => line.trim()).filter(Boolean);
        let space = "";
        for (let at = 0; at < lines.length; at++) {
            const line = lines[at];
            const named = /^(?:export )?(?:declare )?(namespace|interface|class|enum) (\w+)(?: extends (\w+))?.*\{$/.exec(line);
            if (!named) {
                if (line === "}") space = "";
            } else if (named[1] === "namespace") {
                space = `${named[2]}.`;
            } else if (named[1] === "enum") {
                const values = [];
                while (lines[++at] !== "}") values.push(JSON.parse(/= (.*?),?$/.exec(lines[at])[1]));
                this.enums.set(space + named[2], values);
            } else {
                const [fields, end] = this.fields(lines, at + 1);
                this.shapes.set(named[2], { base: named[3], fields });
                at = end;
            }
        }
    }

    // The fields up to the brace that closes them; an object that is written out is a shape within.
    fields(lines, at) {
        const fields = [];
        for (; !/^\}/.test(lines[at]); at++) {
            const field = /^(?:readonly )?["']?([\w.]+|\[key: string\])["']?(\??): (.*?);?$/.exec(lines[at]);
            const opens = lines[at].endsWith("{");
            let type = field?.[3];
            if (opens) [type, at] = this.fields(lines, at + 1);
            if (field && !/^static/.test(lines[at])) fields.push({ name: field[1], optional: field[2] === "?", type });
        }
        return [fields, at];
    }

    check(name, value, where = name) {
        const shape = this.shapes.get(name);
        if (!shape) throw new Error(`there is no type ${name}`);
        let fields = shape.fields;
        for (let base = shape.base; base && this.shapes.has(base); base = this.shapes.get(base).base) {
            fields = [...this.shapes.get(base).fields.filter((one) => !fields.some((own) => own.name === one.name)), ...fields];
        }
        this.checkFields(fields, value, where);
    }

    checkFields(fields, value, where) {
        if (typeof value !== "object" || value === null || Array.isArray(value)) {
            problems.add(`${where} is ${JSON.stringify(value)}, no object`);
            return;
        }
        const rest = fields.find((field) => field.name === "[key: string]");
        for (const { name, optional, type } of fields.filter((field) => field !== rest)) {
            if (name in value) this.checkKind(type, value[name], `${where}.${name}`, optional);
            else if (!optional) problems.add(`${where}.${name} is missing`);
        }
        for (const name of Object.keys(value).filter((name) => !fields.some((field) => field.name === name))) {
            if (rest) this.checkKind(rest.type, value[name], `${where}.${name}`);
            else problems.add(`${where}.${name} is not in the type`);
        }
    }

    checkKind(type, value, where, optional) {
        if (Array.isArray(type)) return this.checkFields(type, value, where);
        if (optional && value === null) return undefined;
        const kinds = type.split(" | ").filter((kind) => kind !== "undefined");
        if (value === null && kinds.includes("null")) return undefined;
        const named = kinds.find((one) => one !== "null");
        // What a file imports as a whole it names with a dot; an enumeration is named so everywhere.
        const kind = this.enums.has(named) ? named : named.replace(/^\w+\.(\w+)$/, "$1");
        const list = /^Array<(.*)>$/.exec(kind) ?? /^(.*)\[\]$/.exec(kind);
        const hash = /^Hash<(.*)>$/.exec(kind);
        if (list || hash) {
            const is = list ? Array.isArray(value) : typeof value === "object" && !Array.isArray(value);
            if (!is) problems.add(`${where} is ${JSON.stringify(value)}, not ${type}`);
            else Object.entries(value).forEach(([name, one]) => this.checkKind((list ?? hash)[1], one, `${where}.${list ? "[]" : name}`));
            return undefined;
        }
        if (this.shapes.has(kind)) return this.check(kind, value, where);
        const words = kinds.every((one) => /^["'].*["']$/.test(one)) ? kinds.map((one) => one.slice(1, -1)) : this.enums.get(kind);
        const isDate = kind === "Date" && typeof value === "string" && !Number.isNaN(Date.parse(value));
        const fits = words ? words.includes(value) : kind === "any" || isDate || typeof value === kind;
        if (!fits) problems.add(`${where} is ${JSON.stringify(value)}, not ${type}`);
        return undefined;
    }
}

async function ask(url, headers, method, body) {
    const answer = await fetch(url, { method, headers, body: body && JSON.stringify(body) });
    const text = await answer.text();
    return { status: answer.status, body: text && JSON.parse(text) };
}

// What a webhook is sent, once the fake is told to send it.
async function received(fake, register) {
    const bodies = [];
    const server = http.createServer(async (request, answer) => {
        let body = "";
        for await (const part of request) body += part;
        bodies.push(JSON.parse(body));
        answer.end();
    });
    await new Promise((ready) => server.listen(0, "127.0.0.1", ready));
    await ask(`${fake}/_fake/webhooks`, {}, "POST", { hold: true });
    await register(`http://127.0.0.1:${server.address().port}/`);
    await ask(`${fake}/_fake/webhooks`, {}, "POST", {});
    server.close();
    return bodies;
}

function fits(types, name, { status, body }, expected = 200) {
    if (status !== expected) problems.add(`${name}: ${status} ${JSON.stringify(body)}`);
    else types.check(name, body);
    return body;
}

async function ofAdyen() {
    const folder = path.join(process.cwd(), "node_modules/@adyen/api-library/lib/src/typings");
    const checkout = new Types(path.join(folder, "checkout"));
    const management = new Types(path.join(folder, "management"));
    const notification = new Types(path.join(folder, "notification"));
    const call = (method, route, body) => ask(`${adyen}${route}`, { "X-API-Key": "AQE" }, method, body);
    const payment = (more) => ({
        merchantAccount: "ShopECOM", reference: "order-42", returnUrl: "https://shop.example/return", amount: { value: 1000, currency: "EUR" },
        paymentMethod: { type: "scheme", encryptedCardNumber: "test_4111111111111111", ...more },
        additionalData: { manualCapture: "true" },
    });
    const items = await received(adyen, async (url) => {
        const hook = { type: "standard", url, active: true, communicationFormat: "json", username: "me", password: "secret", description: "d" };
        const list = "/v3/merchants/ShopECOM/webhooks";
        const { id } = fits(management, "Webhook", await call("POST", list, hook));
        fits(management, "Webhook", await call("PATCH", `${list}/${id}`, { encryptionProtocol: "HTTP" }));
        fits(management, "GenerateHmacKeyResponse", await call("POST", `${list}/${id}/generateHmac`));
        const filter = { filterMerchantAccountType: "includeAccounts", filterMerchantAccounts: ["Other"] };
        fits(management, "Webhook", await call("POST", "/v3/companies/Shop/webhooks", { ...hook, ...filter }));
        for (let more = 0; more < 11; more++) await call("POST", list, { ...hook, active: false });
        for (const query of ["", "?pageNumber=2"]) fits(management, "ListWebhooksResponse", await call("GET", list + query));
        fits(management, "RestServiceError", await call("POST", list, {}), 422);
        fits(management, "RestServiceError", await call("PATCH", `${list}/${id}`), 400);
        fits(management, "RestServiceError", await call("GET", `${list}/none`), 404);
        fits(management, "RestServiceError", await ask(`${adyen}${list}`, {}, "GET"), 401);

        const { pspReference } = fits(checkout, "PaymentResponse", await call("POST", "/v72/payments", payment()));
        fits(checkout, "PaymentResponse", await call("POST", "/v72/payments", payment({ holderName: "DECLINED" })));
        fits(checkout, "PaymentResponse", await call("POST", "/v72/payments", payment({ holderName: "PENDING" })));
        const redirect = await call("POST", "/v72/payments", { ...payment(), paymentMethod: { type: "ideal" } });
        // The action is one of several types, by its own `type`.
        checkout.check("CheckoutRedirectAction", redirect.body.action);
        const { action, ...rest } = redirect.body;
        checkout.check("PaymentResponse", rest);
        const details = { details: { redirectResult: action.url.split("redirectData=")[1] } };
        fits(checkout, "PaymentDetailsResponse", await call("POST", "/v72/payments/details", details));
        const change = { merchantAccount: "ShopECOM", reference: "part", amount: { value: 10, currency: "EUR" } };
        const whole = { merchantAccount: "ShopECOM", reference: "part" };
        for (const [what, type, body] of [
            ["amountUpdates", "PaymentAmountUpdateResponse", { ...change, amount: { value: 1000, currency: "EUR" } }],
            ["captures", "PaymentCaptureResponse", { ...change, lineItems: [{ sku: "1", quantity: 1 }] }],
            ["refunds", "PaymentRefundResponse", change],
            ["cancels", "PaymentCancelResponse", whole],
            ["reversals", "PaymentReversalResponse", whole],
        ]) {
            fits(checkout, type, await call("POST", `/v72/payments/${pspReference}/${what}`, body), 201);
        }
        const byReference = { ...whole, paymentReference: "order-42" };
        fits(checkout, "StandalonePaymentCancelResponse", await call("POST", "/v72/cancels", byReference), 201);
        const { paymentMethod, additionalData, ...page } = payment();
        fits(checkout, "PaymentMethodsResponse", await call("POST", "/v72/paymentMethods", { merchantAccount: "ShopECOM" }));
        const shopper = { dateOfBirth: "1966-09-04", lineItems: [{ sku: "1", quantity: 1 }], metadata: { order: "42" } };
        const session = fits(checkout, "CreateCheckoutSessionResponse", await call("POST", "/v72/sessions", { ...page, ...shopper, mode: "hosted" }), 201);
        const paid = await call("POST", "/_fake/pay", { id: session.id, paymentMethod });
        const { sessionResult, ...paidAs } = paid.body;
        checkout.check("PaymentResponse", paidAs);
        const resultOf = `/v72/sessions/${session.id}?sessionResult=${sessionResult}`;
        fits(checkout, "SessionResultResponse", await call("GET", resultOf));
        fits(checkout, "ServiceError", await call("GET", `/v72/sessions/${session.id}`), 422);
        const link = fits(checkout, "PaymentLinkResponse", await call("POST", "/v72/paymentLinks", { ...page, ...shopper, manualCapture: true }), 201);
        fits(checkout, "PaymentLinkResponse", await call("GET", `/v72/paymentLinks/${link.id}`));
        fits(checkout, "PaymentLinkResponse", await call("PATCH", `/v72/paymentLinks/${link.id}`, { status: "expired" }));
        fits(checkout, "ServiceError", await call("PATCH", `/v72/paymentLinks/${link.id}`, { status: "expired" }), 422);
        fits(checkout, "ServiceError", await call("POST", "/v72/payments", { ...payment(), amount: { value: 1, currency: "ZZZ" } }), 422);
        fits(checkout, "ServiceError", await call("POST", "/v72/payments", { ...payment(), cents: 1 }), 400);
        fits(checkout, "ServiceError", await call("POST", "/v72/nowhere"), 404);
    });
    if (items.length < 7) problems.add(`${items.length} notifications`);
    for (const item of items) notification.check("NotificationRequestItem", item.notificationItems[0].NotificationRequestItem);
}

async function ofAccount(types) {
    const call = (method, route, body) => ask(`${postmark}${route}`, { "X-Postmark-Account-Token": "token" }, method, body);
    const page = "count=5&offset=0";
    const server = fits(types, "Server", await call("POST", "/servers", { Name: "Second" }));
    fits(types, "Server", await call("PUT", `/servers/${server.ID}`, { Name: "Third" }));
    fits(types, "Servers", await call("GET", `/servers?${page}`));
    fits(types, "DefaultResponse", await call("DELETE", `/servers/${server.ID}`), 422);
    const domain = fits(types, "DomainDetails", await call("POST", "/domains", { Name: "shop.example" }));
    fits(types, "DomainDetails", await call("PUT", `/domains/${domain.ID}/verifyDKIM`));
    fits(types, "Domains", await call("GET", `/domains?${page}`));
    const sender = fits(types, "SignatureDetails", await call("POST", "/senders", { Name: "Ann", FromEmail: "ann@shop.example" }));
    fits(types, "Signatures", await call("GET", `/senders?${page}`));
    fits(types, "DefaultResponse", await call("POST", `/senders/${sender.ID}/resend`));
    fits(types, "DefaultResponse", await call("DELETE", `/domains/${domain.ID}`));
}

async function ofPostmark() {
    const types = new Types(path.join(process.cwd(), "node_modules/postmark/dist/client/models"));
    // The library says text. Postmark's page and its other libraries have a number.
    types.shapes.get("OutboundMessages").fields.find((field) => field.name === "TotalCount").type = "number";
    // An address without a name has none: the example of the messages API shows null.
    types.shapes.get("Recipient").fields.find((field) => field.name === "Name").type = "string | null";
    // What did not fail has none: the tests of Postmark's library for .NET say null.
    types.shapes.get("SuppressionStatus").fields.find((field) => field.name === "Message").type = "string | null";
    const call = (method, route, body) => ask(`${postmark}${route}`, { "X-Postmark-Server-Token": "token" }, method, body);
    const mail = { From: "Shop <shop@example.com>", To: "Ann <ann@example.com>, b@example.com", Subject: "Hello", TextBody: "Paid.", Tag: "t", Metadata: { order: "42" } };
    const template = { Name: "Welcome", Alias: "welcome", Subject: "Hi {{name}}", TextBody: "{{name}}" };
    const page = "count=5&offset=0";
    const records = await received(postmark, async (Url) => {
        const hook = { Url, HttpAuth: { Username: "u", Password: "p" }, HttpHeaders: [{ Name: "X-A", Value: "b" }], Triggers: { Delivery: { Enabled: true }, Bounce: { Enabled: true } } };
        const { ID } = fits(types, "Webhook", await call("POST", "/webhooks", hook));
        fits(types, "Webhook", await call("PUT", `/webhooks/${ID}`, { HttpHeaders: [] }));
        fits(types, "Webhooks", await call("GET", "/webhooks"));

        const { MessageID } = fits(types, "MessageSendingResponse", await call("POST", "/email", mail));
        const batch = await call("POST", "/email/batch", [mail, mail]);
        for (const one of batch.body) types.check("MessageSendingResponse", one);
        fits(types, "DefaultResponse", await call("POST", "/email", { ...mail, From: "x" }), 422);
        fits(types, "OutboundMessages", await call("GET", `/messages/outbound?${page}`));
        fits(types, "OutboundMessageDetails", await call("GET", `/messages/outbound/${MessageID}/details`));
        fits(types, "OutboundMessageDump", await call("GET", `/messages/outbound/${MessageID}/dump`));

        const { TemplateId } = fits(types, "TemplateInList", await call("POST", "/templates", template));
        fits(types, "Template", await call("GET", `/templates/${TemplateId}`));
        fits(types, "TemplateInList", await call("PUT", "/templates/welcome", { Subject: "Hello" }));
        fits(types, "Templates", await call("GET", `/templates?${page}`));
        fits(types, "DefaultResponse", await call("DELETE", "/templates/welcome"));
        fits(types, "Server", await call("GET", "/server"));
        fits(types, "Server", await call("PUT", "/server", { Name: "Shop" }));
        fits(types, "MessageStreams", await call("GET", "/message-streams"));
        fits(types, "MessageStream", await call("GET", "/message-streams/outbound"));
        fits(types, "DeliveryStatistics", await call("GET", "/deliverystats"));
        const bounces = fits(types, "Bounces", await call("GET", `/bounces?${page}`));
        const bounce = bounces.Bounces[0].ID;
        fits(types, "Bounce", await call("GET", `/bounces/${bounce}`));
        fits(types, "BounceDump", await call("GET", `/bounces/${bounce}/dump`));
        fits(types, "BounceActivationResponse", await call("PUT", `/bounces/${bounce}/activate`));
        const list = { Suppressions: [{ EmailAddress: "away@example.com" }, { EmailAddress: "bad" }] };
        fits(types, "SuppressionStatuses", await call("POST", "/message-streams/broadcast/suppressions", list));
        fits(types, "Suppressions", await call("GET", "/message-streams/broadcast/suppressions/dump"));
        fits(types, "SuppressionStatuses", await call("POST", "/message-streams/broadcast/suppressions/delete", list));
        fits(types, "DefaultResponse", await call("DELETE", `/webhooks/${ID}`));
    });
    await ofAccount(types);
    if (records.length !== 6) problems.add(`${records.length} records of deliveries`);
    for (const record of records) types.check(`${record.RecordType}Webhook`, record);
}

await ofAdyen();
await ofPostmark();
if (problems.size > 0) {
    console.log([...problems].join("\n"));
    process.exit(1);
}
