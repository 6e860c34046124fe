"""A hook of mkdocs: every page in docs/decisions stands in the navigation, without a list that somebody keeps."""

from __future__ import annotations

from pathlib import Path
from typing import Any


def on_config(config: Any) -> Any:
    folder = Path(config["docs_dir"]) / "decisions"
    pages = [{_title(page): f"decisions/{page.name}"} for page in sorted(folder.glob("[0-9]*.md"))]
    design = next(entry["Design"] for entry in config["nav"] if "Design" in entry)
    design.append({"Decisions": pages})
    return config


def _title(page: Path) -> str:
    """`0005 The batch is what ...`: the number in its name and its first heading."""
    return f"{page.name[:4]} {page.read_text(encoding='utf-8').splitlines()[0].removeprefix('# ')}"
