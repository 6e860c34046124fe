"""docs/pictures/ui-run.png and ui-compare.png: what `trueloop ui` shows of a checked script and of a small sweep.

python -m tests.site.ui_pictures        # writes both; needs Chromium (`make ui-test` installs it)
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

from playwright.sync_api import ViewportSize, sync_playwright

from tests.ui.browser import CHROMIUM, FLAGS, PATIENCE, serving

ROOT: Final = Path(__file__).parent.parent.parent
PICTURES: Final = ROOT / "docs" / "pictures"
SIZE: Final[ViewportSize] = {"width": 1100, "height": 640}
VERBS: Final = (
    (1, "check", str(ROOT / "examples" / "broken_training.py")),
    (0, "sweep", "digits", "--over", "lr=1e-3,1e-2", "--seeds", "3", "--set", "epochs=3"),
)


def make_runs(folder: Path) -> None:
    """As a user makes them: a checked script and a sweep of two rates with three seeds each."""
    for expected, *words in VERBS:
        command = [sys.executable, "-m", "trueloop", *words]
        ended = subprocess.run(
            command, cwd=folder, env={**os.environ, "OMP_NUM_THREADS": "1"}, capture_output=True, text=True, timeout=600
        )
        if ended.returncode != expected:
            raise SystemExit(f"{' '.join(words)} ended with {ended.returncode}, not {expected}:\n{ended.stderr}")


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="trueloop-") as place, sync_playwright() as tool:
        make_runs(Path(place))
        runs = Path(place, "runs")
        trials = sorted(each.name for each in runs.iterdir() if "seed" in each.name)
        pages = {
            "ui-run": "#/run/broken_training",
            "ui-compare": "#/compare?group=lr&" + "&".join(f"run={name}" for name in trials),
        }
        browser = tool.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        with serving(runs) as address:
            for name, where in pages.items():
                page = browser.new_page(viewport=SIZE, color_scheme="light")
                page.set_default_timeout(PATIENCE)
                page.goto(address + where)
                page.wait_for_selector(".page[data-ready=yes]")
                page.wait_for_selector(".plot[data-drawn]")
                page.screenshot(path=PICTURES / f"{name}.png")
                page.close()
        browser.close()


if __name__ == "__main__":
    main()
