"""Servers on loopback that the tests of packages need: an npm registry, a provider, and DNS."""

import http.server
import json
import socket
import tarfile
import threading


def started(handler, context=None):
    """Starts an HTTP server on loopback, over TLS if there is a context, and returns it."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    if context:
        server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server


class Registry(http.server.BaseHTTPRequestHandler):
    """An npm registry of a folder of packages."""

    def do_GET(self):
        name = self.path.strip("/").replace("%2f", "/")
        file = self.server.folder / f"{name}-{self.server.version}.tgz"
        if name.startswith("files/"):
            return self.answer((self.server.folder / name[6:]).read_bytes())
        if not file.is_file():
            return self.send_error(404)
        with tarfile.open(file) as package:
            manifest = json.load(package.extractfile("package/package.json"))
        host = self.headers["Host"]
        manifest["dist"] = {"tarball": f"http://{host}/files/{file.name}"}
        whole = {"name": name, "dist-tags": {"latest": self.server.version}, "versions": {self.server.version: manifest}}
        return self.answer(json.dumps(whole).encode())

    def answer(self, body):
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


class Provider(http.server.BaseHTTPRequestHandler):
    """A server of Chat Completions that always gives the same answer."""

    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        delta = {"choices": [{"index": 0, "delta": {"content": "Good day."}, "finish_reason": "stop"}]}
        body = f"data: {json.dumps(delta)}\n\ndata: [DONE]\n\n".encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


class Names(threading.Thread):
    """A DNS server that knows an address of one name, and keeps the names that it was asked for."""

    def __init__(self, known):
        super().__init__(daemon=True)
        self.known, self.asked = known, []
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        # The resolvers of C libraries know no other port.
        self.socket.bind(("127.0.53.53", 53))

    def run(self):
        while True:
            query, client = self.socket.recvfrom(512)
            labels, at = [], 12
            while query[at]:
                labels.append(query[at + 1 : at + 1 + query[at]].decode())
                at += 1 + query[at]
            question, name = query[12 : at + 5], ".".join(labels)
            is_known, wants_v4 = name == self.known, query[at + 1 : at + 3] == b"\0\x01"
            self.asked += [name] if wants_v4 else []
            answer = b"\xc0\x0c\0\x01\0\x01" + bytes(4) + b"\0\x04\x7f\0\0\x01" if is_known and wants_v4 else b""
            flags = b"\x81\x80" if is_known else b"\x81\x83"
            self.socket.sendto(query[:2] + flags + b"\0\x01\0" + bytes([bool(answer)]) + bytes(4) + question + answer, client)
