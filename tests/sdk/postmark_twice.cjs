// What a caller must not do: the answer is lost, and the mail is sent again. The judge is to see it.
const postmark = require("postmark");

const { FAKE_URL } = process.env;
const client = new postmark.ServerClient("token", { useHttps: false, requestHost: new URL(FAKE_URL).host, timeout: 20 });
const mail = (order) => ({ From: "shop@example.com", To: "ann@example.com", Subject: "Paid", TextBody: "Paid.", Metadata: { order } });

async function flow() {
    await fetch(`${FAKE_URL}/_fake/faults`, { method: "POST", body: JSON.stringify({ fault: "drop-after-apply" }) });
    await client.sendEmail(mail("42")).then(() => { throw new Error("its answer is not lost"); }, () => client.sendEmail(mail("42")));
    // Two mails that say other things are two.
    await client.sendEmail(mail("43"));
    await client.sendEmail({ ...mail("42"), Subject: "Sent" });
}

flow().then(() => process.exit(0), (error) => { console.error(error); process.exit(1); });
