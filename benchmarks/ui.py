"""How fast `trueloop ui` is: to start, to list 1,000 runs, to open a run of 1,000,000 steps. Prints wall seconds,
and CPU seconds of the server: these hold on a busy machine too.

python benchmarks/ui.py            the server's side: from the command to the answers
python benchmarks/ui.py --browser  also in Chromium: until the table and the curves are drawn
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

STEPS = 1_000_000
RUNS = 1_000


def write_run(folder: Path, steps: int, every: int = 1, *, lr: float = 1e-3, seed: int = 0, outlier: int = 0) -> None:
    folder.mkdir(parents=True)
    recipe = {"name": "digits", "lr": lr, "seed": seed, "batch": 64, "accumulate": 1}
    about = {"format": 1, "kind": "train", "name": folder.name, "started": 1.7e9 + seed, "status": "finished"}
    about |= {"metric": "accuracy", "best": 0.9, "step": steps, "total_steps": steps, "recipe": recipe}
    (folder / "run.json").write_text(json.dumps(about))
    with (folder / "metrics.jsonl").open("w") as file:
        for step in range(1, steps + 1, every):
            loss = 2 * math.exp(-4 * step / steps) + 0.05 * math.sin(step * 1.7) + 9 * (step == outlier)
            file.write(
                f'{{"kind": "train", "step": {step}, "epoch": {step / 100:.4f}, "loss": {loss:.6f}, "lr": 0.001, '
                f'"gradient_norm": 1.25, "seconds": {step / 50:.3f}}}\n'
            )


class Server(NamedTuple):
    address: str
    pid: int
    opened: float  # seconds from the command to the first answer

    def cpu(self) -> float:
        """Seconds of all its threads so far (Linux)."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def timed(self, *paths: str) -> str:
        """Fetches them."""
        wall, cpu = time.perf_counter(), self.cpu()
        for path in paths:
            fetch(self.address + path)
        return f"{time.perf_counter() - wall:.2f} s ({self.cpu() - cpu:.2f} s CPU)"


@contextmanager
def serving(folder: Path) -> Iterator[Server]:
    began = time.perf_counter()
    command = [sys.executable, "-m", "trueloop", "ui", str(folder)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONUNBUFFERED": "1"})
    try:
        assert process.stdout is not None
        address = process.stdout.readline().split()[0]
        fetch(address)
        yield Server(address, process.pid, time.perf_counter() - began)
    finally:
        process.terminate()
        process.wait()


def fetch(address: str) -> bytes:
    with urllib.request.urlopen(address) as answer:
        data: bytes = answer.read()
        return data


def in_browser(address: str, selector: str) -> float:
    from playwright.sync_api import sync_playwright

    flags = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"]
    with sync_playwright() as tool:
        browser = tool.chromium.launch(executable_path="/usr/bin/chromium", args=[*flags, "--disable-sync"])
        page = browser.new_page()
        page.goto("about:blank")
        began = time.perf_counter()
        page.goto(address)
        page.wait_for_selector(selector, timeout=120_000)
        taken = time.perf_counter() - began
        browser.close()
    return taken


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--browser", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        many, long = Path(place, "many"), Path(place, "long")
        for number in range(RUNS):
            write_run(many / f"run-{number:04}", 1000, 20, lr=10.0 ** -(number % 5), seed=number // 5)
        write_run(long / "million", STEPS)
        size = (long / "million" / "metrics.jsonl").stat().st_size
        print(f"load of this machine    {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
        with serving(many) as server:
            print(f"start to first answer   {server.opened:.2f} s ({server.cpu():.2f} s CPU)")
            print(f"list {RUNS:,} runs         {server.timed('api/runs')}, then {server.timed('api/runs')}")
            if options.browser:
                print(f"  drawn in Chromium     {in_browser(server.address, 'table.runs tbody tr'):.2f} s")
        with serving(long) as server:
            began, cpu = time.perf_counter(), server.cpu()
            both = ("api/run?run=million", "api/curves?run=million")
            print(f"open {STEPS:,} steps    {server.timed(*both)}, {size / 1e6:.0f} MB")
            while not json.loads(fetch(server.address + "api/curves?run=million&series=train/loss"))["complete"]:
                time.sleep(0.1)
            print(f"  every row is read     {time.perf_counter() - began:.2f} s ({server.cpu() - cpu:.2f} s CPU)")
            zoom = "api/curves?run=million&series=train/loss&from=500000&to=500500"
            print(f"  a zoom, every point   {server.timed(zoom)}")
        if options.browser:
            with serving(long) as server:
                drawn = in_browser(server.address + "#/run/million", ".panel .plot[data-drawn]")
                print(f"  drawn in Chromium     {drawn:.2f} s")


if __name__ == "__main__":
    main()
