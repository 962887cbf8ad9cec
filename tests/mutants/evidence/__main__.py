"""`python -m mutants.evidence`: write what the searches find, mutants included, into the reference page."""

from __future__ import annotations

from .page import PAGE, page_with_figures

if __name__ == "__main__":
    PAGE.write_text(page_with_figures(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
