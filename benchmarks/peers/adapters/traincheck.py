"""TrainCheck by its README: trace healthy reference runs, infer invariants, trace the target, check it against them.

The references are the healthy MLP and the healthy CNN. Tracing is slow, so references and targets are cut to ten steps;
the inferred invariants are kept in the work folder and used for every target.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

REFERENCES = ("healthy_mlp", "healthy_cnn")
CUTS = {"(2000, seed": "(250, seed", "(500, seed": "(100, seed", "range(6)": "range(2)", "epochs = 6": "epochs = 2"}


def examine(script, work):
    shared = work.parent / "reference"
    invariants = shared / "invariants.json"
    if not invariants.exists():
        shared.mkdir(parents=True, exist_ok=True)
        folders = [collect(script.parent / f"{name}.py", shared, shared / f"trace_{name}") for name in REFERENCES]
        call("traincheck-infer", "-f", *folders, "-o", invariants, cwd=shared)
    trace = collect(script, work, work / "trace", "-i", invariants)
    call("traincheck-check", "-f", trace, "-i", invariants, "-o", work / "result", "--no-html-report", cwd=work)
    for failed in sorted((work / "result").rglob("failed*.log")):
        yield from (shown(json.loads(text)) for text in documents(failed.read_text(encoding="utf-8")))


def collect(script, folder, trace, *more):
    text = script.read_text(encoding="utf-8")
    for long, short in CUTS.items():
        text = text.replace(long, short)
    short = folder / script.name
    short.write_text(text, encoding="utf-8")
    call(
        "traincheck-collect",
        "--pyscript",
        short,
        "--models-to-track",
        "model",
        "--output-dir",
        trace,
        *more,
        cwd=folder,
    )
    return trace


def call(program, *arguments, cwd):
    here = Path(sys.executable).parent
    environment = {**os.environ, "PATH": f"{here}:{os.environ['PATH']}"}
    subprocess.run([here / program, *arguments], cwd=cwd, env=environment, check=True)


def documents(text):
    """The JSON documents that stand one after another in a file."""
    decoder, at = json.JSONDecoder(), 0
    while (start := text.find("{", at)) >= 0:
        _, at = decoder.raw_decode(text, start)
        yield text[start:at]


def shown(failure):
    return failure.get("invariant", failure).get("text_description", json.dumps(failure)[:300])
