const assert = require("node:assert");
const http = require("node:http");
const postmark = require("postmark");

const { FAKE_URL } = process.env;
const options = { useHttps: false, requestHost: new URL(FAKE_URL).host, timeout: 20 };
const client = new postmark.ServerClient("token", options);
const page = async (path, body) => {
    const answer = await fetch(`${FAKE_URL}/_fake/${path}`, body && { method: "POST", body: JSON.stringify(body) });
    assert.equal(answer.status, 200);
    return answer.json();
};
const refused = (call) => call.then(() => assert.fail("not refused"), (error) => error);
// Each is another mail: the judge takes two with the same words for one that was sent twice.
let mails = 0;
const mail = (more) => ({ From: "Shop <shop@example.com>", To: "Ann <ann@example.com>", Subject: `Hello ${++mails}`, TextBody: "Paid.", ...more });

async function flows() {
    const sent = await client.sendEmail(mail({ Tag: "receipt", Metadata: { order: "42" }, Cc: "c@example.com" }));
    assert.deepEqual([sent.ErrorCode, sent.Message], [0, "OK"]);
    const details = await client.getOutboundMessageDetails(sent.MessageID);
    assert.deepEqual([details.TextBody, details.Tag, details.Metadata.order], ["Paid.", "receipt", "42"]);
    assert.deepEqual(details.To, [{ Email: "ann@example.com", Name: "Ann" }]);
    assert.deepEqual(details.Recipients, ["ann@example.com", "c@example.com"]);
    assert.match((await client.getOutboundMessageDump(sent.MessageID)).Body, /Subject: Hello/);
    const found = await client.getOutboundMessages({ count: 10, offset: 0, tag: "receipt" });
    assert.deepEqual(found.Messages.map((message) => message.MessageID), [sent.MessageID]);

    const batch = await client.sendEmailBatch([mail({}), mail({ To: "inactive@example.com" }), mail({ To: "bad" })]);
    assert.deepEqual(batch.map((one) => one.ErrorCode), [0, 406, 300]);
    for (const [more, code] of [[{ TextBody: "" }, 300], [{ To: Array(51).fill("a@example.com").join(",") }, 300], [{ To: "inactive@example.com" }, 406], [{ MessageStream: "none" }, 1235], [{ MessageStream: "inbound" }, 1236], [{ From: "x" }, 300]]) {
        const error = await refused(client.sendEmail(mail(more)));
        assert.ok(error instanceof postmark.Errors.ApiInputError, error);
        assert.deepEqual([error.statusCode, error.code], [422, code], JSON.stringify(more).slice(0, 80));
    }
    assert.ok((await refused(client.sendEmail(mail({ To: "inactive@example.com" })))) instanceof postmark.Errors.InactiveRecipientsError);

    const template = await client.createTemplate({ Name: "Welcome", Alias: "welcome", Subject: "Hi {{name}}", HtmlBody: "<p>{{name}}</p>", TextBody: "{{name}}" });
    assert.equal((await client.getTemplate("welcome")).TemplateId, template.TemplateId);
    await client.editTemplate("welcome", { Subject: "Hello {{name}}" });
    const templated = await client.sendEmailWithTemplate({ From: "shop@example.com", To: "bob@example.com", TemplateAlias: "welcome", TemplateModel: { name: "Bob" } });
    assert.equal((await client.getOutboundMessageDetails(templated.MessageID)).Subject, "Hello Bob");
    const many = await client.sendEmailBatchWithTemplates([{ From: "shop@example.com", To: "bob@example.com", TemplateId: template.TemplateId, TemplateModel: {} }]);
    assert.equal(many[0].ErrorCode, 0);
    assert.ok((await client.getTemplates()).Templates.some((one) => one.Alias === "welcome"));
    await client.deleteTemplate("welcome");
    assert.equal((await refused(client.sendEmailWithTemplate({ From: "shop@example.com", To: "bob@example.com", TemplateAlias: "welcome", TemplateModel: {} }))).code, 1101);

    assert.equal((await client.getServer()).Name, "Fake");
    assert.equal((await client.editServer({ Name: "Shop" })).Name, "Shop");
    assert.deepEqual((await client.getMessageStreams()).MessageStreams.map((one) => one.ID), ["outbound", "broadcast", "inbound"]);
    assert.equal((await client.getMessageStream("broadcast")).MessageStreamType, "Broadcasts");
    assert.equal((await client.getDeliveryStatistics()).InactiveMails, 1);
    const [bounce] = (await client.getBounces({ count: 10, offset: 0 })).Bounces;
    assert.equal((await client.activateBounce(bounce.ID)).Bounce.Inactive, false);
    assert.equal((await client.sendEmail(mail({ To: "inactive@example.com" }))).ErrorCode, 0);
    const Suppressions = [{ EmailAddress: "away@example.com" }, { EmailAddress: "bad" }];
    const suppressed = await client.createSuppressions("broadcast", { Suppressions });
    assert.deepEqual(suppressed.Suppressions.map((one) => one.Status), ["Suppressed", "Failed"]);
    const [away] = (await client.getSuppressions("broadcast")).Suppressions;
    assert.deepEqual([away.EmailAddress, away.SuppressionReason, away.Origin], ["away@example.com", "ManualSuppression", "Customer"]);
    assert.deepEqual((await client.getSuppressions("outbound")).Suppressions, []);
    assert.equal((await refused(client.sendEmail(mail({ To: "away@example.com", MessageStream: "broadcast" })))).code, 406);
    assert.equal((await client.sendEmail(mail({ To: "away@example.com" }))).ErrorCode, 0);
    assert.equal((await client.deleteSuppressions("broadcast", { Suppressions: [{ EmailAddress: away.EmailAddress }] })).Suppressions[0].Status, "Deleted");
    assert.deepEqual((await client.getSuppressions("broadcast")).Suppressions, []);

    const account = new postmark.AccountClient("account", options);
    const server = await account.createServer({ Name: "Second", Color: "Blue" });
    assert.deepEqual((await account.getServers()).Servers.map((one) => one.Name), ["Shop", "Second"]);
    assert.equal((await account.editServer(server.ID, { Name: "Third" })).Name, "Third");
    assert.equal((await refused(account.deleteServer(server.ID))).code, 604);
    const domain = await account.createDomain({ Name: "shop.example" });
    assert.equal((await account.verifyDomainDKIM(domain.ID)).DKIMVerified, false);
    assert.equal((await account.verifyDomainSPF(domain.ID)).SPFHost, "shop.example");
    assert.equal((await account.editDomain(domain.ID, { ReturnPathDomain: "pm.shop.example" })).ReturnPathDomain, "pm.shop.example");
    const signature = await account.createSenderSignature({ Name: "Ann", FromEmail: "ann@shop.example" });
    assert.equal((await account.resendSenderSignatureConfirmation(signature.ID)).ErrorCode, 0);
    assert.equal((await account.editSenderSignature(signature.ID, { Name: "Bob" })).Name, "Bob");
    assert.equal((await account.getSenderSignatures()).SenderSignatures[0].EmailAddress, "ann@shop.example");
    await account.deleteSenderSignature(signature.ID);
    await account.deleteDomain(domain.ID);
    assert.equal((await refused(account.getDomain(domain.ID))).code, 510);

    const unknown = await refused(client.getMessageOpens());
    assert.equal(unknown.statusCode, 404);

    // Webhooks, by the vendor's own API and with its Basic credentials.
    const received = [];
    let arrived;
    const waits = new Promise((resolve) => { arrived = resolve; });
    const receiver = http.createServer(async (request, answer) => {
        let body = "";
        for await (const part of request) body += part;
        received.push([request.headers.authorization, JSON.parse(body)]);
        answer.end();
        arrived();
    }).listen(0, "127.0.0.1");
    await new Promise((resolve) => receiver.on("listening", resolve));
    const hook = await client.createWebhook({ Url: `http://127.0.0.1:${receiver.address().port}/`, HttpAuth: { Username: "u", Password: "p" }, Triggers: { Delivery: { Enabled: true } } });
    const told = await client.sendEmail(mail({}));
    await waits;
    assert.deepEqual([received[0][0], received[0][1].RecordType, received[0][1].MessageID], ["Basic dTpw", "Delivery", told.MessageID]);
    assert.equal((await client.getWebhooks()).Webhooks.length, 1);
    await client.deleteWebhook(hook.ID);
    receiver.close();

    // Faults. Postmark has no key: what is sent again is another message.
    for (const [fault, kind] of [["error-500-before", postmark.Errors.InternalServerError], ["too-many-requests=none", postmark.Errors.RateLimitExceededError]]) {
        await page("faults", { fault });
        assert.ok((await refused(client.sendEmail(mail({})))) instanceof kind, fault);
    }
    const before = (await page("ledger")).effects.length;
    await page("faults", { fault: "drop-after-apply" });
    await refused(client.sendEmail(mail({})));
    assert.equal((await page("ledger")).effects.length, before + 1, "accepted, and the caller does not know");
    await page("faults", { fault: "html" });
    await refused(client.getServer());
}

flows().then(() => process.exit(0), (error) => { console.error(error); process.exit(1); });
