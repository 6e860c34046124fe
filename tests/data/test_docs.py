"""The recipes on the pages about data run as they are printed."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from trueloop.session.train import train

DOCS = Path(__file__).parents[2] / "docs" / "training"
BLOCKS = [
    pytest.param(block, id=f"{page}-{number}")
    for page in ("data-sources", "order-and-sequences")
    if (DOCS / f"{page}.md").exists()
    for number, block in enumerate(re.findall(r"```python\n(.*?)```", (DOCS / f"{page}.md").read_text(), re.DOTALL))
]


@pytest.mark.parametrize("block", BLOCKS)
def test_a_recipe_of_the_page_trains(block: str, tmp_path: Path) -> None:
    names: dict[str, Any] = {"__name__": "page"}
    exec(compile(block, "page", "exec"), names)
    done = train(names["recipe"], runs=tmp_path, hooks=[])
    assert done.ending.reason == "finished"
    assert done.ending.best is not None
