"""A stand-in for the hub's HTTP API: one repository in memory, as much of the protocol as push and pull take."""

import base64
import hashlib
import json
from http.server import BaseHTTPRequestHandler
from typing import ClassVar
from urllib.parse import unquote, urlsplit


class FakeHub(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    repo: ClassVar[str] = "someone/walker"
    exists: ClassVar[bool] = False
    private: ClassVar[bool | None] = None
    files: ClassVar[dict[str, bytes]] = {}
    told_sizes: ClassVar[dict[str, int]] = {}  # where the listing lies
    token: ClassVar[str] = "hf_test"

    def do_POST(self) -> None:
        path, body = urlsplit(self.path).path, self.rfile.read(int(self.headers["Content-Length"]))
        if self.headers.get("Authorization") != f"Bearer {self.token}":
            self.answer({"error": "who are you?"}, 401)
        elif path == "/api/repos/create":
            asked = json.loads(body)
            type(self).exists, type(self).private = (
                True,
                asked.get("visibility") == "private" or asked.get("private"),
            )
            self.answer({"url": f"http://{self.headers['Host']}/{self.repo}"})
        elif path == f"/api/models/{self.repo}/preupload/main":
            wanted = [file["path"] for file in json.loads(body)["files"]]
            modes = [{"path": name, "uploadMode": "regular", "shouldIgnore": False} for name in wanted]
            self.answer({"files": modes})
        elif path == f"/api/models/{self.repo}/commit/main":
            for line in map(json.loads, body.splitlines()):
                if line["key"] == "file":
                    self.files[line["value"]["path"]] = base64.b64decode(line["value"]["content"])
                elif line["key"] == "deletedFile":
                    del self.files[line["value"]["path"]]
            address = f"http://{self.headers['Host']}/{self.repo}/commit/{self.commit}"
            self.answer({"success": True, "commitUrl": address, "commitOid": self.commit})
        elif path == "/api/validate-yaml":
            self.answer({"errors": [], "warnings": []})
        else:
            self.answer({"error": path}, 404)

    def do_GET(self) -> None:
        path = urlsplit(self.path).path
        prefix = f"/{self.repo}/resolve/{self.commit}/"
        if path == f"/api/models/{self.repo}" and self.exists:
            names = sorted({*self.files, ".gitattributes"})
            sizes = {name: len(self.files.get(name, b"")) for name in names} | self.told_sizes
            siblings = [{"rfilename": name, "size": sizes[name], "blobId": "0" * 40} for name in names]
            self.answer({"id": self.repo, "sha": self.commit, "siblings": siblings, "tags": [], "private": False})
        elif path.startswith(prefix) and unquote(path.removeprefix(prefix)) in self.files:
            content = self.files[unquote(path.removeprefix(prefix))]
            self.answer(content, ETag=f'"{hashlib.sha256(content).hexdigest()}"')
        else:
            self.answer({"error": path}, 404, **{"X-Error-Code": "RepoNotFound"})

    do_HEAD = do_GET

    @property
    def commit(self) -> str:
        named = [(name, hashlib.sha256(content).hexdigest()) for name, content in sorted(self.files.items())]
        return hashlib.sha1(json.dumps(named).encode()).hexdigest()

    def answer(self, content, status: int = 200, **headers: str) -> None:
        body = content if isinstance(content, bytes) else json.dumps(content).encode()
        self.send_response(status)
        kind = "application/octet-stream" if isinstance(content, bytes) else "application/json"
        headers |= {"Content-Type": kind, "Content-Length": str(len(body)), "X-Repo-Commit": self.commit}
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass
