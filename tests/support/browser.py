"""A real browser for tests: Debian's Chromium, headless, driven through its DevTools protocol.

The one idea: what people will see is measured where it is seen. A page is opened at a width, every text on it is asked
for its boxes, and the test says what may not be true of them. The browser gets a profile of its own, listens
on nothing (it is driven through two pipes) and can resolve no name.
"""

from __future__ import annotations

import base64
import json
import os
import select
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

from support.devcluster.progress import step

PACKAGES = ("chromium", "fonts-dejavu-core")
_FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage",
    "--hide-scrollbars", "--host-resolver-rules=MAP * ~NOTFOUND", "--remote-debugging-pipe",
)  # fmt: skip
_DEADLINE_S = 60.0


def chromium() -> str:
    """Return the path of Chromium, installed first when it is missing and this is root on Debian."""
    found = shutil.which("chromium")
    if found:
        return found
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        raise RuntimeError(f"install these packages (Debian names): {' '.join(PACKAGES)}")
    quiet = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    with step(f"apt-get install {' '.join(PACKAGES)}"):
        install = ["apt-get", "install", "-y", "-qq", "--no-install-recommends", *PACKAGES]
        for command in (["apt-get", "update", "-qq"], install):
            done = subprocess.run(command, env=quiet, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
            if done.returncode != 0 and command is install:
                raise RuntimeError(f"apt-get install failed: {done.stdout.decode(errors='replace')[-1500:]}")
    return shutil.which("chromium") or "chromium"


@dataclass(slots=True)
class Page:
    """One tab of the browser.

    Parameters
    ----------
    to_browser, from_browser: the ends of the browser's DevTools pipes; messages are JSON, each ended by a zero byte.
    requests: addresses that the pages asked for.
    """

    to_browser: BinaryIO
    from_browser: BinaryIO
    tab: str = ""
    number: int = 0
    unread: bytes = b""
    requests: list[str] = field(default_factory=list)

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Call one DevTools method and return its result."""
        self.number += 1
        message: dict[str, Any] = {"id": self.number, "method": method, "params": parameters}
        if self.tab:
            message["sessionId"] = self.tab
        self.to_browser.write(json.dumps(message).encode() + b"\0")
        self.to_browser.flush()
        answer = self._await(lambda m: m.get("id") == self.number)
        if "error" in answer:
            raise RuntimeError(f"{method}: {answer['error']}")
        result: dict[str, Any] = answer["result"]
        return result

    def _await(self, wanted: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """Read messages until the wanted one; what the page requests meanwhile is noted."""
        while True:
            while b"\0" not in self.unread:
                ready, _, _ = select.select([self.from_browser], [], [], _DEADLINE_S)
                read = os.read(self.from_browser.fileno(), 1 << 20) if ready else b""
                if not read:
                    raise RuntimeError("the browser has ended" if ready else "the browser does not answer")
                self.unread += read
            line, _, self.unread = self.unread.partition(b"\0")
            message: dict[str, Any] = json.loads(line)
            if message.get("method") == "Network.requestWillBeSent":
                self.requests.append(message["params"]["request"]["url"])
            if wanted(message):
                return message

    def open(self, path: Path, *, width_px: int, height_px: int = 900, media: str = "", scheme: str = "light") -> None:
        """Open a file at a width.

        Parameters
        ----------
        media: "print", or "" for a screen.
        scheme: the page's `prefers-color-scheme`.
        """
        self.call("Network.enable")
        self.call("Page.enable")
        self.call(
            "Emulation.setDeviceMetricsOverride", width=width_px, height=height_px, deviceScaleFactor=1, mobile=False
        )  # fmt: skip
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.call("Emulation.setEmulatedMedia", media=media, features=features)
        self.call("Page.navigate", url=path.resolve().as_uri())
        self._await(lambda message: message.get("method") == "Page.loadEventFired")

    def evaluate(self, expression: str) -> Any:
        """Evaluate JavaScript in the page and return its value."""
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(answer["exceptionDetails"].get("exception", {}).get("description", "threw"))
        return answer["result"].get("value")

    def screenshot(self, path: Path) -> None:
        """Write a PNG of what fits the window."""
        answer = self.call("Page.captureScreenshot", format="png")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(base64.b64decode(answer["data"]))

    def pdf(self) -> bytes:
        """Print the page to PDF."""
        return base64.b64decode(self.call("Page.printToPDF")["data"])


@contextmanager
def browser_page() -> Iterator[Page]:
    """Run a browser with one empty tab; it and its profile are gone afterwards."""
    command_read, command_write = os.pipe()
    answer_read, answer_write = os.pipe()
    with (
        tempfile.TemporaryDirectory(prefix="browser-", ignore_cleanup_errors=True) as profile,
        os.fdopen(command_write, "wb") as to_browser, os.fdopen(answer_read, "rb", buffering=0) as from_browser,
    ):  # fmt: skip
        # Chromium reads its commands from descriptor 3 and answers on 4.
        redirected = f'exec "$@" 3<&{command_read} 4>&{answer_write}'
        process = subprocess.Popen(
            ["bash", "-c", redirected, "bash", chromium(), *_FLAGS, f"--user-data-dir={profile}", "about:blank"],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
            pass_fds=(command_read, answer_write),
        )  # fmt: skip
        os.close(command_read)
        os.close(answer_write)
        try:
            page = Page(to_browser, from_browser)
            target = page.call("Target.createTarget", url="about:blank")["targetId"]
            page.tab = page.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
            yield page
        finally:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


MEASURE = """
(() => {
  const shown = [], problems = [];
  const hidden = e => !e.checkVisibility({visibilityProperty: true}) || [...(function* () {
    for (let a = e; a; a = a.parentElement) yield a })()].some(a => getComputedStyle(a).clipPath !== 'none');
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  const words = n => n.data.trim().replace(/\\s+/g, ' ').slice(0, 60);
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    const parent = node.parentElement;
    if (!node.data.trim() || parent.closest('title,desc') || hidden(parent)) continue;
    const range = document.createRange();
    range.selectNodeContents(node);
    const chart = parent.closest('svg');
    const frame = chart && chart.getBoundingClientRect();
    for (const r of range.getClientRects()) {
      if (r.width < 0.5) continue;
      shown.push({left: r.left, right: r.right, top: r.top + scrollY, bottom: r.bottom + scrollY,
        text: words(node), node});
      if (r.right > innerWidth + 0.5 || r.left < -0.5) problems.push(`outside the window: ${words(node)}`);
      if (frame && (r.left < frame.left - 0.5 || r.right > frame.right + 0.5 || r.top < frame.top - 0.5 ||
                    r.bottom > frame.bottom + 0.5)) problems.push(`cut by its chart: ${words(node)}`);
    }
    if (!chart && range.getClientRects().length > 1)
      for (const word of node.data.matchAll(/(?<![\\p{L}\\p{N}])[\\p{Script=Latin}\\p{N}]{2,20}(?![\\p{L}\\p{N}])/gu)) {
        range.setStart(node, word.index);
        range.setEnd(node, word.index + word[0].length);
        const tops = new Set([...range.getClientRects()].filter(r => r.width > 0.5).map(r => Math.round(r.top)));
        if (tops.size > 1) problems.push(`broken word: ${word[0]}`);
      }
    const size = parseFloat(getComputedStyle(parent).fontSize) * (chart ? parent.getScreenCTM().a : 1);
    if (size < 9.5) problems.push(`letters of ${size.toFixed(1)} px: ${words(node)}`);
  }
  shown.sort((a, b) => a.top - b.top);
  for (let i = 0; i < shown.length; i++)
    for (let j = i + 1; j < shown.length && shown[j].top < shown[i].bottom - 1.5; j++) {
      const a = shown[i], b = shown[j];
      if (Math.min(a.right, b.right) - Math.max(a.left, b.left) > 1.5 && Math.min(a.bottom, b.bottom) - b.top > 1.5)
        problems.push(`overlap: ${a.text} | ${b.text}`);
    }
  for (const e of document.querySelectorAll('body *')) {
    if (e.closest('svg') || hidden(e) || getComputedStyle(e).overflowX === 'visible') continue;
    if (e.scrollWidth > e.clientWidth + 1)
      problems.push(`cut: <${e.tagName.toLowerCase()}> ${words(e.firstChild ?? {data: ''})}`);
  }
  const wide = document.documentElement.scrollWidth;
  if (wide > innerWidth) problems.push(`the page is ${wide} px wide in a window of ${innerWidth} px`);
  return {texts: shown.length, problems: [...new Set(problems)]};
})()
"""
"""Measures every visible text: overlaps, what leaves the window or its chart, what is cut, broken words, letters below
9.5 px."""
