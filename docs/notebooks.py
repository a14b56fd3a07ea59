"""The tutorials as notebooks: `python docs/notebooks.py FOLDER` writes one for each; `make docs` puts them beside the pages."""

from __future__ import annotations

import json
import re
import sys
from base64 import b64encode
from doctest import DocTestParser
from pathlib import Path
from typing import Any

TUTORIALS = Path(__file__).parent / "tutorials"


def cells(text: str) -> list[dict[str, Any]]:
    """Prose as it stands, and of every block of examples a cell for each one whose output is shown, with those before it."""
    found: list[dict[str, Any]] = []

    def add(kind: str, source: str, **more: Any) -> None:
        if source.strip():
            found.append({"cell_type": kind, "id": f"cell-{len(found)}", "metadata": {}, "source": source.strip("\n"), **more})

    for prose, block in re.findall(r"(.*?)(?:^```python\n(.*?)^```$|\Z)", text, re.S | re.M):
        add("markdown", prose)
        source = ""
        for example in DocTestParser().get_examples(block):
            source += example.source
            if example.want:
                add("code", source, execution_count=None, outputs=[])
                source = ""
        add("code", source, execution_count=None, outputs=[])
    return found


def notebook(page: Path) -> dict[str, Any]:
    """The notebook of a tutorial, its pictures within; links lead to the pages of the site."""
    text = re.sub(r"\]\(\.\./([\w/]+)\.md", r"](../\1.html", page.read_text(encoding="utf-8"))
    found = cells(text)
    for cell in found:
        pictures = {path.name: path for path in map(page.parent.joinpath, re.findall(r"\]\((\.\./images/\S+?)\)", cell["source"]))}
        if cell["cell_type"] == "markdown" and pictures:
            cell["source"] = re.sub(r"\]\(\.\./images/(?:\S+/)?(\S+?)\)", r"](attachment:\1)", cell["source"])
            cell["attachments"] = {name: {"image/png": b64encode(path.read_bytes()).decode()} for name, path in pictures.items()}
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    return {"cells": found, "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5}


def write(folder: Path) -> list[Path]:
    """A notebook for each tutorial."""
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for page in sorted(TUTORIALS.glob("*.md")):
        written.append(folder / f"{page.stem}.ipynb")
        written[-1].write_text(json.dumps(notebook(page), ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
    return written


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    print("\n".join(map(str, write(Path(sys.argv[1])))))
