"""slow-script: A training is slow. Which line is it, and how do I know before I change anything?

Guesses about speed are often wrong. `trueloop profile train.py` runs the script unmodified, says what bounds it, and
names the line. Then one change, and the same command again.

You will see it find a loader that normalizes number by number in Python, and what the fix gives. The times are this
machine's.
"""

import json
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trueloop.labs.lab import Lab, Page
from trueloop.results.document import Code

__all__ = ["LAB"]

SCRIPT = """\
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

torch.manual_seed(0)
torch.set_num_threads(1)


class Windows(Dataset):
    def __init__(self):
        self.series = torch.sin(torch.arange(4096) / 7).tolist()

    def __len__(self):
        return 2048

    def __getitem__(self, index):
        window = self.series[index : index + 1024]
        mean = sum(window) / len(window)
        spread = (sum((x - mean) ** 2 for x in window) / (len(window) - 1)) ** 0.5
        scaled = [(x - mean) / spread for x in window]
        return torch.tensor(scaled), torch.tensor(self.series[index + 1024])


model = nn.Sequential(nn.Linear(1024, 32), nn.ReLU(), nn.Linear(32, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for epoch in range(20):
    for x, y in DataLoader(Windows(), batch_size=32, shuffle=True):
        loss = nn.functional.mse_loss(model(x).squeeze(1), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""
SLOW = SCRIPT[SCRIPT.index("        window = ") : SCRIPT.index("\n\nmodel")]
FIX = """\
        window = self.series[index : index + 1024]
        return (window - window.mean()) / window.std(), self.series[index + 1024]
"""
FIXED = SCRIPT.replace(SLOW, FIX).replace(".tolist()", "")


def profile(folder: Path, name: str, script: str) -> dict[str, Any]:
    """`trueloop profile NAME.py --steps 20 --output NAME.json`"""
    (folder / f"{name}.py").write_text(script, encoding="utf-8")
    command = [sys.executable, "-m", "trueloop", "profile", "--steps", "20", "--output", f"{name}.json", f"{name}.py"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, env={**os.environ, "NO_COLOR": "1"})
    assert (folder / f"{name}.json").is_file(), done.stderr
    found: dict[str, Any] = json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))
    return found


@dataclass(frozen=True)
class Profiled:
    kind: str
    sentence: str
    line: str
    step: float  # seconds
    data: float


@dataclass(frozen=True)
class Measured:
    slow: Profiled
    fixed: Profiled


def profiled(result: dict[str, Any]) -> Profiled:
    verdict, steps = result["verdict"], result["steps"]
    line = Path(verdict["evidence"].get("line") or "").name
    return Profiled(verdict["kind"], verdict["sentence"], line, steps["seconds"], steps["phases"]["data"])


def measure() -> Measured:
    with tempfile.TemporaryDirectory() as folder:
        scripts = (("slow", SCRIPT), ("fixed", FIXED))
        return Measured(*(profiled(profile(Path(folder), name, script)) for name, script in scripts))


def answer(page: Page, measured: Measured) -> None:
    slow, fixed = measured.slow, measured.fixed
    page.show(Code(SLOW, "python", title="slow.py, __getitem__"))
    page.show(Code(FIX, "python", title="fixed.py, __getitem__: the series stays a tensor"))
    rows = [
        (name, each.step * 1e3, each.data * 1e3, each.kind) for name, each in (("slow.py", slow), ("fixed.py", fixed))
    ]
    page.table("trueloop profile", ("script", "milliseconds a step", "waiting for data", "bound by"), rows)
    page.show(Code(slow.sentence, title="What it says of slow.py"))
    page.says("The slow script is bound by its data: most of a step waits for it.", slow.data > slow.step / 2)
    page.says("The verdict says so.", slow.kind == "data")
    lines = SCRIPT.split("\n")
    number = int(slow.line.partition(":")[2] or 0)
    inside = 0 < number <= len(lines) and lines[number - 1] + "\n" in SLOW
    page.says(f"It names a line of the normalization: {slow.line}.", inside)
    ratio = slow.step / fixed.step
    page.says(f"With tensor operations in place of the Python loops, a step is {ratio:.1f} times as fast.", ratio > 1.5)


LAB = Lab(code=(profile,), measure=measure, answer=answer, seconds=40)
