"""Export: write, verify in another process, and only then let it appear under its name."""

from __future__ import annotations

import platform
from dataclasses import asdict, replace
from pathlib import Path

import torch

from trueloop.artefact import LICENCE, Artefact, Port, Verification
from trueloop.errors import CannotSave, TrueloopError
from trueloop.export.blame import explained
from trueloop.export.card import card_of
from trueloop.export.exporter import Exporter, Given, installed
from trueloop.export.folder import Writing, read_artefact, writing
from trueloop.export.program import Program, exportable
from trueloop.export.subject import Subject
from trueloop.export.traced import traced
from trueloop.export.verify import SAMPLES, TOLERANCE, verify

__all__ = ["export"]


def export(
    subject: Subject,
    exporter: Exporter,
    place: Path,
    *,
    tolerance: float = TOLERANCE,
    samples: int | None = SAMPLES,
    licence: dict[str, str] | None = None,
    notes: tuple[str, ...] = (),
) -> Artefact:
    """The artefact in `place`, verified. `samples`: how many of the run's validation samples it is tried on; None: all.
    Raises CannotExport, MissingExtra or CannotSave: then nothing is left, and what lay there before is untouched."""
    exporter.require()
    program = subject.program()
    given = subject.given(program, inside=exporter.inside)
    with writing(place) as folder:
        ports = _written(exporter, exportable(program), given, folder.aside / exporter.file)
        made = folder.seal(_described(subject, program, exporter, given, ports, {**LICENCE, **(licence or {})}, notes))
        verified = verify(subject, program, exporter, made, tolerance, samples)
        _finish(folder, made, verified)
    return read_artefact(place)


def _finish(folder: Writing, made: Artefact, verified: Verification) -> None:
    made = replace(made, verification=verified)
    folder.seal(made, card_of(made))
    folder.publish()


def _written(exporter: Exporter, program: Program, given: Given, file: Path) -> tuple[Port, ...]:
    try:
        return exporter.write(program, given, file)
    except TrueloopError:
        raise
    except OSError as error:
        raise CannotSave(f"{file.name} could not be written ({error.strerror or error}). Nothing was exported.") from error
    except Exception as error:
        # Whatever torch or a target raises, the answer is a sentence with the user's line.
        raise explained(error, exporter.target, lambda: traced(program, given)[0]) from error


def _described(
    subject: Subject,
    program: Program,
    exporter: Exporter,
    given: Given,
    ports: tuple[Port, ...],
    licence: dict[str, str],
    notes: tuple[str, ...],
) -> Artefact:
    from trueloop import __version__

    facts = subject.splits.facts
    layouts = [asdict(layout) for layout in (given.layout, program.layouts[1])]
    return Artefact(
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
        },
        inputs=ports,
        outputs=_outputs(program, subject),
        task=subject.recipe.task,
        classes=facts.classes,
        preprocessing=subject.preprocessing(inside=exporter.inside),
        run={**subject.run, "facts": subject.facts(), "layouts": layouts},
        notes=(*exporter.notes, *_precision(subject), *_fixed(given, ports), *notes),
        licence=licence,
    )


def _outputs(program: Program, subject: Subject) -> tuple[Port, ...]:
    """What changes with the batch or the length is free."""
    raw = program.layouts[0].parted(subject.fetch(torch.zeros(3, dtype=torch.int64)).inputs)
    whole, fewer = program.answer(raw), program.answer([tensor[:2] for tensor in raw])
    if all(tensor.dim() == 2 and not tensor.is_floating_point() and tensor.shape[1] > 1 for tensor in raw):
        fewer = program.answer([tensor[:2, : tensor.shape[1] // 2] for tensor in raw])
    named = zip(program.layouts[1].names, whole, fewer, strict=True)
    return tuple(
        Port(name, str(a.dtype).removeprefix("torch."), tuple(x if x == y else None for x, y in zip(a.shape, b.shape, strict=True)))
        for name, a, b in named
    )


def _precision(subject: Subject) -> tuple[str, ...]:
    trained = subject.recipe.precision
    return (
        (f"Trained in {trained}, exported in fp32: its answers are those of the weights in single precision.",)
        if trained in ("bf16", "fp16")
        else ()
    )


def _fixed(given: Given, ports: tuple[Port, ...]) -> tuple[str, ...]:
    """Lengths that should be free and are not: never without a word."""
    return tuple(
        f"The length of {asked.name} is fixed at {got.shape[at]}: the model takes no other."
        for asked, got in zip(given.ports, ports, strict=True)
        for at, size in enumerate(asked.shape)
        if size is None and got.shape[at] is not None
    )
