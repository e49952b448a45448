import itertools

from postmarker.core import PostmarkClient
from postmarker.exceptions import ClientError

from support import fault, page, refused, URL

client = PostmarkClient(server_token="token", account_token="account", root_api_url=URL + "/")
number = itertools.count(1)


def mail(**more):
    """Each is another mail: the judge takes two with the same words for one that was sent twice."""
    subject = f"Hello {next(number)}"
    return {"From": "shop@example.com", "To": "ann@example.com", "Subject": subject, "HtmlBody": "<b>Paid.</b>", **more}


sent = client.emails.send(**mail(Metadata={"order": "42"}, Tag="py", Headers={"X-A": "b"}))
assert (sent["ErrorCode"], sent["To"]) == (0, "ann@example.com")
message = client.messages.outbound.get(sent["MessageID"])
assert "Paid." in message.get_dump() and message.Metadata == {"order": "42"}
assert [m.MessageID for m in client.messages.outbound.all(tag="py")] == [sent["MessageID"]]
assert client.messages.outbound.all(recipient="nobody@example.com") == []
assert refused(ClientError, client.messages.outbound.get, "none").error_code == 701

batch = client.emails.send_batch(mail(), mail(To="inactive@example.com"))
assert [one["ErrorCode"] for one in batch] == [0, 406]
assert refused(ClientError, client.emails.send, **mail(To="inactive@example.com")).error_code == 406

# The library's own spelling has a slash at the end.
template = client.templates.create(Name="T", Subject="{{a}}", HtmlBody="<i>{{a}}</i>", TextBody="{{a}}")
id = template.TemplateId
sent = client.emails.send_with_template(TemplateId=id, TemplateModel={"a": "x"}, From="shop@example.com", To="b@example.com")
assert client.messages.outbound.get(sent["MessageID"]).Subject == "x"
assert client.templates.get(id).Active is True
client.templates.edit(id, Subject="new", Name="T", HtmlBody="h")
assert client.templates.get(id).Subject == "new"
assert id in [t.TemplateId for t in client.templates.all()]
client.templates.delete(id)
assert refused(ClientError, client.emails.send_with_template, TemplateId=id, TemplateModel={}, From="shop@example.com", To="b@example.com").error_code == 1101

assert client.server.get().ID == 1
domain = client.domains.create("shop.example", "pm.shop.example")
assert domain.DKIMUpdateStatus == "Pending" and [d.ID for d in client.domains.all()] == [domain.ID]
assert client.domains.verifyspf(domain.ID)["SPFVerified"] is True
assert refused(ClientError, client.domains.create, "shop.example").error_code == 512
sender = client.senders.create("ann@shop.example", "Ann")
assert client.senders.get(sender.ID).Confirmed is False and "re-sent" in client.senders.resend(sender.ID)
assert "removed" in client.senders.delete(sender.ID) and "removed" in client.domains.delete(domain.ID)
stats = client.bounces.deliverystats
assert stats["InactiveMails"] == 1
bounce = client.bounces.all()[0]
assert bounce.Email == "inactive@example.com" and client.bounces.get(bounce.ID).Inactive is True
bounce.activate()
assert client.emails.send(**mail(To="inactive@example.com"))["ErrorCode"] == 0
assert refused(ClientError, client.bounces.get, 999).error_code == 1001

fault("error-500-after")
before = len(page("ledger")["effects"])
assert refused(ClientError, client.emails.send, **mail()).error_code == 101
assert len(page("ledger")["effects"]) == before + 1, "accepted, and said to have failed"
fault("drop-before-read")
refused(Exception, client.emails.send, **mail())
assert len(page("ledger")["effects"]) == before + 1
