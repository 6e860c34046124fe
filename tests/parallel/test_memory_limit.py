"""Within a memory limit that the kernel enforces, fsdp trains a model that ddp cannot."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from benchmarks.memory_limit import BLOCKS, LIMIT, RECIPE, RECIPE_FILE, ended, trained


@pytest.mark.long
@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not enforce RLIMIT_DATA")
def test_a_model_that_does_not_fit_under_ddp_trains_under_fsdp_to_the_same_losses(tmp_path: Path) -> None:
    (tmp_path / RECIPE_FILE).write_text(RECIPE.format(blocks=BLOCKS), encoding="utf-8")
    limit = LIMIT * 1_000_000
    ddp, fsdp = trained(tmp_path, "ddp", limit), trained(tmp_path, "fsdp", limit)
    assert ddp.code == 1
    assert "refused 8.4 MB. `--set accumulate=2`" in ended(ddp)
    assert "divides weights, gradients and optimizer state among the processes" in ended(ddp)
    assert "Traceback" not in ended(ddp)
    assert fsdp.finished, fsdp.said
    assert max(fsdp.peaks) < limit
    assert fsdp.losses == trained(tmp_path, "fsdp", None).losses
    assert len(fsdp.losses) == 6
