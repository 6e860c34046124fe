"""A finding does not depend on how a loss is spelled: as a function, as torch's module, as a module of the user."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import check_script
from tests.pages import EXAMPLES, HANG_AFTER, Example
from tests.rules.loss_spellings import SPELLINGS, respell

WITH_A_LOSS = [
    example
    for example in EXAMPLES
    if example.broken
    and not example.cuda
    and example.ranks == 1
    and respell(example.text, SPELLINGS[0]) != example.text
]
FEW = (
    "evaluated_rows_in_loss",
    "input_moved_without_target",
    "labels_coded_in_two_ways",
    "labels_misaligned_with_inputs",
    "nondeterministic_evaluation",
)  # pages whose scripts were silent with a module: the first script of each


def _check(example: Example, spelling: str, folder: Path) -> None:
    result = check_script(folder, respell(example.text, spelling), hang_after=HANG_AFTER)
    assert not result.verdict.failures, "\n".join(result.verdict.failures)
    said = {(finding.name, finding.place.line if finding.place else 0) for finding in result.findings}
    assert said == example.expected(), result.output


@pytest.mark.parametrize("spelling", SPELLINGS)
@pytest.mark.parametrize("page", FEW)
def test_first_scripts_are_reported_with_modules(page: str, spelling: str, tmp_path: Path) -> None:
    _check(next(example for example in WITH_A_LOSS if example.page.endswith(f"/{page}")), spelling, tmp_path)


@pytest.mark.long
@pytest.mark.parametrize("spelling", SPELLINGS)
@pytest.mark.parametrize("example", WITH_A_LOSS, ids=lambda example: example.name)
def test_every_script_is_reported_with_modules(example: Example, spelling: str, tmp_path: Path) -> None:
    _check(example, spelling, tmp_path)


def test_a_nested_loss_with_options_keeps_its_line() -> None:
    text = "a = F.mse_loss(F.l1_loss(x, y), z, reduction='sum')\nb = F.kl_div(\n    x, y)\n"
    torchs, users = (respell(text, spelling).splitlines() for spelling in SPELLINGS)
    assert torchs == ["a = torch.nn.MSELoss(reduction='sum')(torch.nn.L1Loss()(x, y), z)", *text.splitlines()[1:]]
    assert users[0].count("torch.nn.Module") == 2
    assert users[1:] == torchs[1:]
