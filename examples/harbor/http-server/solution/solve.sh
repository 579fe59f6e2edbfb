#!/bin/bash
set -e
cat > /app/serve.py <<P
import http.server, urllib.parse
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        where = urllib.parse.urlsplit(self.path)
        if where.path != "/sum":
            self.send_error(404)
            return
        given = urllib.parse.parse_qs(where.query)
        body = str(int(given["a"][0]) + int(given["b"][0])).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
http.server.HTTPServer(("127.0.0.1", 8765), Handler).serve_forever()
P
