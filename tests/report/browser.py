"""A headless Chromium, driven over its debugging pipe with nothing but the standard library."""

from __future__ import annotations

import json
import os
import select
import shutil
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
TIMEOUT = 60.0


def find_chromium() -> str | None:
    return next((path for path in map(shutil.which, NAMES) if path), None)


class Page:
    """One tab. What it asked the network for and what it complained about is kept."""

    def __init__(self, to_browser: int, from_browser: int) -> None:
        self.requests: list[str] = []
        self.complaints: list[str] = []
        self._to, self._from, self._rest = to_browser, from_browser, b""
        self._number = 0
        self._session: str | None = None
        self._seen: list[str] = []
        target = self._call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self._call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self._call(f"{domain}.enable")

    def open(self, file: Path, width: int = 1400, dark: bool = False) -> None:
        """Load a page from a file."""
        size = {"width": width, "height": 1000, "deviceScaleFactor": 1, "mobile": False}
        self._call("Emulation.setDeviceMetricsOverride", **size)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self._call("Emulation.setEmulatedMedia", features=[scheme])
        self.requests.clear()
        self._seen.clear()
        self._call("Page.navigate", url=file.resolve().as_uri())
        while "Page.loadEventFired" not in self._seen:
            self._receive()
        self.evaluate("new Promise(done => requestAnimationFrame(() => setTimeout(done)))")

    def evaluate(self, script: str) -> Any:
        """The value of a JavaScript expression."""
        answer = self._call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            raise AssertionError(answer["exceptionDetails"])
        return answer["result"].get("value")

    def move(self, x: float, y: float) -> None:
        self._call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)

    def _call(self, method: str, **parameters: Any) -> dict[str, Any]:
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._to, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._receive()
            if answer.get("id") == self._number:
                if "error" in answer:
                    raise AssertionError(f"{method}: {answer['error']}")
                return answer["result"]

    def _receive(self) -> dict[str, Any]:
        deadline = time.monotonic() + TIMEOUT
        while b"\0" not in self._rest:
            if not select.select([self._from], [], [], max(0.0, deadline - time.monotonic()))[0]:
                raise TimeoutError("the browser does not answer")
            part = os.read(self._from, 1 << 20)
            if not part:
                raise ConnectionError("the browser has gone")
            self._rest += part
        line, _, self._rest = self._rest.partition(b"\0")
        message = json.loads(line)
        self._note(message.get("method", ""), message.get("params", {}))
        return message

    def _note(self, event: str, facts: dict[str, Any]) -> None:
        self._seen.append(event)
        if event == "Network.requestWillBeSent":
            self.requests.append(facts["request"]["url"])
        level = facts.get("type") or facts.get("entry", {}).get("level")
        serious = level in ("error", "warning", "assert") and event in (
            "Runtime.consoleAPICalled",
            "Log.entryAdded",
        )
        if serious or event == "Runtime.exceptionThrown":
            self.complaints.append(str(facts))


@contextmanager
def chromium(profile: Path) -> Iterator[Page]:
    program = find_chromium()
    assert program is not None
    its_input, to_browser = os.pipe()
    from_browser, its_output = os.pipe()
    argv = [program, "--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run", "--hide-scrollbars"]
    argv += ["--disable-background-networking", "--remote-debugging-pipe", f"--user-data-dir={profile}"]
    null = os.open(os.devnull, os.O_RDWR)
    # Chromium reads commands from file 3 and answers on file 4.
    files = [(os.POSIX_SPAWN_DUP2, null, 1), (os.POSIX_SPAWN_DUP2, null, 2)]
    files += [(os.POSIX_SPAWN_DUP2, its_input, 3), (os.POSIX_SPAWN_DUP2, its_output, 4)]
    process = os.posix_spawn(program, argv, os.environ, file_actions=files, setpgroup=0)
    for file in (null, its_input, its_output):
        os.close(file)
    try:
        yield Page(to_browser, from_browser)
    finally:
        os.killpg(process, signal.SIGKILL)
        os.waitpid(process, 0)
        os.close(to_browser)
        os.close(from_browser)
