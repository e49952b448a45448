"""A shop in Python. Its words come on standard input, a line each; it answers each with a line.

Called as: shop.py DRIVER DSN PAGE SCHEMA. What it does for an order stands on the page, in the first block of Python.
"""

import importlib
import json
import signal
import sys
from datetime import timedelta

# Whatever waits for whom, it ends.
signal.alarm(60)

driver, dsn, page, schema = sys.argv[1:]
driver = importlib.import_module(driver)
with open(page, encoding="utf-8") as file:
    block = file.read().split("```python\n")[1].split("```")[0]
exec(block.replace("payments.", schema + "."))

connection = driver.connect(dsn)
cursor = connection.cursor()
for line in sys.stdin:
    word, *order = line.split()
    try:
        if word == "place":
            place(cursor, int(order[0]))
        elif word == "json":
            cursor.execute(
                "SELECT %s.enqueue('acme', 'POST', '/pay', %%s, %%s, after => %%s, redact => %%s)" % schema,
                ("k-1", json.dumps({"amount": 7, "to": "é"}), timedelta(hours=1), ["to"]),
            )
        elif word == "wrong":
            cursor.execute("SELECT %s.enqueue('acme', 'POST', 'pay', 'k-2')" % schema)
        elif word == "commit":
            connection.commit()
        elif word == "rollback":
            connection.rollback()
        else:
            raise ValueError(word)
        print("done", flush=True)
    except driver.Error as error:
        state = getattr(error, "sqlstate", None) or getattr(error, "pgcode", None)
        print(state, str(error).splitlines()[0], flush=True)
