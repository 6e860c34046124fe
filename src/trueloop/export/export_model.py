"""Export: write, verify in a subprocess, then publish."""

import platform
from dataclasses import asdict, replace
from pathlib import Path
from typing import Final

import torch

from trueloop.errors import CannotSave, TrueloopError
from trueloop.export.card import card_of
from trueloop.export.compare import error_between, largest_in
from trueloop.export.device import gpu_facts
from trueloop.export.explain_failure import explain_failure
from trueloop.export.exporter import Example, Exporter, installed_version
from trueloop.export.folder import read_artifact, staged_folder
from trueloop.export.program import Program, exportable, is_tokens
from trueloop.export.trace import trace
from trueloop.export.trained_model import TrainedModel
from trueloop.export.verify import SAMPLES, TOLERANCE, verify
from trueloop.results.artifact import LICENCE, Artifact, Port

__all__ = ["export_model"]

COMPANY: Final = 7  # Batch size of the check that samples do not influence each other
MIXED: Final = 1e-2  # Share of the largest output: far more than another order of summation changes
_DISK: Final = ("iostream error", "I/O error", "PytorchStreamWriter failed writing", "No space left", "File too large")
"""How torch and safetensors report a failed write; neither raises an OSError."""


def export_model(
    trained: TrainedModel,
    exporter: Exporter,
    place: Path,
    *,
    tolerance: float = TOLERANCE,
    samples: int | None = SAMPLES,
    licence: dict[str, str] | None = None,
    notes: tuple[str, ...] = (),
    device: str = "cpu",
    relative: float | None = None,
) -> Artifact:
    """The verified artifact in `place`. `samples`: validation samples to verify on; None: all. `device`: where it is
    verified, and what machine code is compiled for. `relative`: of `verify`. Raises CannotExport, MissingExtra,
    CannotSave or Misuse; then nothing is left, and an earlier artifact in `place` is untouched."""
    exporter.require(device)
    program = trained.program()
    example = replace(trained.example(program, inside=exporter.inside), device=device if exporter.native else "cpu")
    with staged_folder(place) as folder:
        ports = _write(exporter, exportable(program), example, folder.aside / exporter.file)
        made = folder.seal(_describe(trained, program, exporter, example, ports, {**LICENCE, **(licence or {})}, notes))
        verified = verify(trained, program, exporter, made, tolerance, samples, device, relative=relative)
        made = replace(made, verification=verified)
        folder.seal(made, card_of(made))
        folder.publish()
    return read_artifact(place)


def _write(exporter: Exporter, program: Program, example: Example, file: Path) -> tuple[Port, ...]:
    try:
        return exporter.write(program, example, file)
    except TrueloopError:
        raise
    except OSError as error:
        failed = f"{file.name} could not be written ({error.strerror or error})"
        raise CannotSave(f"{failed}. Nothing was exported.") from error
    except Exception as error:
        if _is_disk(error):
            raise CannotSave(f"{file.name} could not be written: is the disk full? Nothing was exported.") from error
        raise explain_failure(error, exporter.target, lambda: trace(program, example)[0]) from error


def _is_disk(error: BaseException | None) -> bool:
    while error is not None and not any(word in str(error) for word in _DISK):
        error = error.__cause__ or error.__context__
    return error is not None


def _describe(
    trained: TrainedModel,
    program: Program,
    exporter: Exporter,
    example: Example,
    ports: tuple[Port, ...],
    licence: dict[str, str],
    notes: tuple[str, ...],
) -> Artifact:
    from trueloop import __version__

    facts = trained.splits.facts
    gpu = gpu_facts(example.device) if exporter.native else {}
    return Artifact(
        folder=Path(),
        name=trained.recipe.name,
        target=exporter.target,
        files={exporter.file: {}},
        versions={"trueloop": __version__, "python": platform.python_version(), "torch": torch.__version__},
        runtime={
            "package": exporter.runtime,
            "version": installed_version(exporter.runtime),
            "match": "minor" if exporter.exact_minor else "major",
            "machine": platform.machine() if exporter.native else "",
            **gpu,
        },
        inputs=ports,
        outputs=_outputs(program, trained, ports),
        task=trained.answers,
        # The name of a folder may be any bytes.
        classes=tuple(name.encode("utf-8", "backslashreplace").decode() for name in facts.classes),
        preprocessing=trained.preprocessing(inside=exporter.inside),
        run={**trained.run, "facts": trained.facts(), "layouts": [asdict(example.layout), asdict(program.layouts[1])]},
        notes=(*exporter.notes_of_export(), *_notes(trained, program, gpu), *_fixed_lengths(example, ports), *notes),
        licence=licence,
    )


def _outputs(program: Program, trained: TrainedModel, ports: tuple[Port, ...]) -> tuple[Port, ...]:
    """A dimension that changes with the batch size or the length is free."""
    raw = program.layouts[0].split(trained.fetch(torch.zeros(3, dtype=torch.int64)).inputs)
    shorter = program.shorten(raw) if any(None in port.shape[1:] for port in ports) else None
    full, fewer = program.answer(raw), program.answer([tensor[:2] for tensor in shorter or raw])
    made = []
    for name, a, b in zip(program.layouts[1].names, full, fewer, strict=True):
        shape = tuple(x if x == y else None for x, y in zip(a.shape, b.shape, strict=True))
        made.append(Port(name, str(a.dtype).removeprefix("torch."), shape))
    return tuple(made)


def _notes(trained: TrainedModel, program: Program, gpu: dict[str, str]) -> list[str]:
    notes = []
    if trained.run.get("unranked"):
        why = f"no evaluation gave a finite {trained.recipe.metric or trained.task.metric} that beats a constant answer"
        newest = f"These are its newest weights, of step {trained.run['step']}."
        notes.append(f"The run has no best checkpoint: {why}. {newest}")
    if gpu.get("device") == "cuda":
        capability = gpu.get("capability")
        notes.append(f"Compiled for {gpu.get('gpu')}: it runs only on GPUs of compute capability {capability}.")
    if trained.recipe.precision in ("bf16", "fp16"):
        notes.append(f"Trained in {trained.recipe.precision}, exported and verified in fp32.")
    # A model that mixes samples (a mean over the batch) depends on the rest of the batch: a server must know.
    raw = program.layouts[0].split(trained.fetch(torch.arange(min(COMPANY, len(trained.source[1])))).inputs)
    alone = program.answer([tensor[:1] for tensor in raw])[0]
    difference = error_between(program.answer(raw)[0][:1], alone)
    if difference > MIXED * max(1.0, largest_in(alone)):
        why = f"The output for a sample depends on the rest of its batch (by {difference:.2g} for the first sample):"
        notes.append(f"{why} serve it with --batch 1.")
    return notes


def _fixed_lengths(example: Example, ports: tuple[Port, ...]) -> list[str]:
    return [
        f"The length of {wanted.name} is fixed at {made.shape[at]}: the model accepts no other."
        for wanted, made, tensor in zip(example.ports, ports, example.tensors, strict=True)
        for at, size in enumerate(wanted.shape)
        if (size is None or (at == 1 and is_tokens(tensor))) and made.shape[at] is not None
    ]
