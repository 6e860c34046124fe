"""Export: write, verify in another process, and only then let it appear under its name."""

from __future__ import annotations

import platform
from dataclasses import asdict, replace
from pathlib import Path
from typing import Final

import torch

from trueloop.errors import CannotSave, TrueloopError
from trueloop.export.blame import explained
from trueloop.export.card import card_of
from trueloop.export.compare import error_between, largest_in
from trueloop.export.device import gpu_facts
from trueloop.export.exporter import Exporter, Given, installed
from trueloop.export.folder import Writing, read_artifact, writing
from trueloop.export.program import Program, exportable, is_tokens
from trueloop.export.subject import Subject
from trueloop.export.traced import traced
from trueloop.export.verify import SAMPLES, TOLERANCE, verify
from trueloop.results.artifact import LICENCE, Artifact, Port, Verification

__all__ = ["export"]

COMPANY: Final = 7
"""Samples that one is asked together with."""
ODD: Final = 1e-2
"""Of the largest answer: far more than sums in another order make."""
_FULL: Final = ("iostream error", "I/O error", "PytorchStreamWriter failed writing", "No space left", "File too large")
"""How torch and safetensors say that a disk did not take their bytes; neither raises an OSError."""


def export(
    subject: Subject,
    exporter: Exporter,
    place: Path,
    *,
    tolerance: float = TOLERANCE,
    samples: int | None = SAMPLES,
    licence: dict[str, str] | None = None,
    notes: tuple[str, ...] = (),
    device: str = "cpu",
) -> Artifact:
    """The artifact in `place`, verified. `samples`: how many of the run's validation samples it is tried on; None: all.
    `device`: where it is tried, and what machine code is made for. Raises CannotExport, MissingExtra, CannotSave, or
    Misuse if the target cannot run on this device here: then nothing is left, and what lay there before is
    untouched."""
    exporter.require(device)
    program = subject.program()
    given = replace(subject.given(program, inside=exporter.inside), device=device if exporter.native else "cpu")
    with writing(place) as folder:
        ports = _written(exporter, exportable(program), given, folder.aside / exporter.file)
        made = folder.seal(_described(subject, program, exporter, given, ports, {**LICENCE, **(licence or {})}, notes))
        verified = verify(subject, program, exporter, made, tolerance, samples, device)
        _finish(folder, made, verified)
    return read_artifact(place)


def _finish(folder: Writing, made: Artifact, verified: Verification) -> None:
    made = replace(made, verification=verified)
    folder.seal(made, card_of(made))
    folder.publish()


def _written(exporter: Exporter, program: Program, given: Given, file: Path) -> tuple[Port, ...]:
    try:
        return exporter.write(program, given, file)
    except TrueloopError:
        raise
    except OSError as error:
        raise CannotSave(
            f"{file.name} could not be written ({error.strerror or error}). Nothing was exported."
        ) from error
    except Exception as error:
        if _is_disk(error):
            raise CannotSave(
                f"{file.name} could not be written: the disk is full, or refuses it. Nothing was exported."
            ) from error
        # Whatever torch or a target raises, the answer is a sentence with the user's line.
        raise explained(error, exporter.target, lambda: traced(program, given)[0]) from error


def _is_disk(error: BaseException | None) -> bool:
    while error is not None and not any(word in str(error) for word in _FULL):
        error = error.__cause__ or error.__context__
    return error is not None


def _described(
    subject: Subject,
    program: Program,
    exporter: Exporter,
    given: Given,
    ports: tuple[Port, ...],
    licence: dict[str, str],
    notes: tuple[str, ...],
) -> Artifact:
    from trueloop import __version__

    facts = subject.splits.facts
    layouts = [asdict(layout) for layout in (given.layout, program.layouts[1])]
    bound = gpu_facts(given.device) if exporter.native else {}
    return Artifact(
        folder=Path(),
        name=subject.recipe.name,
        target=exporter.target,
        files={exporter.file: {}},
        versions={"trueloop": __version__, "python": platform.python_version(), "torch": torch.__version__},
        runtime={
            "package": exporter.runtime,
            "version": installed(exporter.runtime),
            "match": "minor" if exporter.exact_minor else "major",
            "machine": platform.machine() if exporter.native else "",
            **bound,
        },
        inputs=ports,
        outputs=_outputs(program, subject, ports),
        task=subject.recipe.task,
        classes=tuple(
            name.encode("utf-8", "backslashreplace").decode() for name in facts.classes
        ),  # a folder's name may be any bytes
        preprocessing=subject.preprocessing(inside=exporter.inside),
        run={**subject.run, "facts": subject.facts(), "layouts": layouts},
        notes=(
            *exporter.notes,
            *_bound(bound),
            *_precision(subject),
            *_fixed(given, ports),
            *_together(subject, program),
            *notes,
        ),
        licence=licence,
    )


def _outputs(program: Program, subject: Subject, ports: tuple[Port, ...]) -> tuple[Port, ...]:
    """What changes with the batch or the length is free."""
    raw = program.layouts[0].parted(subject.fetch(torch.zeros(3, dtype=torch.int64)).inputs)
    shorter = program.shortened(raw) if any(None in port.shape[1:] for port in ports) else None
    whole, fewer = program.answer(raw), program.answer([tensor[:2] for tensor in shorter or raw])
    named = zip(program.layouts[1].names, whole, fewer, strict=True)
    return tuple(
        Port(
            name,
            str(a.dtype).removeprefix("torch."),
            tuple(x if x == y else None for x, y in zip(a.shape, b.shape, strict=True)),
        )
        for name, a, b in named
    )


def _bound(bound: dict[str, str]) -> tuple[str, ...]:
    """Machine code for a GPU: never without its name."""
    gpu = f"{bound.get('gpu')} (capability {bound.get('capability')})"
    return (
        (f"Compiled for CUDA, on {gpu}: it runs on GPUs of that capability only.",)
        if bound.get("device") == "cuda"
        else ()
    )


def _precision(subject: Subject) -> tuple[str, ...]:
    trained = subject.recipe.precision
    return (
        (f"Trained in {trained}, exported in fp32: its answers are those of the weights in single precision.",)
        if trained in ("bf16", "fp16")
        else ()
    )


def _together(subject: Subject, program: Program) -> tuple[str, ...]:
    """A model that looks over the edge of a sample (a mean over the batch) answers otherwise in other company: a server
    must know."""
    numbers = torch.arange(min(COMPANY, len(subject.source[1])))
    raw = program.layouts[0].parted(subject.fetch(numbers).inputs)
    alone = program.answer([tensor[:1] for tensor in raw])[0]
    apart = error_between(program.answer(raw)[0][:1], alone)
    if apart <= ODD * max(1.0, largest_in(alone)):
        return ()
    return (
        f"The answer to a sample depends on the others in its batch (by {apart:.2g} for the first one): serve it with --batch 1.",
    )


def _fixed(given: Given, ports: tuple[Port, ...]) -> tuple[str, ...]:
    """Lengths that should be free and are not: never without a word."""
    return tuple(
        f"The length of {asked.name} is fixed at {got.shape[at]}: the model takes no other."
        for asked, got, tensor in zip(given.ports, ports, given.tensors, strict=True)
        for at, size in enumerate(asked.shape)
        if (size is None or (at == 1 and is_tokens(tensor))) and got.shape[at] is not None
    )
