"""python -m trueloop.op_claims.sanitized_calls FILE.py:NAME SAMPLES.pt: each call of the operation once, with its
backward. Run under compute-sanitizer (`sanitizer.py`)."""

import importlib.util
import sys
from pathlib import Path
from typing import Any

import torch

from trueloop.op_claims.gradients import gradients
from trueloop.op_claims.op_subject import NotTaken, OpSubject
from trueloop.op_claims.sample import Sample

__all__ = ["main"]


def _operation(target: str) -> Any:
    file, _, name = target.rpartition(":")
    sys.path.insert(0, str(Path(file).parent.absolute()))
    spec = importlib.util.spec_from_file_location(Path(file).stem, file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[Path(file).stem] = module
    spec.loader.exec_module(module)
    value: Any = module
    for part in name.split("."):
        value = getattr(value, part)
    return value


def main(target: str, file: str) -> None:
    samples = [Sample(tuple(args), kwargs) for args, kwargs in torch.load(file, weights_only=True)]
    subject = OpSubject(_operation(target), target.rpartition(":")[2], tuple(samples), "from another process")
    for sample in samples:
        subject.results(sample.copied())
        try:
            gradients(subject, sample.copied())
        except NotTaken:
            continue  # no backward: other claims say so
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    sys.stdout.write(f"{len(samples)} calls done\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
