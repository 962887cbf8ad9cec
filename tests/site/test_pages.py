"""The pages of `make docs` in a real browser: on a desktop and on a phone nothing is wider than the window.

Needs Debian's Chromium, which is installed when it is missing. Photographs are kept in build/screenshots/site.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from support.browser import browser_page

REPOSITORY = Path(__file__).parents[2]
SITE = REPOSITORY / "build" / "site"
PHOTOGRAPHS = REPOSITORY / "build" / "screenshots" / "site"
TOO_WIDE = """
(() => {
  const found = [];
  for (const e of document.querySelectorAll('table, img, svg')) {
    if (!e.checkVisibility() || e.closest('.md-search, .md-sidebar, .md-header')) continue;
    const right = Math.round(e.getBoundingClientRect().right);
    if (right > innerWidth) found.push(`${e.tagName} ends at ${right} px: ${(e.innerText ?? '').slice(0, 40)}`);
  }
  const wide = document.documentElement.scrollWidth;
  if (wide > innerWidth) found.push(`the page is ${wide} px wide`);
  return found;
})()
"""


@pytest.mark.parametrize("width_px", [1280, 390])
def test_no_page_is_wider_than_the_window(width_px: int) -> None:
    """Code blocks scroll by themselves; tables and pictures have to fit."""
    pages = sorted(SITE.rglob("*.html"))
    assert len(pages) > 50, "run make docs first"
    wide = []
    with browser_page() as tab:
        for page in pages:
            tab.open(page, width_px=width_px)
            wide += [(page.name, found) for found in tab.evaluate(TOO_WIDE)]
            tab.screenshot(PHOTOGRAPHS / str(width_px) / f"{page.parent.name}-{page.stem}.png")
    assert wide == []
