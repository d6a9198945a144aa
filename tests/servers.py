"""Stand-ins for servers, on this machine and for as long as a test takes."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import ClassVar

NOBODY = "http://127.0.0.1:9/"  # no server listens there


@contextmanager
def serving(handler: type[BaseHTTPRequestHandler]) -> Iterator[str]:
    """The address of a server that answers with `handler`."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class OneFile(BaseHTTPRequestHandler):
    """The same content whatever is requested, from the requested byte on."""

    content: ClassVar[bytes] = b""
    status: ClassVar[int] = 200
    sends_length: ClassVar[bool] = True
    breaks_after: ClassVar[int | None] = None  # bytes
    asked: ClassVar[list[str]] = []

    @classmethod
    def reset(cls, monkeypatch, content: bytes) -> None:
        defaults = {"status": 200, "sends_length": True, "breaks_after": None, "asked": []}
        for name, value in {**defaults, "content": content}.items():
            monkeypatch.setattr(cls, name, value)

    def do_GET(self) -> None:
        wanted = self.headers.get("Range", "bytes=0-")
        self.asked.append(f"{self.path} {wanted}")
        first = int(wanted.removeprefix("bytes=").removesuffix("-"))
        if self.status != 200 or first >= len(self.content) > 0:
            self.send_error(416 if self.status == 200 else self.status)
            return
        self.send_response(206 if first else 200)
        if self.sends_length:
            self.send_header("Content-Length", str(len(self.content) - first))
        self.end_headers()
        self.wfile.write(self.content[first:][: self.breaks_after])

    def log_message(self, *_: object) -> None:
        pass
