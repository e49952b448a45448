import stripe
from stripe import StripeClient

from support import Receiver, fault, page, refused, URL

client = StripeClient("sk_test_123", base_addresses={"api": URL}, max_network_retries=2).v1


def customers_and_payment_methods():
    ada = client.customers.create({
        "name": "Ada", "email": "ada@example.com", "preferred_locales": ["en", "fr"],
        "address": {"line1": "1 High Street", "city": "London"}, "metadata": {"order": "42", "gone": "x"},
    })
    assert ada.address.line1 == "1 High Street" and ada.address.postal_code is None
    assert ada.preferred_locales == ["en", "fr"] and ada.delinquent is False
    ada = client.customers.update(ada.id, {"metadata": {"gone": "", "new": "y"}, "name": ""})
    assert ada.metadata.to_dict() == {"order": "42", "new": "y"} and ada.name is None
    method = client.payment_methods.create(
        {"type": "card", "card": {"token": "tok_mastercard"}, "billing_details": {"name": "Ada"}})
    assert (method.card.brand, method.card.last4) == ("mastercard", "4444")
    client.payment_methods.attach(method.id, {"customer": ada.id})
    assert [m.id for m in client.customers.payment_methods.list(ada.id).data] == [method.id]
    error = refused(stripe.InvalidRequestError, client.payment_methods.attach, method.id, {"customer": client.customers.create({}).id})
    assert error.code == "payment_method_already_attached"
    client.payment_methods.detach(method.id)
    assert client.payment_methods.list({"customer": ada.id, "type": "card"}).data == []
    assert client.customers.delete(ada.id).deleted is True
    assert client.customers.retrieve(ada.id).deleted is True
    error = refused(stripe.InvalidRequestError, client.customers.update, ada.id, {"name": "x"})
    assert (error.http_status, error.code) == (404, "resource_missing")


def payments():
    intent = client.payment_intents.create({"amount": 1000, "currency": "USD", "automatic_payment_methods": {"enabled": True}})
    assert intent.status == "requires_payment_method" and intent.currency == "usd"
    assert intent.client_secret.startswith(intent.id + "_secret_") and intent.automatic_payment_methods.enabled is True
    intent = client.payment_intents.update(intent.id, {"amount": 1200, "metadata": {"a": "b"}})
    intent = client.payment_intents.confirm(intent.id, {
        "payment_method": "pm_card_visa", "return_url": "https://example.com", "expand": ["latest_charge.balance_transaction"]})
    assert (intent.status, intent.amount_received) == ("succeeded", 1200)
    charge = intent.latest_charge
    assert (charge.amount, charge.paid, charge.captured, charge.status) == (1200, True, True, "succeeded")
    assert charge.payment_method_details.card.last4 == "4242"
    assert charge.balance_transaction.net == 1200 - charge.balance_transaction.fee
    error = refused(stripe.InvalidRequestError, client.payment_intents.cancel, intent.id)
    assert error.code == "payment_intent_unexpected_state", error

    error = refused(stripe.InvalidRequestError, client.refunds.create, {"charge": charge.id, "amount": 1201})
    assert "greater than unrefunded amount on charge ($12.00)" in error.user_message and error.param == "amount"
    part = client.refunds.create({"payment_intent": intent.id, "amount": 500, "reason": "requested_by_customer"})
    assert (part.amount, part.currency, part.charge, part.status) == (500, "usd", charge.id, "succeeded")
    error = refused(stripe.InvalidRequestError, client.refunds.create, {"charge": charge.id, "amount": 701})
    assert "unrefunded amount" in error.user_message
    client.refunds.create({"charge": charge.id})
    charge = client.charges.retrieve(charge.id)
    assert (charge.amount_refunded, charge.refunded) == (1200, True)
    error = refused(stripe.InvalidRequestError, client.refunds.create, {"charge": charge.id})
    assert error.code == "charge_already_refunded"
    assert len(client.refunds.list({"charge": charge.id}).data) == 2
    net = sum(line.net for line in client.balance_transactions.list({"limit": 100}).auto_paging_iter())
    balance = client.balance.retrieve()
    assert net == sum(side.amount for side in list(balance.available) + list(balance.pending) if side.currency == "usd")


def capture_and_cancel():
    held = client.payment_intents.create({
        "amount": 900, "currency": "eur", "capture_method": "manual", "payment_method": "pm_card_visa", "confirm": True,
        "payment_method_types": ["card"]})
    assert (held.status, held.amount_capturable) == ("requires_capture", 900)
    error = refused(stripe.InvalidRequestError, client.payment_intents.capture, held.id, {"amount_to_capture": 901})
    assert error.code == "amount_too_large"
    done = client.payment_intents.capture(held.id, {"amount_to_capture": 400})
    assert (done.status, done.amount_received, done.amount_capturable) == ("succeeded", 400, 0)
    charge = client.charges.retrieve(held.latest_charge)
    assert (charge.amount_captured, charge.amount_refunded, charge.refunded) == (400, 0, False)
    error = refused(stripe.InvalidRequestError, client.refunds.create, {"payment_intent": held.id, "amount": 401})
    assert "greater than unrefunded amount on charge" in error.user_message
    other = client.payment_intents.create({
        "amount": 900, "currency": "eur", "capture_method": "manual", "payment_method": "pm_card_visa", "confirm": True,
        "payment_method_types": ["card"]})
    gone = client.payment_intents.cancel(other.id, {"cancellation_reason": "abandoned"})
    assert (gone.status, gone.cancellation_reason) == ("canceled", "abandoned") and gone.canceled_at
    charge = client.charges.create({"amount": 700, "currency": "usd", "source": "tok_visa", "capture": False})
    assert (charge.captured, charge.paid) == (False, True)
    assert client.charges.capture(charge.id, {"amount": 600}).amount_captured == 600
    assert refused(stripe.InvalidRequestError, client.charges.capture, charge.id).code == "charge_already_captured"


def declines():
    error = refused(stripe.CardError, client.payment_intents.create, {
        "amount": 1000, "currency": "usd", "payment_method": "pm_card_chargeDeclinedInsufficientFunds", "confirm": True,
        "payment_method_types": ["card"]})
    assert (error.code, error.error.decline_code) == ("card_declined", "insufficient_funds")
    intent = client.payment_intents.retrieve(error.error.payment_intent.id)
    assert intent.status == "requires_payment_method" and intent.last_payment_error.code == "card_declined"
    intent = client.payment_intents.confirm(intent.id, {"payment_method": "pm_card_visa"})
    assert intent.status == "succeeded" and intent.last_payment_error is None
    assert refused(stripe.CardError, client.charges.create, {"amount": 50, "currency": "usd", "source": "tok_chargeDeclinedExpiredCard"}).code == "expired_card"
    asks = client.payment_intents.create({"amount": 1000, "currency": "usd", "payment_method": "pm_card_authenticationRequired", "confirm": True, "return_url": "https://example.com"})
    assert (asks.status, asks.next_action.type) == ("requires_action", "redirect_to_url")


def methods_are_used_once_without_a_customer():
    card = {"type": "card", "card": {"token": "tok_visa"}}
    pay = {"amount": 1000, "currency": "usd", "confirm": True, "return_url": "https://example.com"}
    once = client.payment_methods.create(card)
    assert client.payment_intents.create({**pay, "payment_method": once.id}).status == "succeeded"
    error = refused(stripe.InvalidRequestError, client.payment_intents.create, {**pay, "payment_method": once.id})
    assert "may not be used again" in error.user_message
    ada = client.customers.create({})
    refused(stripe.InvalidRequestError, client.payment_methods.attach, once.id, {"customer": ada.id})
    kept = client.payment_methods.create(card)
    client.payment_methods.attach(kept.id, {"customer": ada.id})
    for _ in range(2):
        paid = client.payment_intents.create({**pay, "customer": ada.id, "payment_method": kept.id, "off_session": True})
        assert paid.status == "succeeded"
    error = refused(stripe.InvalidRequestError, client.payment_intents.create, {**pay, "payment_method": kept.id})
    assert "belongs to the Customer" in error.user_message
    del pay["return_url"]
    error = refused(stripe.InvalidRequestError, client.payment_intents.create, {**pay, "payment_method": "pm_card_visa"})
    assert "return_url" in error.user_message and error.http_status == 400
    never = {"enabled": True, "allow_redirects": "never"}
    done = client.payment_intents.create({**pay, "payment_method": "pm_card_visa", "automatic_payment_methods": never})
    assert done.status == "succeeded" and done.automatic_payment_methods.allow_redirects == "never"
    setup = {"customer": ada.id, "payment_method": "pm_card_visa", "confirm": True}
    assert "return_url" in refused(stripe.InvalidRequestError, client.setup_intents.create, setup).user_message
    assert client.setup_intents.create({**setup, "payment_method_types": ["card"]}).status == "succeeded"


def refusals():
    for params, code, param in [
        ({"currency": "usd"}, "parameter_missing", "amount"),
        ({"amount": 100}, "parameter_missing", "currency"),
        ({"amount": 0, "currency": "usd"}, "parameter_invalid_integer", "amount"),
        ({"amount": 49, "currency": "usd"}, "amount_too_small", "amount"),
        ({"amount": "ten", "currency": "usd"}, "parameter_invalid_integer", "amount"),
        ({"amount": 100, "currency": "xxx"}, None, "currency"),
        ({"amount": 100, "currency": "usd", "colour": "red"}, "parameter_unknown", "colour"),
        ({"amount": 100, "currency": "usd", "shipping": {"name": "A", "drone": 1}}, "parameter_unknown", "shipping[drone]"),
        ({"amount": 100, "currency": "usd", "confirm": "perhaps"}, None, "confirm"),
        ({"amount": 100, "currency": "usd", "customer": "cus_none"}, "resource_missing", "customer"),
        ({"amount": 100, "currency": "usd", "payment_method": "pm_none"}, "resource_missing", "payment_method"),
        ({"amount": 100, "currency": "usd", "capture_method": "later"}, None, "capture_method"),
    ]:
        error = refused(stripe.InvalidRequestError, client.payment_intents.create, params)
        assert (error.http_status, error.code, error.param) == (400, code, param), (params, error)
    assert refused(stripe.InvalidRequestError, client.charges.retrieve, "ch_none").http_status == 404
    assert refused(stripe.InvalidRequestError, client.charges.list, {"colour": "red"}).param == "colour"
    error = refused(stripe.InvalidRequestError, client.customers.search, {"query": "x"})
    assert error.http_status == 404
    wrong = StripeClient("not-a-key", base_addresses={"api": URL}).v1
    refused(stripe.AuthenticationError, wrong.charges.list)


def lists():
    ids = [client.products.create({"name": f"p{n}", "metadata": {"n": str(n)}}).id for n in range(25)]
    newest = ids[::-1]
    pages = list(client.products.list({"limit": 10}).auto_paging_iter())
    assert [p.id for p in pages] == newest
    back = client.products.list({"limit": 10, "ending_before": ids[0]})
    assert [p.id for p in back.data] == newest[14:24] and back.has_more
    assert [p.id for p in back.auto_paging_iter()] == newest[14:24][::-1] + newest[:14][::-1]
    created = client.products.retrieve(ids[3]).created
    assert ids[3] in [p.id for p in client.products.list({"created": created, "limit": 100}).data]
    assert client.products.list({"created": {"gt": created + 3600}}).data == []
    assert client.products.list({"active": False}).data == []
    client.products.update(ids[0], {"active": False})
    assert [p.id for p in client.products.list({"active": False}).data] == [ids[0]]
    assert [p.id for p in client.products.list({"ids": [ids[1], ids[2]]}).data] == [ids[2], ids[1]]
    assert refused(stripe.InvalidRequestError, client.products.list, {"starting_after": "prod_none"}).code == "resource_missing"
    assert refused(stripe.InvalidRequestError, client.products.list, {"limit": 101}).param == "limit"


def billing():
    customer = client.customers.create({"payment_method": "pm_card_visa"})
    method = client.customers.payment_methods.list(customer.id).data[0]
    client.customers.update(customer.id, {"invoice_settings": {"default_payment_method": method.id}})
    price = client.prices.create({"currency": "usd", "unit_amount": 1500, "recurring": {"interval": "month"}, "product_data": {"name": "Plan"}})
    assert (price.type, price.recurring.interval_count, price.unit_amount_decimal) == ("recurring", 1, 1500)
    sub = client.subscriptions.create({"customer": customer.id, "items": [{"price": price.id, "quantity": 2}], "expand": ["latest_invoice"]})
    assert (sub.status, sub.latest_invoice.status, sub.latest_invoice.amount_paid) == ("active", "paid", 3000)
    item = sub["items"].data[0]
    assert item.current_period_end > item.current_period_start and item.quantity == 2
    assert client.subscriptions.update(sub.id, {"cancel_at_period_end": True}).cancel_at == item.current_period_end
    assert client.subscriptions.cancel(sub.id).status == "canceled"
    trial = client.subscriptions.create({"customer": customer.id, "items": [{"price": price.id}], "trial_period_days": 7, "expand": ["latest_invoice"]})
    assert trial.status == "trialing" and trial.trial_end - trial.trial_start == 7 * 86400
    assert (trial.latest_invoice.status, trial.latest_invoice.total) == ("paid", 0)
    kept = client.subscriptions.create({"customer": customer.id, "items": [{"price": price.id}]})
    item = client.subscription_items.update(kept["items"].data[0].id, {"quantity": 2, "proration_behavior": "always_invoice"})
    billed = client.invoices.retrieve(client.subscriptions.retrieve(kept.id).latest_invoice)
    assert (item.quantity, billed.billing_reason, billed.total, billed.status) == (2, "subscription_update", 1500, "paid")
    credited = client.customers.create({})
    client.invoice_items.create({"customer": credited.id, "amount": -500, "currency": "usd"})
    credit = client.invoices.create({"customer": credited.id, "pending_invoice_items_behavior": "include"})
    credit = client.invoices.finalize_invoice(credit.id)
    assert (credit.total, credit.amount_due, credit.status, credit.ending_balance) == (-500, 0, "paid", -500)
    assert client.customers.retrieve(credited.id).balance == -500
    told = client.events.list({"type": "customer.updated", "limit": 1}).data[0].data
    assert (told.object.id, told.previous_attributes["balance"]) == (credited.id, 0)

    client.invoice_items.create({"customer": customer.id, "amount": 700, "currency": "usd", "description": "one"})
    invoice = client.invoices.create({"customer": customer.id, "pending_invoice_items_behavior": "include"})
    client.invoice_items.create({"customer": customer.id, "invoice": invoice.id, "amount": 300, "currency": "usd"})
    invoice = client.invoices.finalize_invoice(invoice.id)
    assert (invoice.status, invoice.total, invoice.amount_due, len(invoice.lines.data)) == ("open", 1000, 1000, 2)
    invoice = client.invoices.pay(invoice.id)
    assert (invoice.status, invoice.amount_paid, invoice.amount_remaining) == ("paid", 1000, 0)
    assert refused(stripe.InvalidRequestError, client.invoices.void_invoice, invoice.id).code
    poor = client.customers.create({})
    owed = client.invoices.create({"customer": poor.id})
    client.invoice_items.create({"customer": poor.id, "invoice": owed.id, "amount": 100, "currency": "usd"})
    refused(stripe.InvalidRequestError, client.invoices.pay, owed.id)
    assert client.invoices.retrieve(owed.id).status == "draft"
    assert client.invoices.finalize_invoice(owed.id).status == "open"
    refused(stripe.InvalidRequestError, client.invoices.pay, owed.id)
    assert client.invoices.void_invoice(owed.id).status == "void"
    coupon = client.coupons.create({"percent_off": 25, "duration": "once"})
    assert client.promotion_codes.create({"promotion": {"type": "coupon", "coupon": coupon.id}, "code": "SPRING"}).code == "SPRING"
    payout = client.payouts.create({"amount": 5, "currency": "usd"})
    assert client.payouts.cancel(payout.id).status == "canceled"
    refused(stripe.InvalidRequestError, client.payouts.cancel, payout.id)


def keys_and_faults():
    options = {"idempotency_key": "py-1"}
    params = {"amount": 1000, "currency": "usd", "source": "tok_visa"}
    first = client.charges.create(params, options)
    again = client.charges.create(params, options)
    assert first.id == again.id and again.last_response.headers["Idempotent-Replayed"] == "true"
    refused(stripe.IdempotencyError, client.charges.create, {**params, "amount": 2000}, options)
    # The library retries by itself, with a key of its own.
    for name in ["drop-after-apply", "reset-after-apply", "drop-before-read", "key-in-use", "error-500-after"]:
        before = page("ledger")["effects"]
        fault(name, path="/v1/charges", method="POST")
        charge = client.charges.create({**params, "metadata": {"fault": name}})
        made = page("ledger")["effects"][len(before):]
        assert [effect["id"] for effect in made] == [charge.id], (name, made)
    fault("stored-500", path="/v1/charges", method="POST")
    refused(stripe.APIError, client.charges.create, params, {"idempotency_key": "py-2"})
    fault("too-many-requests=none", path="/v1/charges", method="POST")
    refused(stripe.RateLimitError, client.charges.create, params)


def webhooks():
    receiver = Receiver()
    unknown = {"url": receiver.url, "enabled_events": ["charge.exploded"]}
    assert refused(stripe.InvalidRequestError, client.webhook_endpoints.create, unknown).param == "enabled_events[0]"
    endpoint = client.webhook_endpoints.create({"url": receiver.url, "enabled_events": ["charge.succeeded", "refund.created"]})
    charge = client.charges.create({"amount": 50, "currency": "usd", "source": "tok_visa"})
    headers, body = receiver.wait(1)[0]
    event = stripe.Webhook.construct_event(body, headers["stripe-signature"], endpoint.secret)
    assert (event.type, event.data.object.id) == ("charge.succeeded", charge.id)
    assert client.events.retrieve(event.id).type == "charge.succeeded"
    refused(stripe.SignatureVerificationError, stripe.Webhook.construct_event, body + b" ", headers["stripe-signature"], endpoint.secret)
    # Held back, then both in the wrong order, twice each.
    page("webhooks", {"hold": True})
    client.refunds.create({"charge": charge.id, "amount": 20})
    client.refunds.create({"charge": charge.id, "amount": 30})
    assert len(receiver.received) == 1
    page("webhooks", {"newest_first": True, "times": 2})
    sent = [stripe.Webhook.construct_event(body, headers["stripe-signature"], endpoint.secret) for headers, body in receiver.wait(5)[1:]]
    assert [e.data.object.amount for e in sent] == [30, 30, 20, 20]
    assert len({e.id for e in sent}) == 2
    # Late: signed ten minutes ago, which the tolerance does not take.
    page("webhooks", {"send": [event.id], "signed_ago_s": 600})
    headers, body = receiver.wait(6)[5]
    refused(stripe.SignatureVerificationError, stripe.Webhook.construct_event, body, headers["stripe-signature"], endpoint.secret)
    page("webhooks", {"hold": False})
    client.webhook_endpoints.update(endpoint.id, {"disabled": True})
    client.charges.create({"amount": 50, "currency": "usd"})
    assert len(page("webhooks")["deliveries"]) == 3


FLOWS = [customers_and_payment_methods, payments, capture_and_cancel, declines,
         methods_are_used_once_without_a_customer, refusals, lists, billing, keys_and_faults, webhooks]
for flow in FLOWS:
    flow()
