import os
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
order = v2.Orders.create(external_order_id="o-1", customer_id=7, products=[
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
refused(ClientRequestException, v2.Orders.create, external_order_id="empty")
for n in range(5):
    v2.Orders.create(external_order_id=f"more-{n}", products=MUG)
assert len(list(v2.Orders.iterall())) == 6
assert len(v2.Orders.all(limit=4, page=2)) == 2
v2.Orders.get(order.id).delete()
assert v2.Orders.count() == 5

customer = v2.Customers.create(first_name="Ada", last_name="L", email="ada@example.com")
assert customer.email == "ada@example.com"
refused(ClientRequestException, v2.Customers.create, first_name="Ada", last_name="L", email="ADA@example.com")
refused(ClientRequestException, v2.Customers.create, email="x@example.com")
assert v2.Customers.count(email="ada@example.com") == 1
coupon = v2.Coupons.create(name="Spring", code="SPRING", type="per_total_discount", amount=5)
assert coupon.enabled is True
refused(ClientRequestException, v2.Coupons.create, name="Spring", code="SPRING", type="per_total_discount", amount=5)
assert v2.Time.all()["time"] > 0
refused(ClientRequestException, v2.connection.get, "spaceships")

# V3 by the connection that the library has for what it has no class for.
made = v3.connection.post("catalog/brands", {"name": "Brand"})["data"]
refused(ClientRequestException, v3.connection.post, "catalog/brands", {"name": "brand"})
assert v3.connection.get("catalog/brands", name="Brand")["data"][0]["id"] == made["id"]
assert v3.connection.put(f"catalog/brands/{made['id']}", {"name": "Other"})["data"]["name"] == "Other"
people = v3.connection.post("customers", [{"email": "a@example.com", "first_name": "A", "last_name": "B"}, {"email": "b@example.com"}])["data"]
changed = v3.connection.put("customers", [{"id": people[0]["id"], "company": "C"}])["data"]
assert (changed[0]["company"], changed[0]["email"]) == ("C", "a@example.com")
refused(ClientRequestException, v3.connection.put, "customers", [{"id": 9999, "company": "C"}])
refused(ClientRequestException, v3.connection.get, f"customers/{people[0]['id']}")
refused(ClientRequestException, v3.connection.delete, "customers")
v3.connection.make_request("DELETE", "customers", params={"id:in": people[0]["id"]})
assert [p["email"] for p in v3.connection.get("customers")["data"]] == ["b@example.com"]

# Refunds add up to the order's total at most.
paid = v2.Orders.create(products=[{"name": "Mug", "quantity": 1, "price_inc_tax": 20, "price_ex_tax": 20}])
refund = lambda amount: v3.connection.post(f"orders/{paid.id}/payment_actions/refunds", {"items": [{"item_type": "ORDER", "item_id": paid.id, "amount": amount}]})
refused(ClientRequestException, v3.connection.post, "orders/999/payment_actions/refunds", {"items": [{"item_type": "ORDER", "item_id": 999, "amount": 1}]})
refused(ClientRequestException, refund, 0)
refund(15)
refused(ClientRequestException, refund, 5.01)
refund(5)

# Webhooks: the scope and an id.
receiver = Receiver()
v3.connection.post("hooks", {"scope": "store/order/*", "destination": receiver.url, "is_active": True, "headers": {"X-Own": "1"}})
told = v2.Orders.create(external_order_id="told", products=MUG)
headers, body = receiver.wait(1)[0]
import base64, hashlib, hmac, json
event = json.loads(body)
assert (event["scope"], event["data"]) == ("store/order/created", {"type": "order", "id": told.id})
assert headers["x-own"] == "1" and headers["webhook-id"] == event["hash"]
signed = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.{body.decode()}".encode()
expected = base64.b64encode(hmac.new(b"fake client secret", signed, hashlib.sha256).digest()).decode()
assert headers["webhook-signature"] == "v1," + expected

fault("error-500-after", path="/stores/abc123/v2/orders")
before = len(page("ledger")["effects"])
refused(ServerException, v2.Orders.create, external_order_id="lost", products=MUG)
assert len(page("ledger")["effects"]) == before + 1
fault("too-many-requests=vendor:1500")
refused(RateLimitingException, v2.Orders.create, external_order_id="limited", products=MUG)
assert len(page("ledger")["effects"]) == before + 1

# The connection breaks before the answer. The library sends nothing again, and the order is found by its own field.
fault("drop-after-apply", path="/stores/abc123/v2/orders")
refused(requests.exceptions.ConnectionError, v2.Orders.create, external_order_id="cut", products=MUG)
assert len(page("ledger")["effects"]) == before + 2
assert [order.external_order_id for order in v2.Orders.all(external_order_id="cut")] == ["cut"]
