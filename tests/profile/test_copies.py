"""Copies are named by the line that makes them; views and necessary copies are not."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.profile.running import line_of, profiled

HEAD = """
import torch
from torch import nn
torch.manual_seed(0)
layer = nn.Linear(64, 64)
rows = torch.arange(64).flip(0)
half = torch.randn(64, 64, dtype=torch.bfloat16)
x = torch.randn(64, 64)
def swapped(x):
    return layer(x).view(8, 8, 64).transpose(0, 1)
def forward(x):
"""
TAIL = """
optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
for _ in range(60):
    optimizer.zero_grad()
    loss = forward(x).sum()
    loss.backward()
    optimizer.step()
"""
PLANTED = {
    "contiguous": ("layer(x).t().contiguous()", {"contiguous()"}),
    "reshape": ("layer(x).t().reshape(-1)", {"reshape() that cannot be a view"}),
    "flatten": ("layer(x).view(8, 8, 64).transpose(0, 2).flatten(1)", {"reshape() that cannot be a view"}),
    "clone": ("layer(x).clone()", {"clone()"}),
    "dtype": ("layer(x).to(torch.bfloat16)", {"float32 to bfloat16", "bfloat16 to float32"}),
    "double": ("layer(x).double()", {"float32 to float64", "float64 to float32"}),
    "indexing": ("layer(x)[rows]", {"advanced indexing"}),
    "inside": ("nn.functional.linear(swapped(x), layer.weight)", {"reshape"}),
}
HEALTHY = {
    "contiguous already": "layer(x).contiguous()",
    "reshape as a view": "layer(x).reshape(-1)",
    "transpose alone": "layer(x).t()",
    "same dtype": "layer(x).to(torch.float32)",
    "slice": "layer(x)[::2]",
    "expand": "layer(x)[:, None].expand(64, 2, 64)",
    "to the host that it is on": "layer(x).cpu()",
}


@pytest.mark.parametrize("case", PLANTED)
def test_a_copy_is_named_by_its_line(tmp_path: Path, case: str) -> None:
    call, kinds = PLANTED[case]
    text = HEAD + f"    y = {call}  # planted\n    return y.float()\n" + TAIL
    copies = profiled(tmp_path, text, steps=20).profile.copies
    there = [each for each in copies if each.place.line == line_of(text, "# planted")]
    found = {each.how.removesuffix(", inside the call") for each in there}
    if case == "inside":
        assert all(each.how.endswith("inside the call") for each in there), there
        assert any("reshape" in each.how or "contiguous" in each.how for each in there), copies
    else:
        assert found == kinds, copies
        assert not any("inside" in each.how for each in there if not each.backward)
    assert all(each.place.path.endswith("train.py") for each in copies)
    forward = next(each for each in there if not each.backward)
    size = 64 * 64 * 4
    wanted = {"dtype": size * 3 // 2, "double": size * 3, "indexing": 2 * size + 64 * 8}.get(case, 2 * size)
    assert (forward.calls, forward.bytes) == (1, wanted)
    assert 0 < forward.share < 1


@pytest.mark.parametrize("case", HEALTHY)
def test_a_view_is_not_named(tmp_path: Path, case: str) -> None:
    text = HEAD + f"    return {HEALTHY[case]}\n" + TAIL
    assert not profiled(tmp_path, text, steps=20).profile.copies


def test_casts_of_autocast_are_not_named_and_your_own_are(tmp_path: Path) -> None:
    body = (
        "    with torch.autocast('cpu', torch.bfloat16):\n        y = layer(layer(x))\n        z = y.float()  # own\n"
    )
    text = HEAD.replace("import torch\n", "import torch\ntorch.backends.mkldnn.enabled = False\n", 1)
    text += body + "    return z\n" + TAIL
    copies = profiled(tmp_path, text, steps=20).profile.copies
    forward = [each for each in copies if not each.backward]
    assert [(each.place.line, each.how) for each in forward] == [(line_of(text, "# own"), "bfloat16 to float32")]


RECIPE = """
import torch
from torch import nn
from trueloop import Recipe, Splits
from trueloop.data.tensors import Tensors

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(16, 16)

    def forward(self, x):
        return self.layer(x).t().contiguous().t()  # planted

def data(request):
    source = Tensors(torch.randn(256, 16), torch.randint(0, 16, (256,)))
    return Splits(source, source)

recipe = Recipe(name="copies", model=Net, data=data, epochs=10, batch=32, lr=0.1, device="cpu")
"""


def test_a_recipe_names_its_own_lines_and_never_the_engines(tmp_path: Path) -> None:
    (tmp_path / "recipe_of_copies.py").write_text(RECIPE)
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path.parent), "OMP_NUM_THREADS": "1"}
    words = ["profile", "recipe_of_copies.py", "--steps", "20", "--output", "profile.json", "--output", "profile.txt"]
    code = "import sys; from trueloop.cli.main import main; sys.exit(main(sys.argv[1:]))"
    done = subprocess.run(
        [sys.executable, "-c", code, *words], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    copies = json.loads((tmp_path / "profile.json").read_text())["copies"]
    places = {each["place"] for each in copies}
    assert places == {f"recipe_of_copies.py:{line_of(RECIPE, '# planted')}"}
    assert copies[0]["how"] == "contiguous()"
    assert "Silent copies" in (tmp_path / "profile.txt").read_text()
