"""What the Python flows share: the fake's page, and a receiver of webhooks."""

import json
import os
import threading
import urllib.request
from http.server import BaseHTTPRequestHandler, HTTPServer

URL = os.environ["FAKE_URL"]


def page(path, body=None, method=None):
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(f"{URL}/_fake/{path}", data=data, method=method)
    with urllib.request.urlopen(request) as answer:
        return json.load(answer)


def fault(name, **rule):
    page("faults", {"fault": name, **rule})


def refused(kind, call, *args, **kwargs):
    """The error of this kind that the call must raise."""
    try:
        call(*args, **kwargs)
    except kind as error:
        return error
    raise AssertionError(f"not refused: {call}")


class Receiver:
    """Keeps what it is sent, and answers 200."""

    def __init__(self):
        self.received = []
        self.arrived = threading.Condition()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                with outer.arrived:
                    outer.received.append(({name.lower(): value for name, value in self.headers.items()}, body))
                    outer.arrived.notify_all()
                self.send_response(200)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_):
                pass

        self.server = HTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/hook"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def wait(self, count):
        with self.arrived:
            assert self.arrived.wait_for(lambda: len(self.received) >= count, 20), self.received
            return list(self.received)
