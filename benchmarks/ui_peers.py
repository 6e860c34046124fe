"""`trueloop ui` beside TensorBoard, MLflow and aim: to open, to list 1,000 runs, to draw 1,000,000 points.

    python -m benchmarks.ui_peers [--install] [--keep FOLDER] [--only trueloop TensorBoard ...]

`--install` makes one environment per peer under .venv-peers. Every tool gets the same losses, written by its own
library, and its server is started as its pages say; requests are those of its own page. Beside wall seconds stand the
CPU seconds of the server and its children: these hold on a busy machine too. One loss of the 1,000,000 is an outlier:
is it among the points sent? Writing takes long (aim: half an hour), so `--keep` keeps what was written for next time.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import re
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from benchmarks.peers.environments import install, program
from benchmarks.ui import RUNS, STEPS, write_run

OUTLIER: Final = 777_777
ZOOM: Final = (500_000, 500_500)
PATIENCE: Final = 900  # Seconds for an answer
Points = list[tuple[float, float]]
SAMPLED: Final = (math.inf, math.nan)  # after the points: not all rows are read

LOSS: Final = """
import math, sys
from pathlib import Path
many, long = Path(sys.argv[1], "many"), Path(sys.argv[1], "long")
def loss(step, steps):
    return 2 * math.exp(-4 * step / steps) + 0.05 * math.sin(step * 1.7) + (9 if step == 777_777 else 0)
RUNS = [(many, f"run-{n:04}", 1000, 20, {"lr": 10.0 ** -(n % 5), "seed": n // 5}) for n in range(1000)]
RUNS += [(long, "million", 1_000_000, 1, {"lr": 0.001, "seed": 0})]
for folder in (many, long):
    folder.mkdir(parents=True)
"""
WRITE_TENSORBOARD: Final = """
from torch.utils.tensorboard import SummaryWriter
for folder, name, steps, every, settings in RUNS:
    writer = SummaryWriter(folder / name)
    for step in range(1, steps + 1, every):
        writer.add_scalar("loss", loss(step, steps), step)
    writer.close()
"""
# log_metric commits each value: an hour for 1,000,000. So rows go into MLflow's own table, in one transaction.
WRITE_MLFLOW: Final = """
import sqlite3
from mlflow import MlflowClient
from mlflow.entities import Metric, Param
for folder, name, steps, every, settings in RUNS:
    client = MlflowClient(f"sqlite:///{folder}/mlflow.db")
    run = client.create_run("0", run_name=name).info.run_id
    rows = [(loss(step, steps), 1_700_000_000_000 + step, step) for step in range(1, steps + 1, every)]
    client.log_batch(run, [Metric("loss", *rows[-1])], [Param(key, str(value)) for key, value in settings.items()])
    client.set_terminated(run)
    with sqlite3.connect(f"{folder}/mlflow.db") as table:
        columns = "(key, value, timestamp, run_uuid, step, is_nan)"
        each = ((value, when, run, step) for value, when, step in rows[:-1])
        table.executemany(f"insert into metrics {columns} values ('loss', ?, ?, ?, ?, 0)", each)
"""
WRITE_AIM: Final = """
from aim import Run
for folder, name, steps, every, settings in RUNS:
    run = Run(repo=str(folder), system_tracking_interval=None, capture_terminal_logs=False)
    run["hparams"] = settings
    for step in range(1, steps + 1, every):
        run.track(loss(step, steps), name="loss", step=step)
    run.close()
"""


def write_ours(folder: Path) -> None:
    for number in range(RUNS):
        write_run(folder / "many" / f"run-{number:04}", 1000, 20, lr=10.0 ** -(number % 5), seed=number // 5)
    write_run(folder / "long" / "million", STEPS, outlier=OUTLIER)


# -- what the pages of each tool ask for --


def ask(address: str, path: str, body: Any = None, **parameters: object) -> bytes:
    query = f"?{urllib.parse.urlencode(parameters)}" if parameters else ""
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(address + path + query, data, {"content-type": "application/json"})
    with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
        read: bytes = answer.read()
        return read


def our_runs(address: str) -> int:
    return len(json.loads(ask(address, "/api/runs"))["runs"])


def our_points(address: str, zoom: tuple[int, int] | None) -> Points:
    """A sample of the rows comes first, and is marked; the outlier is certain only in an answer made of all rows."""
    more = {"from": zoom[0], "to": zoom[1]} if zoom else {}
    found = json.loads(ask(address, "/api/curves", run="million", series="train/loss", **more))
    curve = found["series"]["train/loss"]
    return [*zip(curve["x"], curve["y"], strict=True), *([] if found["complete"] else [SAMPLED])]


def tensorboard_runs(address: str) -> int:
    return len(json.loads(ask(address, "/data/runs")))


def tensorboard_points(address: str, zoom: tuple[int, int] | None) -> Points:
    rows = json.loads(ask(address, "/data/plugin/scalars/scalars", run="million", tag="loss"))
    return [(step, value) for _, step, value in rows]


def mlflow_runs(address: str) -> int:
    return len(mlflow_search(address))


def mlflow_search(address: str) -> list[Any]:
    body = {"experiment_ids": ["0"], "max_results": RUNS}
    found: list[Any] = json.loads(ask(address, "/ajax-api/2.0/mlflow/runs/search", body)).get("runs", [])
    return found


def mlflow_points(address: str, zoom: tuple[int, int] | None) -> Points:
    (run,) = mlflow_search(address)
    more: dict[str, object] = {"start_step": zoom[0], "end_step": zoom[1]} if zoom else {}
    more |= {"run_ids": run["info"]["run_id"], "metric_key": "loss", "max_results": 320}
    found = json.loads(ask(address, "/ajax-api/2.0/mlflow/metrics/get-history-bulk-interval", **more))
    return [(float(row["step"]), float(row["value"])) for row in found["metrics"]]


def aim_runs(address: str) -> int:
    found = ask(address, "/api/runs/search/run/", limit=RUNS, report_progress="false")
    return len(set(re.findall(rb"[0-9a-f]{24}(?=\xfeprops)", found)))


def aim_points(address: str, zoom: tuple[int, int] | None) -> Points:
    """Its page asks for 50 points of a curve, unless the user chooses up to 500."""
    found = ask(address, "/api/runs/search/metric/", q='metric.name == "loss"', p=500, report_progress="false")
    blobs, at = {}, 0
    while at < len(found):
        key, at = _piece(found, at)
        value, at = _piece(found, at)
        if b"blob" in key:
            blobs["values" if b"values" in key else "iters" if b"iters" in key else ""] = value[1:]
    columns = [struct.unpack(f"<{len(blobs[name]) // 8}d", blobs[name]) for name in ("iters", "values")]
    return list(zip(*columns, strict=True))


def _piece(data: bytes, at: int) -> tuple[bytes, int]:
    """aim's stream: a length of four bytes, then as many."""
    (size,) = struct.unpack_from("<I", data, at)
    return data[at + 4 : at + 4 + size], at + 4 + size


@dataclass(frozen=True)
class Tool:
    name: str
    package: str  # of its environment; "": this one
    write: str  # after LOSS, in the tool's environment
    command: tuple[str, ...]  # started in the folder of the runs; PORT stands for a free one
    runs: Callable[[str], int]
    points: Callable[[str, tuple[int, int] | None], Points]
    code: str  # what a user adds to a script that has `loss` and `step`

    @property
    def bin(self) -> Path:
        return program(self.package).parent if self.package else Path(sys.executable).parent


TOOLS: Final = (
    Tool("trueloop", "", "", ("python", "-m", "trueloop", "ui", ".", "--port", "PORT"), our_runs, our_points, ""),
    Tool("TensorBoard", "tensorboard", WRITE_TENSORBOARD, ("tensorboard", "--logdir", ".", "--port", "PORT"),
         tensorboard_runs, tensorboard_points,
         'from torch.utils.tensorboard import SummaryWriter\nwriter = SummaryWriter("runs/first")\n'
         'writer.add_scalar("loss", loss, step)\nwriter.close()'),
    Tool("MLflow", "mlflow", WRITE_MLFLOW, ("mlflow", "ui", "--port", "PORT"), mlflow_runs, mlflow_points,
         'import mlflow\nmlflow.start_run()\nmlflow.log_params({"lr": lr})\nmlflow.log_metric("loss", loss, step)'),
    Tool("aim", "aim", WRITE_AIM, ("aim", "up", "--port", "PORT"), aim_runs, aim_points,
         'from aim import Run\nrun = Run()\nrun["hparams"] = {"lr": lr}\nrun.track(loss, name="loss", step=step)'),
)  # fmt: skip


# -- measuring --


@dataclass(frozen=True)
class Taken:
    wall: float
    cpu: float

    def __str__(self) -> str:
        return f"{self.wall:.1f} s ({self.cpu:.1f} s CPU)"


def cpu_of(root: int) -> float:
    """Seconds of a process and all below it (Linux)."""
    parents, spent = {}, {}
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit():
            continue
        try:
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue  # It ended in this moment
        parents[int(folder.name)] = int(fields[1])
        spent[int(folder.name)] = sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")
    below = {root}
    while more := {child for child, parent in parents.items() if parent in below} - below:
        below |= more
    return sum(spent.get(each, 0.0) for each in below)


@contextmanager
def started(tool: Tool, folder: Path) -> Iterator[tuple[str, int, Taken]]:
    """(address, process, what it took from the command to the first answered page)."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [str(tool.bin / tool.command[0]), *(word.replace("PORT", str(port)) for word in tool.command[1:])]
    quiet = {"MLFLOW_DISABLE_TELEMETRY": "true", "AIM_UI_TELEMETRY_ENABLED": "0"}
    began = time.perf_counter()
    process = subprocess.Popen(
        command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        start_new_session=True, env={**os.environ, **quiet},
    )  # fmt: skip
    try:
        until(lambda: ask(f"http://127.0.0.1:{port}", "/"))
        yield f"http://127.0.0.1:{port}", process.pid, Taken(time.perf_counter() - began, cpu_of(process.pid))
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        process.wait()


def until(answer: Callable[[], Any]) -> Any:
    """Ask until the answer is true. Raises TimeoutError."""
    ends = time.monotonic() + PATIENCE
    while time.monotonic() < ends:
        try:
            if found := answer():
                return found
        except (urllib.error.URLError, ConnectionError, KeyError):
            pass  # not up yet, or the run is not read yet
        time.sleep(0.05)
    raise TimeoutError(f"No answer within {PATIENCE} s.")


def timed(pid: int, answer: Callable[[], Any]) -> tuple[Taken, Any]:
    wall, cpu = time.perf_counter(), cpu_of(pid)
    found = until(answer)
    return Taken(time.perf_counter() - wall, cpu_of(pid) - cpu), found


def reaching_the_end(points: Points) -> Points:
    """A server that still reads shows the beginning of a run."""
    return points if points and points[-1][0] > 0.95 * STEPS else []


def all_read(points: Points) -> Points:
    return [] if SAMPLED in points else reaching_the_end(points)


def row_of(tool: Tool, folder: Path) -> str:
    with started(tool, folder / "many") as (address, pid, opened):
        listed, _ = timed(pid, lambda: tool.runs(address) >= RUNS)
    with started(tool, folder / "long") as (address, pid, _):
        first, points = timed(pid, lambda: reaching_the_end(tool.points(address, None)))
        rest = Taken(0.0, 0.0)
        if SAMPLED in points:
            rest, points = timed(pid, lambda: all_read(tool.points(address, None)))
        near = [point for point in tool.points(address, ZOOM) if ZOOM[0] <= point[0] <= ZOOM[1]]
    seen = "yes" if any(step == OUTLIER for step, _ in points) else "no"
    lines = len(tool.code.splitlines())
    drawn = f"{first} | {Taken(first.wall + rest.wall, first.cpu + rest.cpu)}"
    return f"| {tool.name} | {opened} | {listed} | {drawn} | {len(points):,} | {seen} | {len(near)} | {lines} |"


def write(tool: Tool, folder: Path) -> None:
    if folder.exists():
        return
    if tool.write:
        # TensorBoard's users write with torch, which is here.
        python = sys.executable if tool.name == "TensorBoard" else str(tool.bin / "python")
        subprocess.run([python, "-c", LOSS + tool.write, str(folder)], check=True, stderr=subprocess.DEVNULL)
    else:
        write_ours(folder)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--install", action="store_true")
    parser.add_argument("--keep", type=Path, metavar="FOLDER")
    parser.add_argument("--only", nargs="*", choices=[tool.name for tool in TOOLS])
    options = parser.parse_args()
    chosen = [tool for tool in TOOLS if options.only is None or tool.name in options.only]
    with tempfile.TemporaryDirectory() as place:
        base = (options.keep or Path(place)).resolve()
        for tool in chosen:
            if tool.package and options.install and (why := install(tool.package, [tool.package])):
                raise SystemExit(f"{tool.package} could not be installed: {why}. Nothing was measured.")
            write(tool, base / tool.name)
        print(f"{time.strftime('%Y-%m-%d')}, load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
        print(
            f"| | to open | to list {RUNS:,} runs | {STEPS:,} points: first curve | of all rows "
            "| points sent | outlier sent | points of 501 zoomed | lines |"
        )
        print("|---|---|---|---|---|---|---|---|---|")
        for tool in chosen:
            print(row_of(tool, base / tool.name), flush=True)


if __name__ == "__main__":
    main()
