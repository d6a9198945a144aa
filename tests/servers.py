"""Stand-ins for servers, on this machine and for as long as a test takes."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import ClassVar


@contextmanager
def serving(handler: type[BaseHTTPRequestHandler]) -> Iterator[str]:
    """The address of a server that answers with `handler`."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class OneFile(BaseHTTPRequestHandler):
    """The same content whatever is asked for, from the byte on that is asked for."""

    content: ClassVar[bytes] = b""
    breaks_after: ClassVar[int | None] = None  # bytes
    asked: ClassVar[list[str]] = []

    def do_GET(self) -> None:
        wanted = self.headers.get("Range", "bytes=0-")
        self.asked.append(f"{self.path} {wanted}")
        first = int(wanted.removeprefix("bytes=").removesuffix("-"))
        if first >= len(self.content):
            self.send_error(416)
            return
        self.send_response(206 if first else 200)
        self.send_header("Content-Length", str(len(self.content) - first))
        self.end_headers()
        self.wfile.write(self.content[first:][: self.breaks_after])

    def log_message(self, *_: object) -> None:
        pass
