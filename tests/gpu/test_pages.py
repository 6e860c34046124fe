"""The scripts of the rules' pages that need a CUDA device: the rule speaks where it is marked, and no other error or
warning appears."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from tests.gpu.test_cuda import run
from tests.pages import EXAMPLES, Example

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(
        not torch.cuda.is_available(), reason="needs a CUDA device: run `make gpu-test` on a machine that has one"
    ),
]


@pytest.mark.parametrize("example", [example for example in EXAMPLES if example.cuda], ids=lambda e: e.name)
def test_the_rule_speaks_where_it_is_marked_and_nowhere_else(example: Example, tmp_path: Path) -> None:
    _, report = run(tmp_path, example.text, watched=True)
    found = {(finding["name"], finding["line"]): finding for finding in report["findings"]}
    said = {pair for pair, finding in found.items() if pair[0] == example.rule or finding["severity"] != "advice"}
    assert said == example.expected(), [finding["message"] for finding in found.values()]
