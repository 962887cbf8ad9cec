"""LIST in pages of a size that the objects themselves decide.

A large page halves the limit of the next, a small one lets it grow again, and a page too large to be read is asked for
again in halves. The API server accepts another limit with the same continue token.
Source: KEP-365 (paginated LIST).
"""

from collections.abc import AsyncIterator
from typing import Final

from .problem import KubeProblem, KubeProblemKind
from .transport import Answer, Json, Resource, Transport

PAGE_LIMIT: Final = 500
PAGE_LIMIT_SLOW: Final = 50
"""Silence halves the limit down to this and no further: it may have another cause than the size of the page."""
PAGE_BYTES: Final = 16 * 1024 * 1024
"""What a page should not exceed: decoded, it takes several times as much memory, and the event loop stands still."""
_SLOW: Final = (0, 504)
"""HTTP status of a page that did not come in time; 0 is no answer at all."""


class PageLimit:
    """How many objects the next page asks for, from 1 to `most`, with which it begins."""

    def __init__(self, most: int = PAGE_LIMIT) -> None:
        self.value = most
        self._most = most

    def page_came(self, size_bytes: int) -> None:
        """Learn from a page; `size_bytes` is 0 when it is not known."""
        if size_bytes > PAGE_BYTES:
            self._halve(down_to=1)
        elif size_bytes < PAGE_BYTES // 2:
            self.value = min(self._most, self.value + self.value // 4 + 1)

    def page_was_refused(self, problem: KubeProblem) -> bool:
        """Learn from a page that did not come; True when the same page is worth asking for again at once."""
        if problem.kind is KubeProblemKind.TOO_LARGE:
            was = self.value
            self._halve(down_to=1)
            return self.value < was
        if problem.kind is KubeProblemKind.UNAVAILABLE and problem.status in _SLOW:
            self._halve(down_to=min(PAGE_LIMIT_SLOW, self.value))
        return False

    def _halve(self, *, down_to: int) -> None:
        self.value = max(down_to, self.value // 2)


async def pages(
    transport: Transport, resource: Resource, limit: PageLimit, *, namespace: str
) -> AsyncIterator[Json | KubeProblem]:
    """LIST one resource page by page, all at one resourceVersion.

    Parameters
    ----------
    limit: learns from each page; keep it for the next LIST.

    Yields
    ------
    Each page; a problem ends it (GONE: the continue token has expired, begin again).
    """
    token = ""
    while True:
        asked = {"limit": str(limit.value)} | ({"continue": token} if token else {})
        page = await transport.call("list", resource, namespace=namespace, query=asked)
        if isinstance(page, KubeProblem):
            if limit.page_was_refused(page):
                continue
            yield page
            return
        limit.page_came(page.size_bytes if isinstance(page, Answer) else 0)
        yield page
        token = (page.get("metadata") or {}).get("continue") or ""
        if not token:
            return
