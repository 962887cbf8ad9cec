"""A sheet to draw on with Matplotlib, and the drawing as SVG inside a page.

The one idea: Matplotlib draws, the page styles. Colours are placeholders that become CSS variables, so that one drawing
suits light and dark mode; text stays text in the page's own font; a figure has a fixed size in CSS pixels of a narrow
column and scales with it (`viewBox`, no width). Nothing global is touched: no pyplot, settings only around the drawing,
and the same drawing makes the same bytes (`svg.hashsalt`, no date).
"""

from __future__ import annotations

import io
import re
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WIDTH_PX: Final = 360
LEFT_PX: Final = 50
RIGHT_PX: Final = 22
LETTER_PX: Final = 11
_POINTS_PER_INCH: Final = 72  # in Matplotlib's SVG one point is one unit of the drawing
COLOURS: Final = {
    "words": "#010101", "edge": "#020202", "c0": "#030303", "c1": "#040404", "c2": "#050505", "c3": "#060606",
    "ground": "#070707",
}  # fmt: skip
"""Names of the page's CSS variables, and their placeholders while drawing."""
BAND_OPACITY: Final = 0.22
_SETTINGS: Final = {
    "svg.fonttype": "none",
    "font.family": "DejaVu Sans",  # for measuring text; the page sets the real font
    "font.size": LETTER_PX,
    "path.simplify": True,
    "path.simplify_threshold": 0.1,
    "text.color": COLOURS["words"],
    "axes.edgecolor": COLOURS["edge"],
    "axes.labelcolor": COLOURS["words"],
    "axes.linewidth": 0.7,
    "grid.color": COLOURS["edge"],
    "grid.linewidth": 0.7,
    "xtick.color": COLOURS["edge"],
    "ytick.color": COLOURS["edge"],
    "xtick.labelcolor": COLOURS["words"],
    "ytick.labelcolor": COLOURS["words"],
    "hatch.color": COLOURS["c1"],
    "hatch.linewidth": 1.0,
    "legend.frameon": False,
    "legend.fontsize": LETTER_PX,
}
_NOT_OURS: Final = frozenset({"backend", "backend_fallback", "interactive", "toolbar"})
"""Settings of windows, left out because setting one would load pyplot."""
_SVG: Final = "{http://www.w3.org/2000/svg}"
_LINK: Final = "{http://www.w3.org/1999/xlink}href"
_REFERENCE: Final = re.compile(r"#([\w-]+)")
_NUMBER: Final = re.compile(r"-?\d+\.\d+")
_COMMAND: Final = re.compile(r"\s*([A-Za-z])\s*")
_UNTURNED: Final = re.compile(r"rotate\(-?0(?![.\d])[^)]*\)")
_ANCHOR: Final = re.compile(r"text-anchor: (\w+)")
_INITIAL: Final = frozenset({"stroke-linejoin: miter", "stroke-linecap: butt", "stroke-miterlimit: 100000"})


@contextmanager
def settings(salt: str = "") -> Iterator[None]:
    """Draw with the page's settings, regardless of the machine's.

    Parameters
    ----------
    salt: of the drawing's identifiers, unique in a page.
    """
    from matplotlib import rc_context, rcParamsDefault

    defaults = {name: value for name, value in rcParamsDefault.items() if name not in _NOT_OURS}
    with rc_context({**defaults, **_SETTINGS, "svg.hashsalt": salt or "drawing"}):
        yield


def sheet(height_px: float, *, top_px: float, foot_px: float, left_px: float = LEFT_PX) -> tuple[Figure, Axes]:
    """Return a figure of the page's width with one pair of axes, a grid and no frame."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(WIDTH_PX / _POINTS_PER_INCH, height_px / _POINTS_PER_INCH), dpi=_POINTS_PER_INCH)
    figure.patch.set_visible(False)
    return figure, add_axes(figure, top_px=top_px, foot_px=foot_px, left_px=left_px)


def add_axes(figure: Figure, *, top_px: float, foot_px: float, left_px: float = LEFT_PX) -> Axes:
    """Add a pair of axes that keeps so far from the figure's edges, with a grid and no frame."""
    height_px = figure.get_figheight() * _POINTS_PER_INCH
    across, up = 1 - (left_px + RIGHT_PX) / WIDTH_PX, 1 - (top_px + foot_px) / height_px
    axes = figure.add_axes((left_px / WIDTH_PX, foot_px / height_px, across, up))
    axes.patch.set_visible(False)
    for spine in axes.spines.values():
        spine.set_visible(False)
    axes.grid(visible=True, clip_on=False)
    axes.set_axisbelow(True)
    axes.tick_params(length=0, pad=4)
    axes.tick_params(axis="x", pad=10)
    return axes


def to_svg(figure: Figure, *, title: str, description: str) -> str:
    """Write a figure as an SVG element for a page, with title and description for screen readers."""
    written = io.StringIO()
    figure.savefig(written, format="svg", metadata={"Date": None, "Creator": None, "Format": None, "Type": None})
    root = ET.fromstring(written.getvalue())
    drawing = ET.Element("svg")
    drawing.attrib = {
        "class": "chart",
        "viewBox": root.attrib["viewBox"],
        "role": "img",
        "aria-label": f"{title}. {description}",
    }
    for name, text in (("title", title), ("desc", description)):
        ET.SubElement(drawing, name).text = text
    used = {
        found for element in root.iter() for value in element.attrib.values() for found in _REFERENCE.findall(value)
    }
    for child in root:
        _copy(child, drawing, used)
    return ET.tostring(drawing, encoding="unicode")


def _copy(element: ET.Element, parent: ET.Element, used: set[str]) -> None:
    """Copy the drawing without empty groups and without unused identifiers."""
    tag = element.tag.removeprefix(_SVG)
    if tag in {"metadata", "style"} or not isinstance(element.tag, str):
        return
    attributes = _attributes(element, used)
    into = parent
    if tag == "text":
        _text(element, attributes, parent)
        return
    if tag not in {"g", "defs"} or attributes or (tag == "defs" and len(element)):
        into = ET.SubElement(parent, tag, attributes)
    for child in element:
        _copy(child, into, used)


def _attributes(element: ET.Element, used: set[str]) -> dict[str, str]:
    kept = {}
    for name, value in element.attrib.items():
        if name == "id":
            written = value if value in used else ""
        elif name == "style":
            written = _style(value)
        else:
            written = _NUMBER.sub(lambda number: f"{float(number[0]):.1f}".removesuffix(".0"), _coloured(value))
        if written:
            kept["href" if name == _LINK else name] = _COMMAND.sub(r"\1", written) if name == "d" else written
    return kept


def _style(style: str) -> str:
    """Keep attributes that differ from SVG's initial values, with the page's colours."""
    parts = [part.strip() for part in style.split(";")]
    return _coloured(";".join(part.replace(": ", ":") for part in parts if part and part not in _INITIAL))


def _coloured(value: str) -> str:
    for name, colour in COLOURS.items():
        value = value.replace(colour, f"var(--{name})")
    return value


def _text(element: ET.Element, attributes: dict[str, str], parent: ET.Element) -> None:
    """Write a text in the page's font; Matplotlib places it by a translation or by x and y."""
    anchor = _ANCHOR.search(element.attrib.get("style", ""))
    turned = _UNTURNED.sub("", attributes.get("transform", "")).strip()
    kept: dict[str, str] = {"class": "t", **{name: attributes[name] for name in ("x", "y") if name in attributes}}
    if turned:
        kept["transform"] = turned
    if anchor is not None and anchor[1] != "start":
        kept["text-anchor"] = anchor[1]
    ET.SubElement(parent, "text", kept).text = element.text
