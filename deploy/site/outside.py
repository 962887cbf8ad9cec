"""What MkDocs is told of our pages: they link to files of the repository, and their anchors are those of code hosting sites.

The one idea: a page is written for readers of the repository and stays as it is; where a link leaves docs/, the file that it
names becomes part of the site, below repository/, and the README its first page.
"""

import os
import re
from pathlib import Path
from typing import Any, Final

REPOSITORY: Final = Path(__file__).resolve().parents[2]
DOCS: Final = REPOSITORY / "docs"
LINK: Final = re.compile(r"(\]\()([^)#\s]+)((?:#[^)\s]*)?\))")
_FENCE: Final = re.compile(r"^ *```.*?^ *```", re.DOTALL | re.MULTILINE)


def slug(text: str, _: str = "") -> str:
    """Return the anchor of a heading."""
    return re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-")


def inside(target: Path) -> str:
    """Return where a file or folder of the repository is in the site, from its root."""
    if target == REPOSITORY / "README.md":
        return "README.md"
    is_page = target.is_relative_to(DOCS)
    path = target.relative_to(DOCS).as_posix() if is_page else f"repository/{target.relative_to(REPOSITORY).as_posix()}"
    return f"{path}/index.md" if target.is_dir() else path


def origin(uri: str) -> Path:
    """Return the file of the repository that a page is; the reverse of `inside`."""
    if uri == "README.md":
        return REPOSITORY / "README.md"
    return REPOSITORY / uri.removeprefix("repository/") if uri.startswith("repository/") else DOCS / uri


def targets(page: Path) -> set[Path]:
    """Return what a page links to and MkDocs does not find by itself: what is outside of docs/, and folders."""
    text = _FENCE.sub("", page.read_text(encoding="utf-8"))
    found = {(page.parent / m[2]).resolve() for m in LINK.finditer(text) if not re.match(r"[a-z]+:", m[2])}
    return {t for t in found if t.exists() and (t.is_dir() or not t.is_relative_to(DOCS))}


def rewritten(markdown: str, uri: str) -> str:
    """Return a page whose links lead to where files are in the site."""
    source, folder = origin(uri), os.path.dirname(uri)

    def moved(match: re.Match[str]) -> str:
        if re.match(r"[a-z]+:", match[2]):
            return match[0]
        target = (source.parent / match[2]).resolve()
        if not target.exists() or not target.is_relative_to(REPOSITORY):
            return match[0]  # MkDocs says so
        return f"{match[1]}{os.path.relpath(inside(target), folder or '.')}{match[3]}"

    kept: list[str] = []
    rest = 0
    for fence in _FENCE.finditer(markdown):
        kept += [LINK.sub(moved, markdown[rest : fence.start()]), fence[0]]
        rest = fence.end()
    return "".join([*kept, LINK.sub(moved, markdown[rest:])])


def version() -> str:
    """Return the version that the chart names."""
    chart = (REPOSITORY / "charts" / "staticgroup" / "Chart.yaml").read_text(encoding="utf-8")
    found = re.search(r"^version: (\S+)$", chart, re.MULTILINE)
    return found[1] if found else ""


def on_config(config: Any) -> Any:
    """Make anchors as code hosting sites do, and show the version in the header."""
    config["site_name"] = f"{config['site_name']} {version()}"
    config["mdx_configs"]["toc"] = {**config["mdx_configs"].get("toc", {}), "slugify": slug, "permalink": "#"}
    return config


def on_files(files: Any, config: Any) -> Any:
    """Add the README, and what the pages name outside of docs/, and what these name in turn."""
    from mkdocs.structure.files import File

    todo = [REPOSITORY / "README.md", *sorted(DOCS.rglob("*.md"))]
    done: set[Path] = set(todo)
    files.append(File.generated(config, "README.md", content=(REPOSITORY / "README.md").read_text(encoding="utf-8")))
    while todo:
        for target in sorted(targets(todo.pop()) - done):
            done.add(target)
            uri = inside(target)
            if target.is_dir():
                names = sorted(p.name for p in target.iterdir() if p.is_file())
                for name in (n for n in names if not target.is_relative_to(DOCS)):
                    files.append(File.generated(config, f"{uri.removesuffix('index.md')}{name}", content=(target / name).read_bytes()))
                listed = "".join(f"* [`{name}`]({name})\n" for name in names if not name.endswith(".md"))
                files.append(File.generated(config, uri, content=f"# {target.relative_to(REPOSITORY)}\n\n{listed}"))
            elif files.get_file_from_path(uri) is None:
                files.append(File.generated(config, uri, content=target.read_bytes()))
                todo += [target] if target.suffix == ".md" else []
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """Rewrite the links of a page."""
    return rewritten(markdown, page.file.src_uri)
