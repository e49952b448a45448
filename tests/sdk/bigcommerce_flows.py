import base64
import hashlib
import hmac
import json
from urllib.parse import urlsplit, urlunsplit

import requests
from bigcommerce.api import BigcommerceApi
from bigcommerce.exception import ClientRequestException, RateLimitingException, ServerException

from support import Receiver, fault, page, refused, URL


class ToTheFake(requests.adapters.HTTPAdapter):
    """The library knows one host, by https. What it sends there goes to the fake as it is."""

    def send(self, request, **options):
        there = urlsplit(URL)
        request.url = urlunsplit((there.scheme, there.netloc, *urlsplit(request.url)[2:]))
        return super().send(request, **options)


def store(version):
    api = BigcommerceApi(client_id="id", store_hash="abc123", access_token="token")
    api.connection.api_path = "/stores/{}/" + version + "/{}"
    api.connection._session.mount("https://", ToTheFake())
    return api


v2, v3 = store("v2"), store("v3")

MUG = [{"name": "Mug", "quantity": 1, "price_inc_tax": 12, "price_ex_tax": 10}]
TO = {"first_name": "Jane", "last_name": "Doe", "street_1": "123 Main Street", "city": "Austin", "state": "Texas",
      "zip": "78751", "country": "United States", "country_iso2": "US", "email": "jane@example.com"}
order = v2.Orders.create(external_order_id="o-1", customer_id=0, billing_address=TO, products=[
    {"name": "Mug", "quantity": 2, "price_inc_tax": 12.5, "price_ex_tax": 10}])
assert order.total_inc_tax == "25.0000" and order.items_total == 2, order
assert v2.connection.rate_limit["requests_quota"] > 0
assert v2.Orders.get(order.id).external_order_id == "o-1"
assert [p.name for p in v2.Orders.get(order.id).products()] == ["Mug"]
assert v2.Orders.count() == 1
assert [o.id for o in v2.Orders.all(external_order_id="o-1")] == [order.id]
assert [o.id for o in v2.Orders.all(min_date_created="2020-01-01")] == [order.id]
assert "id" not in v2.Orders.all(min_date_created="2099-01-01")
assert "id" not in v2.Orders.all(min_total=26)
assert order.update(status_id=2).status_id == 2
refused(ClientRequestException, v2.Orders.all, colour="red")
refused(ClientRequestException, v2.Orders.get, 999)
refused(ClientRequestException, v2.Orders.create, external_order_id="empty", billing_address=TO)
refused(ClientRequestException, v2.Orders.create, external_order_id="unaddressed", products=MUG)
refused(ClientRequestException, v2.Orders.create, external_order_id="misspelt", billing_adress=TO, billing_address=TO, products=MUG)
for n in range(5):
    v2.Orders.create(external_order_id=f"more-{n}", billing_address=TO, products=MUG)
assert len(list(v2.Orders.iterall())) == 6
assert len(v2.Orders.all(limit=4, page=2)) == 2
v2.Orders.get(order.id).delete()
assert v2.Orders.count() == 5

customer = v2.Customers.create(first_name="Ada", last_name="L", email="ada@example.com")
assert customer.email == "ada@example.com"
refused(ClientRequestException, v2.Customers.create, first_name="Ada", last_name="L", email="ADA@example.com")
refused(ClientRequestException, v2.Customers.create, email="x@example.com")
assert v2.Customers.count(email="ada@example.com") == 1
spring = {"name": "Spring", "code": "SPRING", "type": "per_total_discount", "amount": 5}
refused(ClientRequestException, v2.Coupons.create, **spring)
spring["applies_to"] = {"entity": "categories", "ids": [0]}
coupon = v2.Coupons.create(**spring)
assert coupon.enabled is True and coupon.amount == "5.0000", coupon
refused(ClientRequestException, v2.Coupons.create, **spring)
assert v2.Time.all()["time"] > 0
refused(ClientRequestException, v2.connection.get, "spaceships")

# V3 by the connection that the library has for what it has no class for.
made = v3.connection.post("catalog/brands", {"name": "Brand"})["data"]
refused(ClientRequestException, v3.connection.post, "catalog/brands", {"name": "brand"})
assert v3.connection.get("catalog/brands", name="Brand")["data"][0]["id"] == made["id"]
assert v3.connection.put(f"catalog/brands/{made['id']}", {"name": "Other"})["data"]["name"] == "Other"
nameless = {"email": "b@example.com"}
named = [{"email": "a@example.com", "first_name": "A", "last_name": "B"}, {**nameless, "first_name": "B", "last_name": "C"}]
refused(ClientRequestException, v3.connection.post, "customers", [nameless])
people = v3.connection.post("customers", named)["data"]
changed = v3.connection.put("customers", [{"id": people[0]["id"], "company": "C"}])["data"]
assert (changed[0]["company"], changed[0]["email"]) == ("C", "a@example.com")
refused(ClientRequestException, v3.connection.put, "customers", [{"id": 9999, "company": "C"}])
refused(ClientRequestException, v3.connection.get, f"customers/{people[0]['id']}")
v3.connection.delete("customers")  # Without a filter it removes none.
assert len(v3.connection.get("customers")["data"]) == 2
v3.connection.make_request("DELETE", "customers", params={"id:in": people[0]["id"]})
assert [p["email"] for p in v3.connection.get("customers")["data"]] == ["b@example.com"]

# Refunds add up to the order's total at most.
paid = v2.Orders.create(billing_address=TO, products=[{"name": "Mug", "quantity": 1, "price_inc_tax": 20, "price_ex_tax": 20}])
by_hand = lambda amount: [{"provider_id": "custom", "amount": amount, "offline": True}]
refund = lambda amount: v3.connection.post(f"orders/{paid.id}/payment_actions/refunds", {"items": [{"item_type": "ORDER", "item_id": paid.id, "amount": amount}], "payments": by_hand(amount)})
refused(ClientRequestException, v3.connection.post, "orders/999/payment_actions/refunds", {"items": [{"item_type": "ORDER", "item_id": 999, "amount": 1}], "payments": by_hand(1)})
refused(ClientRequestException, v3.connection.post, f"orders/{paid.id}/payment_actions/refunds", {"items": [{"item_type": "ORDER", "item_id": paid.id, "amount": 1}]})
refused(ClientRequestException, refund, 0)
refund(15)
refused(ClientRequestException, refund, 5.01)
refund(5)
refunded = v2.Orders.get(paid.id)
assert (refunded.status, refunded.refunded_amount) == ("Refunded", "20.0000"), refunded

# Shipping is in the total, a change of it computes the order anew, and a refund is as it was quoted: with its tax.
sent = v2.Orders.create(billing_address=TO, shipping_addresses=[TO], shipping_cost_ex_tax=10, shipping_cost_inc_tax=11, products=MUG)
assert (sent.total_inc_tax, sent.total_tax) == ("23.0000", "3.0000"), sent
sent = sent.update(shipping_cost_ex_tax=5, shipping_cost_inc_tax=5.5)
assert sent.total_inc_tax == "17.5000", sent
line = v2.Orders.get(sent.id).products()[0]
sent = sent.update(products=[{"id": line.id, "quantity": 2}])
assert (sent.total_inc_tax, sent.items_total) == ("29.5000", 2), sent
items = [{"item_type": "PRODUCT", "item_id": line.id, "quantity": 2}, {"item_type": "SHIPPING", "item_id": line.order_address_id, "amount": 5}]
actions = f"orders/{sent.id}/payment_actions"
quote = v3.connection.post(f"{actions}/refund_quotes", {"items": items})["data"]
assert (quote["total_refund_amount"], quote["total_refund_tax_amount"], quote["adjustment"]) == (29.5, 4.5, 0), quote
paid_by = [{key: one[key] for key in ("provider_id", "amount", "offline")} for one in quote["refund_methods"][-1]]
made = v3.connection.post(f"{actions}/refunds", {"items": items, "payments": paid_by})["data"]
assert (made["total_amount"], made["total_tax"]) == (29.5, 4.5), made
assert v2.Orders.get(sent.id).status == "Refunded"

# A product without options is sold as its base variant.
plain = v3.connection.post("catalog/products", {"name": "Plain", "type": "physical", "weight": 1, "price": 5, "sku": "PLAIN"})["data"]
found = v3.connection.get(f"catalog/products/{plain['id']}", include="variants")["data"]["variants"]
assert [(one["id"], one["sku"], one["option_values"]) for one in found] == [(plain["base_variant_id"], "PLAIN", [])], found

# A cart is an object of lists, under a UUID; the order of a checkout is incomplete until it is paid.
cart = v3.connection.post("carts", {"line_items": [{"product_id": 1, "quantity": 2, "list_price": 5}]})["data"]
assert len(cart["id"]) == 36 and cart["line_items"]["physical_items"][0]["quantity"] == 2, cart
placed = v3.connection.post(f"checkouts/{cart['id']}/orders", {})["data"]["id"]
assert (v2.Orders.get(placed).status, v2.Orders.get(placed).total_inc_tax) == ("Incomplete", "10.0000")

# Webhooks: the scope and an id.
receiver = Receiver()
v3.connection.post("hooks", {"scope": "store/order/*", "destination": receiver.url, "is_active": True, "headers": {"X-Own": "1"}})
refused(ClientRequestException, v3.connection.post, "hooks", {"scope": "store/order/deleted", "destination": receiver.url})


def verified(received):
    """The event, signed by Standard Webhooks with the app's client secret."""
    headers, body = received
    event = json.loads(body)
    assert headers["x-own"] == "1" and headers["webhook-id"] == event["hash"]
    signed = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.{body.decode()}".encode()
    expected = base64.b64encode(hmac.new(b"fake client secret", signed, hashlib.sha256).digest()).decode()
    assert headers["webhook-signature"] == "v1," + expected
    return event, int(headers["webhook-timestamp"])


told = v2.Orders.create(external_order_id="told", billing_address=TO, products=MUG)
first, at = verified(receiver.wait(1)[0])
assert (first["scope"], first["data"]) == ("store/order/created", {"type": "order", "id": told.id})
# On demand they come late, twice, and the newest first.
page("webhooks", {"hold": True})
told.update(status_id=11)
page("webhooks", {"newest_first": True, "times": 2})
again = [verified(one)[0] for one in receiver.wait(5)[1:]]
assert [event["scope"] for event in again] == ["store/order/statusUpdated"] * 2 + ["store/order/updated"] * 2, again
assert again[0] == again[1] and len({event["hash"] for event in again}) == 2
page("webhooks", {"send": [first["hash"]], "signed_ago_s": 600})
late, then = verified(receiver.wait(6)[5])
assert late == first and then < at, "the same event, signed ten minutes before"
page("webhooks", {"hold": False, "send": []})

fault("error-500-after", path="/stores/abc123/v2/orders")
before = len(page("ledger")["effects"])
refused(ServerException, v2.Orders.create, external_order_id="lost", billing_address=TO, products=MUG)
assert len(page("ledger")["effects"]) == before + 1
fault("too-many-requests=vendor:1500")
refused(RateLimitingException, v2.Orders.create, external_order_id="limited", billing_address=TO, products=MUG)
assert len(page("ledger")["effects"]) == before + 1

# The connection breaks before the answer. The library sends nothing again, and the order is found by its own field.
fault("drop-after-apply", path="/stores/abc123/v2/orders")
refused(requests.exceptions.ConnectionError, v2.Orders.create, external_order_id="cut", billing_address=TO, products=MUG)
assert len(page("ledger")["effects"]) == before + 2
assert [order.external_order_id for order in v2.Orders.all(external_order_id="cut")] == ["cut"]
