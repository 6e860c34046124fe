"""Run scripts of the rules' pages under one peer, inside that peer's environment: `python stage_pages.py ADAPTER|plain
CASES.json`.

A page's script is plain top-level code. It is run up to the statement that trains; there a user would put the peer's
lines, so there the adapter takes over, and the rest of the script is what it watches. Each script runs in a child
forked from this warm process. Prints one JSON line per script: its alarms, its CPU seconds, or why the peer could not
be applied.
"""

from __future__ import annotations

import ast
import json
import os
import resource
import signal
import sys
import warnings
from pathlib import Path

import torch
from stage import load
from torch import nn
from torch.utils.data import DataLoader

LIMIT = 60
"""Seconds for one script."""
LOSSES = {
    "binary_cross_entropy_with_logits": nn.BCEWithLogitsLoss,
    "binary_cross_entropy": nn.BCELoss,
    "cross_entropy": nn.CrossEntropyLoss,
    "nll_loss": nn.NLLLoss,
    "mse_loss": nn.MSELoss,
    "l1_loss": nn.L1Loss,
}


class DoesNotApply(Exception):
    """The script has no place for the peer's lines."""


def halves(text):
    """What builds, and what trains: from the first top-level loop, or call of a function of the script's, that reaches
    a backward."""
    tree = ast.parse(text)
    training = {n.name for n in ast.walk(tree) if isinstance(n, ast.FunctionDef) and "backward(" in ast.unparse(n)}
    for index, node in enumerate(tree.body):
        if isinstance(node, (ast.FunctionDef, ast.ClassDef, ast.Import, ast.ImportFrom)):
            continue
        called = {ast.unparse(n.func) for n in ast.walk(node) if isinstance(n, ast.Call)}
        if "backward(" in ast.unparse(node) or called & training:
            return ast.Module(tree.body[:index], []), ast.Module(tree.body[index:], [])
    raise DoesNotApply("no training at the top level")


def parts(names, text):
    """The model, loss, optimizer and batches that a user would hand to the peer."""
    models = [v for v in names.values() if isinstance(v, nn.Module) and next(v.parameters(), None) is not None]
    optimizers = [v for v in names.values() if isinstance(v, torch.optim.Optimizer)]
    if not models or not optimizers:
        raise DoesNotApply("no model or no optimizer before the loop")
    losses = [v for v in names.values() if isinstance(v, nn.modules.loss._Loss)]
    loss = losses[0] if losses else next((kind() for name, kind in LOSSES.items() if name in text), None)
    loaders = [v for v in names.values() if isinstance(v, DataLoader)]
    tensors = [v for v in names.values() if type(v) is torch.Tensor and v.dim() and len(v) > 1]
    if loaders:
        batches = loaders[0]
    elif len(tensors) > 1 and len(tensors[0]) == len(tensors[1]):
        batches = [(tensors[0][:32], tensors[1][:32])]
    else:
        batches = None
    return names.get("model", models[0]), loss, names.get("optimizer", optimizers[0]), batches


def watched(adapter, text):
    """Alarms of the peer on one script."""
    building, training = halves(text)
    names = {"__name__": "__main__"}
    exec(compile(building, "train.py", "exec"), names)
    model, loss, optimizer, batches = parts(names, text)
    if adapter.__name__ in ("adapter_torchtest2", "adapter_guardtower") and (loss is None or batches is None):
        raise DoesNotApply("no loss function or no batch before the loop")

    def train():
        exec(compile(training, "train.py", "exec"), names)

    return [" ".join(str(alarm).split()) for alarm in adapter.watch(train, model, loss, optimizer, batches)]


def attempt(adapter, text):
    warnings.simplefilter("ignore")
    before = resource.getrusage(resource.RUSAGE_SELF)
    answer = {"alarms": [], "failed": ""}
    try:
        if adapter is None:
            exec(compile(text, "train.py", "exec"), {"__name__": "__main__"})
        else:
            answer["alarms"] = watched(adapter, text)
    except DoesNotApply as reason:
        answer["failed"] = f"does not apply: {reason}"
    except BaseException as error:  # noqa: BLE001 - whatever it is, it is the answer
        answer["failed"] = f"{type(error).__name__}: {error}"[:200]
    after = resource.getrusage(resource.RUSAGE_SELF)
    answer["seconds"] = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return answer


def in_child(adapter, text, folder):
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.chdir(folder)
        signal.alarm(LIMIT)
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, 1)
        os.dup2(nowhere, 2)
        os.write(writing, json.dumps(attempt(adapter, text)).encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        said = pipe.read()
    os.waitpid(child, 0)
    return json.loads(said) if said else {"alarms": [], "failed": "killed", "seconds": 0.0}


def main(name, cases):
    torch.set_num_threads(1)
    file = Path(__file__).parent / "adapters" / f"{name}.py"
    adapter = (
        None if name == "plain" else load(file, f"adapter_{name}")
    )  # not under the name of the package that it imports
    folder = cases.parent
    for case, text in json.loads(cases.read_text(encoding="utf-8")).items():
        print(json.dumps({"case": case, **in_child(adapter, text, folder)}), flush=True)


if __name__ == "__main__":
    main(sys.argv[1].replace("-", "_"), Path(sys.argv[2]).resolve())
