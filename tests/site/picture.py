"""docs/pictures/finding.svg: what `trueloop check examples/broken_training.py` prints, as a picture.

python -m tests.site.picture            # writes the picture
"""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.terminal_theme import MONOKAI
from rich.text import Text

ROOT: Final = Path(__file__).parent.parent.parent
PICTURE: Final = ROOT / "docs" / "pictures" / "finding.svg"
SCRIPT: Final = "examples/broken_training.py"
WIDTH: Final = 96  # columns


def printed() -> str:
    """The report in colors, from the first finding to the counts; the lines below them differ from run to run."""
    command = [sys.executable, "-m", "trueloop", "check", "--no-run", SCRIPT]
    colors = {"FORCE_COLOR": "1", "COLUMNS": str(WIDTH), "TERM": "xterm-256color", "OMP_NUM_THREADS": "1"}
    environment = {name: value for name, value in os.environ.items() if name != "NO_COLOR"} | colors
    report = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300)
    if report.returncode != 1:
        raise SystemExit(f"{' '.join(command)} ended with {report.returncode}, not with findings:\n{report.stderr}")
    lines = report.stderr.splitlines()
    plain = [Text.from_ansi(line).plain for line in lines]
    first = next(number for number, line in enumerate(plain) if re.match("[✗!·] (error|warning|advice) ", line))
    last = next(number for number, line in enumerate(plain) if re.match(r"✗ \d+ error", line))
    return "\n".join(lines[first : last + 1])


def picture() -> str:
    console = Console(record=True, width=WIDTH, file=io.StringIO(), force_terminal=True, color_system="truecolor")
    console.print(Text.assemble(("$ ", "dim"), (f"trueloop check {SCRIPT}", "bold")))
    console.print(Text.from_ansi(printed()))
    svg = console.export_svg(title="trueloop", theme=MONOKAI, unique_id="finding")
    return re.sub(r"@font-face \{.*?\}\s*", "", svg, flags=re.S)  # the reader's own font: a page fetches nothing


if __name__ == "__main__":
    PICTURE.parent.mkdir(exist_ok=True)
    PICTURE.write_text(picture(), encoding="utf-8")
