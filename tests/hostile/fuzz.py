"""Mutations of every file that verbs read, for as long as asked: `python -m tests.hostile.fuzz --minutes 60`.

Hypothesis changes bytes, members of archives and values of JSON trees. Whatever comes out must be read, or refused with
an error of trueloop's own; anything else is printed with the file, and ends in exit code 1.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import shutil
import sys
import tempfile
import time
import traceback
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.torch
import torch
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from tests.export.made import artifact, subject
from trueloop.checkpoint.contents import read_contents, read_weights_file
from trueloop.checkpoint.plain_values import NotPlain, decode, encode
from trueloop.checkpoint.safetensors_header import entries_of
from trueloop.checkpoint.store import MANIFEST, Folder, seal_json, unseal_json
from trueloop.checkpoint.tensor_files import load_numpy, load_torch
from trueloop.cli.main import main as trueloop
from trueloop.errors import TrueloopError
from trueloop.export.folder import read_artifact
from trueloop.export.pt2 import Pt2
from trueloop.export.safety import safe_graph
from trueloop.readiness.gather import readiness_of
from trueloop.readiness.record import Absent
from trueloop.readiness.training_keys import keys_of
from trueloop.results.artifact import FILE
from trueloop.session.comparison import compared
from trueloop.session.runs import read_runs
from trueloop.trust.confine.client import Refused

ALLOWED = (TrueloopError, Refused, Absent, NotPlain)
LEAVES = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | st.just(10**400)
TREES = st.recursive(LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3), max_leaves=5)  # noqa: E501  # fmt: skip


def changed_bytes(data: st.DataObject, before: bytes) -> bytes:
    found = bytearray(before)
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, max(0, len(found) - 1)))
        match data.draw(st.sampled_from(("set", "cut", "insert", "repeat"))):
            case "set":
                found[at : at + 1] = bytes([data.draw(st.integers(0, 255))])
            case "cut":
                del found[at : at + data.draw(st.integers(1, 64))]
            case "insert":
                found[at:at] = data.draw(st.binary(max_size=16))
            case _:
                found[at:at] = found[at : at + data.draw(st.integers(1, 64))]
    return bytes(found)


def changed_tree(data: st.DataObject, value: Any) -> Any:
    """One value, somewhere in it, is another."""
    inside = (
        list(value.items()) if isinstance(value, dict) else list(enumerate(value)) if isinstance(value, list) else []
    )
    if not inside or data.draw(st.integers(0, 3)) == 0:
        return data.draw(TREES)
    key, found = data.draw(st.sampled_from(inside))
    copy = value.copy()
    if data.draw(st.integers(0, 6)) == 0:
        del copy[key]
    else:
        copy[key] = changed_tree(data, found)
    return copy


def changed_archive(data: st.DataObject, before: bytes) -> bytes:
    """One of its files is another: by its bytes, or as JSON."""
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(before)) as old, zipfile.ZipFile(out, "w") as new:
        chosen = data.draw(st.sampled_from(old.namelist()))
        for name in old.namelist():
            content = old.read(name)
            if name == chosen and name.endswith(".json") and data.draw(st.booleans()):
                content = json.dumps(changed_tree(data, json.loads(content))).encode()
            elif name == chosen:
                content = changed_bytes(data, content)
            new.writestr(name, content)
    return out.getvalue()


def changed(data: st.DataObject, before: bytes) -> bytes:
    """By what it is."""
    if before[:2] == b"PK" and data.draw(st.booleans()):
        return changed_archive(data, before)
    if before[:1] == b"{" and data.draw(st.integers(0, 3)):
        lines = before.splitlines()
        if len(lines) > 1 and lines[1][:1] == b"{":
            at = data.draw(st.integers(0, len(lines) - 1))
            lines[at] = json.dumps(changed_tree(data, json.loads(lines[at]))).encode()
            return b"\n".join([*lines, b""])
        return json.dumps(changed_tree(data, json.loads(before))).encode()
    return changed_bytes(data, before)


class Targets:
    """Files, and what reads them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        os.chdir(folder)
        for name in ("good", "evil"):
            assert trueloop(["train", "digits", "--set", "epochs=1", "--name", name, "--quiet"]) == 0
        shutil.copytree("runs/evil", "kept")
        os.environ["TRUELOOP_KEY"] = str(folder / "another-key")
        made = subject()
        Pt2().write(made.program(), made.example(made.program(), inside=True), folder / "model.pt2")
        self.all: dict[str, Callable[[st.DataObject], object]] = {
            "torch file": self.torch_file,
            "numpy file": self.numpy_file,
            "answer": self.answer,
            "safetensors": self.safetensors,
            "pt2": self.graph,
            "artifact.json": self.artifact,
            "manifest.json": self.manifest,
            **{file: self._of_run(file) for file in ("run.json", "facts.json", "metrics.jsonl", "proofs.json")},
        }

    def torch_file(self, data: st.DataObject) -> None:
        out = io.BytesIO()
        torch.save({"state": torch.arange(6.0), "optimizer": {"a": [1, (2.5, "x")]}}, out)
        content = changed(data, out.getvalue())
        Path("x.pt").write_bytes(content)
        for reader in (lambda: load_torch(content), lambda: keys_of(Path("x.pt"))):
            try:
                reader()
            except ALLOWED:
                continue

    def numpy_file(self, data: st.DataObject) -> None:
        out = io.BytesIO()
        if data.draw(st.booleans()):
            np.savez_compressed(out, a=np.arange(5), b=np.ones((2, 3)))
        else:
            np.save(out, np.arange(12.0).reshape(3, 4))
        load_numpy(changed(data, out.getvalue()))

    def answer(self, data: st.DataObject) -> None:
        decode(changed_bytes(data, encode({"a": torch.arange(6.0).reshape(2, 3), "b": [1, "x", (2.5,), b"y"]})))

    def safetensors(self, data: st.DataObject) -> None:
        content = changed_bytes(data, safetensors.torch.save({"a": torch.arange(6.0), "b": torch.zeros(2, 2)}))
        Path("x.safetensors").write_bytes(content)
        for reader in (lambda: read_weights_file(content, "x"), lambda: entries_of(Path("x.safetensors"))):
            try:
                reader()
            except ALLOWED:
                continue

    def graph(self, data: st.DataObject) -> None:
        Path("x.pt2").write_bytes(changed(data, (self.folder / "model.pt2").read_bytes()))
        safe_graph(Path("x.pt2"))

    def artifact(self, data: st.DataObject) -> None:
        Path("shipped").mkdir(exist_ok=True)
        plain = json.loads(json.dumps(artifact().plain()))
        Path("shipped", FILE).write_bytes(seal_json({"x": 1, **_dict(changed_tree(data, plain))}))
        read_artifact("shipped")

    def manifest(self, data: st.DataObject) -> None:
        store = Folder(Path("runs/evil/checkpoints"))
        name = Folder(Path("kept/checkpoints")).names()[-1]
        plain = unseal_json(Path("kept/checkpoints", name, MANIFEST).read_bytes(), "it")
        Path("runs/evil/checkpoints", name, MANIFEST).write_bytes(seal_json(_dict(changed_tree(data, plain))))
        try:
            read_contents(store, name)
        except ALLOWED:
            readiness_of(Path("runs/evil"), ())

    def _of_run(self, file: str) -> Callable[[st.DataObject], None]:
        def read(data: st.DataObject) -> None:
            before = (
                Path("kept", file).read_bytes() if Path("kept", file).is_file() else b'{"proofs": [{"claim": "x"}]}'
            )
            Path("runs/evil", file).write_bytes(changed(data, before))
            try:
                read_runs(Path("runs"))
                for reader in (
                    lambda: compared([Path("runs/good"), Path("runs/evil")]),
                    lambda: readiness_of(Path("runs/evil"), ()),
                ):
                    try:
                        reader()
                    except ALLOWED:
                        continue
                readiness_of(Path("runs/good"), ())
            finally:
                shutil.copytree("kept", "runs/evil", dirs_exist_ok=True)

        return read


def _dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {"value": value}


def fuzz(minutes: float, examples: int = 60) -> int:
    """How many crashes."""
    until, crashes, tried = time.monotonic() + 60 * minutes, 0, 0
    with tempfile.TemporaryDirectory() as scratch:
        targets, number = Targets(Path(scratch)), 0
        while time.monotonic() < until:
            for name, target in targets.all.items():
                number += 1
                found = one_round(target, number, examples)
                tried += examples
                if found:
                    crashes += 1
                    print(f"--- {name}, seed {number}\n{found}", flush=True)
        os.chdir("/")
    print(f"{tried:,} files tried, {crashes} rounds with a crash", flush=True)
    return crashes


def one_round(target: Callable[[st.DataObject], object], number: int, examples: int) -> str:
    """The traceback of a crash; empty: none."""

    @seed(number)
    @settings(max_examples=examples, deadline=None, database=None, phases=(Phase.generate, Phase.shrink),
              suppress_health_check=list(HealthCheck))  # fmt: skip
    @given(st.data())
    def attempt(data: st.DataObject) -> None:
        try:
            target(data)
        except ALLOWED:
            return

    try:
        attempt()
    except Exception:
        return traceback.format_exc()[-3000:]
    return ""


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0)
    sys.exit(1 if fuzz(parser.parse_args().minutes) else 0)
