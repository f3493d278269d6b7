# SPDX-License-Identifier: Apache-2.0
"""Hooks of mkdocs (mkdocs.yml): pages from outside of docs/, pages of the Python API, and links that leave the site."""
from __future__ import annotations

import os
import posixpath
import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
# Pages of the site that are other files of the repository.
BORROWED = {"index.md": "README.md", "ja.md": "README.ja.md", "wire.md": "src/brain_wire/README.md",
            "changelog.md": "CHANGELOG.md", "contributing.md": "CONTRIBUTING.md"}
# What others call, by package; a page of the API each.
API = {
    "brain_runtime": ("contract.region", "contract.ports", "contract.inbox", "contract.declared",
                      "contract.port_codecs", "graph", "graph.resolve", "hosts.host", "hosts.local"),
    "brain_wire": ("node", "topics", "service", "goals", "messages", "parameters", "qos", "definitions", "session"),
    "brain_regions": ("circuits", "trained", "lesions", "weight_files"),
    "brain_training": ("neurons", "task", "trainer"),
    "brain_collectives": ("errors", "shrinking", "barrier"),
    "brain_edge": ("devices.driver",),
}
# Where files that are no page are shown, as https://forge.example/owner/name; without it their links become plain text.
REPOSITORY = os.environ.get("BRAIN_REPOSITORY", "").rstrip("/")
# Blocks of code, code in a line, and links; of the last an image's mark, the words and the target.
LINK = re.compile(r"^ *```.*?^ *```|`[^`\n]*`|(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)\s]+)\)", re.M | re.S)


def api_page(package: str) -> str:
    """Text of a page of the API, from which mkdocstrings makes signatures and docstrings."""
    return "\n\n".join([f"# {package}", *(f"::: {package}.{module}" for module in API[package])]) + "\n"


def relinked(text: str, page: str) -> str:
    """Text of a page whose links lead to pages of the site, to the repository, or nowhere.

    Raises:
        FileNotFoundError: a link to a file that is not in the repository.
    """
    base = posixpath.dirname(BORROWED.get(page, f"docs/{page}"))
    pages = {source: name for name, source in BORROWED.items()}

    def one(match: re.Match[str]) -> str:
        image, words, target = match.groups()
        if target is None:      # code
            return match[0]
        path, _, anchor = target.partition("#")
        if not path or target.startswith(("http://", "https://", "mailto:")):
            return match[0]
        path = posixpath.normpath(posixpath.join(base, path))
        if not (ROOT / path).exists():
            raise FileNotFoundError(f"{page} links to {target}, which is not in the repository")
        inside = pages.get(path) or (path.removeprefix("docs/") if path.startswith("docs/") else None)
        if inside is not None:
            link = posixpath.relpath(inside, posixpath.dirname(page) or ".")
            return f"{image}[{words}]({link}{'#' + anchor if anchor else ''})"
        if REPOSITORY:
            return f"[{words}]({REPOSITORY}/{'tree' if (ROOT / path).is_dir() else 'blob'}/main/{path})"
        return words if words.startswith("`") else f"{words} (`{path}`)" if words not in path else f"`{path}`"

    return LINK.sub(one, text)


def nested(text: str) -> str:
    """Text in which what belongs to an item of a list is indented by four, as Python-Markdown wants it."""
    lines, fence, inside = [], False, False
    for line in text.splitlines():
        if line.startswith("```"):
            fence = not fence
        elif not fence and line and not line.startswith(" "):
            inside = bool(re.match(r"[-*] |\d+\. ", line)) or inside and bool(lines[-1:]) and lines[-1] != ""
        if inside and not fence and line.startswith("  "):
            line = "  " + line
        lines.append(line)
    return "\n".join(lines) + "\n"


def on_files(files: Any, config: Any) -> Any:
    """Adds the borrowed pages and those of the API."""
    from mkdocs.structure.files import File
    for name, source in BORROWED.items():
        files.append(File.generated(config, name, content=(ROOT / source).read_text(encoding="utf-8")))
    for package in API:
        files.append(File.generated(config, f"api/{package}.md", content=api_page(package)))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """Makes links and lists of a page those of the site."""
    name = page.file.src_uri
    return markdown if name.startswith("api/") else nested(relinked(markdown, name))
