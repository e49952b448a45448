"""Adyen's own library for Python through its ordinary flows, against the fake."""

import json

import Adyen
from Adyen.util import is_valid_hmac_notification

from support import URL, Receiver, fault, page, refused

adyen = Adyen.Adyen(xapikey="AQE-key", platform="test")
# Its documented hosts are https; only the address is another one.
for api in (adyen.checkout.payments_api, adyen.checkout.modifications_api, adyen.checkout.payment_links_api):
    api.baseUrl = f"{URL}/v72"
adyen.management.webhooks_merchant_level_api.baseUrl = f"{URL}/v3"
payments, changes = adyen.checkout.payments_api, adyen.checkout.modifications_api
links = adyen.checkout.payment_links_api


def payment(value=1000, **more):
    card = {"type": "scheme", "encryptedCardNumber": "test_4111111111111111", "encryptedExpiryMonth": "test_03",
            "encryptedExpiryYear": "test_2030", "encryptedSecurityCode": "test_737", **more.pop("card", {})}
    return {"merchantAccount": "ShopECOM", "reference": "order-42", "returnUrl": "https://shop.example/return",
            "amount": {"value": value, "currency": "EUR"}, "paymentMethod": card, **more}


def change(value):
    return {"merchantAccount": "ShopECOM", "reference": "part", "amount": {"value": value, "currency": "EUR"}}


receiver = Receiver()
hooks = adyen.management.webhooks_merchant_level_api
hook = hooks.set_up_webhook(
    {"type": "standard", "url": receiver.url, "active": True, "communicationFormat": "json"}, "ShopECOM").message
key = hooks.generate_hmac_key("ShopECOM", hook["id"]).message["hmacKey"]
assert [one["id"] for one in hooks.list_all_webhooks("ShopECOM").message["data"]] == [hook["id"]]

# Payments, and what the issuer says of them. By default Adyen captures by itself.
by_request = {"additionalData": {"manualCapture": "true"}}
paid = payments.payments(payment(**by_request), idempotency_key="order-42")
assert (paid.status_code, paid.message["resultCode"]) == (200, "Authorised"), paid
assert paid.psp == paid.message["pspReference"]
again = payments.payments(payment(**by_request), idempotency_key="order-42")
assert again.message == paid.message
declined = payments.payments(payment(card={"holderName": "NOT_ENOUGH_BALANCE"}), idempotency_key="declined").message
assert (declined["resultCode"], declined["refusalReasonCode"]) == ("Refused", "12"), declined
redirect = payments.payments({**payment(), "paymentMethod": {"type": "ideal"}}, idempotency_key="ideal").message
token = redirect["action"]["url"].split("redirectData=")[1]
done = payments.payments_details({"details": {"redirectResult": token}}, idempotency_key="ideal/details").message
assert done["resultCode"] == "Authorised", done

# Changes of a payment.
psp = paid.psp
captured = changes.capture_authorised_payment(change(600), psp, idempotency_key="capture")
assert (captured.status_code, captured.message["status"]) == (201, "received"), captured
changes.refund_captured_payment(change(600), psp, idempotency_key="refund")
changes.refund_captured_payment(change(1), psp, idempotency_key="too much")
whole = {"merchantAccount": "ShopECOM"}
adjusted = payments.payments(payment(500, **by_request), idempotency_key="adjusted").psp
changes.update_authorised_amount(change(700), adjusted, idempotency_key="adjust")
changes.refund_or_cancel_payment(whole, adjusted, idempotency_key="reverse")
cancelled = payments.payments(payment(500, reference="order-43", **by_request), idempotency_key="cancelled").psp
changes.cancel_authorised_payment_by_psp_reference(whole, cancelled, idempotency_key="cancel")
by_reference = {**whole, "paymentReference": "order-43", "reference": "again"}
changes.cancel_authorised_payment(by_reference, idempotency_key="cancel by reference")
automatic = payments.payments(payment(300), idempotency_key="automatic").psp
changes.capture_authorised_payment(change(300), automatic, idempotency_key="captured already")
changes.refund_or_cancel_payment(whole, automatic, idempotency_key="reverse a capture")

# What is refused, as the library tells it.
for request, kind, status, code in [
    (payment(card={"number": "4111111111111112"}), Adyen.exceptions.AdyenAPIUnprocessableEntity, 422, "101"),
    ({**payment(), "reference": ""}, Adyen.exceptions.AdyenAPIUnprocessableEntity, 422, "130"),
    ({**payment(), "merchantAccount": ""}, Adyen.exceptions.AdyenAPIInvalidPermission, 403, "901"),
    ({**payment(), "nonsense": 1}, Adyen.exceptions.AdyenAPIValidationError, 400, "702"),
]:
    error = refused(kind, payments.payments, request)
    assert (error.status_code, error.error_code) == (status, code), (error.status_code, error.error_code)
unknown = refused(Adyen.exceptions.AdyenAPIUnprocessableEntity, changes.capture_authorised_payment, change(1), "X" * 16)
assert unknown.error_code == "167"

# Faults: each is met, and the same key comes again.
for name in ("drop-after-apply", "reset-after-apply", "error-500-before", "key-in-use"):
    fault(name, path="/v72/payments", times=1)
    refused(Exception, payments.payments, payment(7), idempotency_key=f"after {name}")
    assert payments.payments(payment(7), idempotency_key=f"after {name}").message["resultCode"] == "Authorised"
ledger = page("ledger")
assert ledger["duplicates"] == [] and ledger["requests"]["after drop-after-apply"] == 2, ledger["requests"]

# Webhooks, verified by the library, with a payment's money in them.
told = {}
for _, body in receiver.wait(19):
    notification = json.loads(body)
    assert is_valid_hmac_notification(notification, key), notification
    item = notification["notificationItems"][0]["NotificationRequestItem"]
    item["merchantReference"] += "!"
    assert not is_valid_hmac_notification(notification, key), "a changed field"
    told.setdefault(item["eventCode"], []).append((item["success"], item["amount"]["value"]))
assert sorted(told["CAPTURE"]) == [("false", 300), ("true", 600)], told
assert sorted(told["REFUND"]) == [("false", 1), ("true", 600)], told
assert sorted(told["CANCEL_OR_REFUND"]) == [("true", 300), ("true", 700)] and told["CANCELLATION"] == [("true", 500)], told
assert told["TECHNICAL_CANCEL"] == [("false", 500)] and told["AUTHORISATION_ADJUSTMENT"] == [("true", 700)], told

# What Drop-in and Pay by Link begin with. A shopper pays at the fake's page.
asked = payment(900, reference="order-44", countryCode="NL")
card = asked.pop("paymentMethod")
listed = payments.payment_methods({"merchantAccount": "ShopECOM", "countryCode": "NL", "amount": asked["amount"]})
assert [one["type"] for one in listed.message["paymentMethods"]] == ["ideal", "scheme"], listed
session = payments.sessions(asked, idempotency_key="session")
assert (session.status_code, session.message["mode"]) == (201, "embedded"), session
assert payments.sessions(asked, idempotency_key="session").message == session.message
session = session.message["id"]
shopper = page("pay", {"id": session, "paymentMethod": card})
query = {"sessionResult": shopper["sessionResult"]}
result = payments.get_result_of_payment_session(session, query_parameters=query).message
assert (result["status"], result["payments"][0]["pspReference"]) == ("completed", shopper["pspReference"]), result
error = refused(Adyen.exceptions.AdyenAPIUnprocessableEntity, payments.get_result_of_payment_session, session)
assert error.message["message"] == "Required query parameter 'sessionResult' is not provided.", error.message
link = links.payment_links(asked, idempotency_key="link")
assert (link.status_code, link.message["status"], link.message["reusable"]) == (201, "active", False), link
assert links.get_payment_link(link.message["id"]).message == link.message
ended = links.update_payment_link({"status": "expired"}, link.message["id"]).message
assert (ended["status"], ended["id"]) == ("expired", link.message["id"]), ended
told = [json.loads(body)["notificationItems"][0]["NotificationRequestItem"] for _, body in receiver.wait(20)]
paid_here = [item for item in told if item["additionalData"].get("checkoutSessionId") == session]
assert [item["pspReference"] for item in paid_here] == [shopper["pspReference"]], told
hooks.remove_webhook("ShopECOM", hook["id"])
