"""A server in a thread that answers every request in one way."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@contextmanager
def answering(status: int | None, text: str = "", methods: list[str] | None = None) -> Iterator[str]:
    """Its URL. `status` None: the connection breaks off in place of an answer. `methods`: gets what was asked."""

    class Handler(BaseHTTPRequestHandler):
        def answer(self) -> None:
            if methods is not None:
                methods.append(self.command)
            self.rfile.read(int(self.headers.get("content-length", 0)))
            if status is not None:
                self.send_response(status)
                self.send_header("content-length", str(len(text)))
                self.end_headers()
                self.wfile.write(text.encode())

        do_GET = do_POST = answer

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()
