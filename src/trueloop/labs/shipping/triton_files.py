"""triton-files: Which files does Triton Inference Server need, and do they fit the model?

A model repository is a folder for each model: `config.pbtxt` with names, types and shapes, and a folder for each
version. Triton reads the configuration when it starts; a name or a shape that does not fit the file is an error then.
Here both are compared before: by ONNX Runtime, which is also what Triton runs the file with.

Set TRITON_URL (http://host:8000) to a server that reads the folder TRITON_MODELS, and it is asked, too.
"""

import json
import os
import re
import tempfile
import urllib.request
from pathlib import Path
from typing import Any

import torch

from trueloop.export.catalogue import runner_of
from trueloop.labs.lab import Lab, Page
from trueloop.labs.trained_here import export_here, trained_on_images
from trueloop.results.document import Code
from trueloop.serve.deployment import write_triton
from trueloop.serve.limits import Limits

__all__ = ["LAB"]


def declared(config: str, kind: str) -> dict[str, Any]:
    """Name, type and shape of the input or output in a config.pbtxt."""
    found = re.search(rf'{kind} \[ {{ name: "(\w+)" data_type: TYPE_(\w+) dims: \[ ([-\d, ]+) \]', config)
    assert found is not None
    return {"name": found[1], "type": found[2], "dims": [int(size) for size in found[3].split(",")]}


def in_file(port: Any) -> dict[str, Any]:
    """The same as ONNX Runtime reads it from the model, without the batch."""
    kinds = {"tensor(uint8)": "UINT8", "tensor(float)": "FP32"}
    return {"name": port.name, "type": kinds.get(port.type, port.type), "dims": list(port.shape[1:])}


def ask(url: str, name: str, images: Any) -> list[float]:
    """A request of the protocol that Triton and others share (Open Inference Protocol, version 2)."""
    sent = {"name": "input", "shape": list(images.shape), "datatype": "UINT8", "data": images.ravel().tolist()}
    body = json.dumps({"inputs": [sent]}).encode()
    request = urllib.request.Request(f"{url}/v2/models/{name}/infer", body, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=10) as reply:
        numbers: list[float] = json.load(reply)["outputs"][0]["data"]
    return numbers


def measure() -> dict[str, Any]:
    import onnxruntime

    trained = trained_on_images()
    with tempfile.TemporaryDirectory() as temporary:
        artifact = export_here(trained, "onnx", Path(temporary))
        folder = Path(os.environ.get("TRITON_MODELS") or Path(temporary, "models"))
        files = write_triton(artifact, folder, Limits(batch=16))
        config = files[0].read_text(encoding="utf-8")
        model = onnxruntime.InferenceSession(files[-1], providers=["CPUExecutionProvider"])
        images = trained.splits.train.fetch(torch.arange(3)).inputs.numpy()
        ours = runner_of(artifact).run([images])[0].ravel().tolist()
        url = os.environ.get("TRITON_URL", "")
        return {
            "files": [str(file.relative_to(folder)) for file in files],
            "config": config,
            "declared": [declared(config, "input"), declared(config, "output")],
            "in_file": [in_file(model.get_inputs()[0]), in_file(model.get_outputs()[0])],
            "batch": int(re.search(r"max_batch_size: (\d+)", config)[1]),  # type: ignore[index]
            "labels": files[1].read_text(encoding="utf-8").split("\n")[:-1],
            "classes": list(artifact.classes),
            "ours": ours,
            "answered": ask(url, artifact.name, images) if url else None,
        }


def answer(page: Page, measured: dict[str, Any]) -> None:
    asked = "" if measured["answered"] else "No server was asked: TRITON_URL is not set."
    page.table("Written", ("file",), [(file,) for file in measured["files"]], note=asked)
    page.show(Code(measured["config"].strip(), title="config.pbtxt"))
    page.says("Names, types and shapes are those in the model's file.", measured["declared"] == measured["in_file"])
    page.says("The batch is not part of a shape: max_batch_size adds it, 16 here.", measured["batch"] == 16)
    page.says(
        "labels.txt has one class in each line, in the order of scores.", measured["labels"] == measured["classes"]
    )
    if measured["answered"]:
        pairs = zip(measured["answered"], measured["ours"], strict=True)
        page.says("The server answers as the model does.", all(abs(a - b) < 1e-4 for a, b in pairs))
    page.show(Code("trueloop serve runs/NAME/export/onnx --write triton models", title="The same for a run"))


LAB = Lab(code=(declared, in_file, ask), measure=measure, answer=answer, needs="package onnxruntime", seconds=40)
