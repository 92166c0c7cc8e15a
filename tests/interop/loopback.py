"""Servers on this machine, on free ports. Each stops at the end of its `with` block."""

import contextlib
import http.client
import http.server
import json
import threading
from urllib.parse import urlsplit


class _Server(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request, client_address):
        """Ignores a client that closes its connection."""


@contextlib.contextmanager
def _serve(handler):
    server = _Server(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _request(handler):
    """A received request: method, path, headers with lower-case names, and the body as JSON."""
    body = handler.rfile.read(int(handler.headers.get("content-length") or 0))
    headers = {name.lower(): value for name, value in handler.headers.items()}
    read = json.loads(body) if body else None
    return {"method": handler.command, "path": handler.path, "headers": headers, "bytes": body, "body": read}


@contextlib.contextmanager
def replay(bodies, media_type="text/event-stream"):
    """Answers each request with the next of `bodies`. Yields its origin and the requests so far."""
    left, requests = list(bodies), []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            requests.append(_request(self))
            self.send_response(200 if left else 410)
            self.send_header("content-type", media_type)
            self.end_headers()
            if left:
                self.wfile.write(left.pop(0))

        do_GET = do_POST

        def log_message(self, *_):
            pass

    with _serve(Handler) as origin:
        yield origin, requests


@contextlib.contextmanager
def tap(behind):
    """Forwards requests to the origin `behind` and returns its answers. Yields its own origin and the requests so far, each with
    the status of its answer."""
    requests = []
    host = urlsplit(behind).netloc

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self):
            self.close_connection = True
            request = _request(self)
            requests.append(request)
            connection = http.client.HTTPConnection(host, timeout=60)
            try:
                headers = {name: value for name, value in request["headers"].items() if name not in ("host", "connection")}
                connection.request("POST", self.path, request["bytes"], headers)
                answer = connection.getresponse()
                request["status"] = answer.status
                self.send_response(answer.status)
                for name, value in answer.getheaders():
                    if name.lower() not in ("connection", "keep-alive", "transfer-encoding", "content-length", "date", "server"):
                        self.send_header(name, value)
                self.send_header("transfer-encoding", "chunked")
                self.end_headers()
                while piece := answer.read1(65536):
                    self.wfile.write(b"%x\r\n%b\r\n" % (len(piece), piece))
                self.wfile.write(b"0\r\n\r\n")
            except http.client.IncompleteRead:
                """Forwards an answer. If the origin breaks it off, it breaks off here, too."""
            finally:
                connection.close()

        def log_message(self, *_):
            pass

    with _serve(Handler) as origin:
        yield origin, requests
