"""Serve the stock of a warehouse on 127.0.0.1:8099. It runs until it is ended."""

import json
from http.server import BaseHTTPRequestHandler, HTTPServer
from urllib.parse import parse_qs, urlsplit

PAGE = 7
COLOURS = ("red", "green", "blue")


def stock():
    """The items, always the same."""
    number = 2026
    for item in range(40):
        number = (number * 75 + 74) % 65537
        yield {"item": f"part-{item:02}", "colour": COLOURS[number % 3], "quantity": number % 50}


ITEMS = list(stock())


class Warehouse(BaseHTTPRequestHandler):
    def do_GET(self):
        asked = urlsplit(self.path)
        if asked.path != "/items":
            self.reply(404, {"error": "there is only /items"})
            return
        start = int(parse_qs(asked.query).get("after", ["0"])[0])
        page = ITEMS[start : start + PAGE]
        more = start + PAGE if start + PAGE < len(ITEMS) else None
        self.reply(200, {"items": page, "after": more})

    def reply(self, status, body):
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


if __name__ == "__main__":
    print("listening on http://127.0.0.1:8099", flush=True)
    HTTPServer(("127.0.0.1", 8099), Warehouse).serve_forever()
