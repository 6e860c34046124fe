"""Does the exported program answer as the model does? Asked in its own runtime, in another process, on samples of the
run's own data."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory, gettempdir
from typing import Any, Final

import torch
from torch import Tensor

from trueloop.errors import CannotExport, CannotSave
from trueloop.export.compare import Compared, Metrics, error_between, largest_in
from trueloop.export.device import shown
from trueloop.export.elsewhere import RuntimeFailure, run_elsewhere
from trueloop.export.exporter import Array, Exporter, Given
from trueloop.export.folder import writing
from trueloop.export.program import Observed, Program, exportable
from trueloop.export.subject import Subject
from trueloop.results.artifact import Artifact, Port, Verification
from trueloop.usercode.ownership import birthplace

__all__ = ["SAMPLES", "SIZES", "TOLERANCE", "verify"]

TOLERANCE: Final = 1e-4
"""How far an output in single precision may be off: sums in another order are off by 1e-6, a layer that is computed
otherwise by more."""
SAMPLES: Final = 256
"""Enough to see every size of batch; `--samples all` asks all of them."""
SIZES: Final = (1, 2, 7, 32, 64)
"""Batches that are tried: one sample alone, two, an odd number, many; the last size again until the samples are
over."""


@dataclass(frozen=True, slots=True)
class _Tried:
    """One batch: what the program is given, what the model itself answers."""

    given: tuple[Tensor, ...]
    ours: tuple[Tensor, ...]
    targets: Any
    counted: bool
    """With its targets: not one whose sequences were cut short."""

    @property
    def words(self) -> str:
        return " and ".join(str(list(tensor.shape)) for tensor in self.given)


def verify(
    subject: Subject,
    program: Program,
    exporter: Exporter,
    artifact: Artifact,
    tolerance: float,
    samples: int | None,
    device: str = "cpu",
) -> Verification:
    """Of what lies in the artifact's folder, run on this device; the model itself is asked on the CPU. Raises
    CannotExport with the first differing layer if it does not answer alike."""
    tried = list(_tried(subject, program, exporter, artifact.inputs, samples))
    _refuse_no_numbers(program, [batch for batch in tried if batch.counted])
    theirs = _answers(artifact, tried, device)
    task = subject.recipe.task
    compared = Compared(task, tolerance)
    ours_measured, theirs_measured = Metrics(subject.task), Metrics(subject.task)
    for batch, answered in zip(tried, theirs, strict=True):
        compared.add(batch.ours, answered, counted=batch.counted)
        if batch.counted and [a.shape for a in batch.ours] == [b.shape for b in answered]:
            ours_measured.add(program.layouts[1].joined(batch.ours), batch.targets)
            theirs_measured.add(program.layouts[1].joined(answered), batch.targets)
    metrics = {name: (value, theirs_measured.values()[name]) for name, value in ours_measured.values().items()}
    counted = [batch for batch in tried if batch.counted]
    made = Verification(
        split=subject.source[0],
        samples=sum(len(batch.given[0]) for batch in counted),
        batches=tuple(dict.fromkeys(len(batch.given[0]) for batch in tried)),
        lengths=tuple(sorted({batch.given[0].shape[1] for batch in tried})) if _has_length(artifact.inputs) else (),
        tolerance=tolerance,
        max_error=compared.max_error,
        scale=compared.scale,
        disagreements=compared.disagreements,
        ties=compared.ties,
        metrics=metrics,
        runtime=f"{artifact.runtime['package']} {artifact.runtime['version']}{'' if device == 'cpu' else f' on {shown(device)}, TF32 off'}",
    )
    if not made.passed:
        worst = tried[max(0, compared.worst)]
        layer = _first_differing(subject, program, exporter, artifact, worst, tolerance, device)
        apart = (
            ""
            if device == "cpu"
            else f" ({device} adds up in another order than the CPU, where the model was asked: --tolerance.)"
        )
        raise CannotExport(_otherwise(replace(made, first_differing=layer + apart), artifact, worst))
    return made


def _refuse_no_numbers(program: Program, tried: Sequence[_Tried]) -> None:
    """Nothing can be shown by answers of which none is a number; some may be: a mask is minus infinity."""
    for batch in tried:
        rows = batch.ours[0].flatten(1) if batch.ours[0].dim() > 1 else batch.ours[0].unsqueeze(-1)
        if bool((rows.isfinite().any(1) & ~rows.isnan().any(1)).any()):
            return
    broken = [
        name
        for name, value in program.model.state_dict().items()
        if isinstance(value, Tensor) and not value.isfinite().all()
    ]
    held = f" ({broken[0]} holds such values{f', and {len(broken) - 1} more' if broken[1:] else ''})" if broken else ""
    raise CannotExport(
        f"The model itself answers with nan or inf, whatever it is asked{held}: no target could be shown to be right. Nothing was "
        "exported: choose another --checkpoint; `trueloop inspect checkpoint RUN` shows which are whole."
    )


def _otherwise(made: Verification, artifact: Artifact, worst: _Tried) -> str:
    others = (
        f"{made.disagreements:,} of {made.samples:,} predictions are others"
        if made.disagreements
        else "all predictions are the same"
    )
    metrics = "; ".join(
        f"{name} {ours:.6g} became {theirs:.6g}" for name, (ours, theirs) in made.metrics.items() if ours != theirs
    )
    return (
        f"{artifact.name} as {artifact.target} does not answer as the model does: the largest difference is {made.max_error:.3g} (inputs "
        f"{worst.words}), the tolerance {made.tolerance * made.scale:.3g}; {others}{f'; {metrics}' if metrics else ''}. "
        f"{made.first_differing} Nothing was exported."
    )


# -- what it is tried on --


def _tried(
    subject: Subject, program: Program, exporter: Exporter, ports: Sequence[Port], samples: int | None
) -> Iterator[_Tried]:
    count = len(subject.source[1])
    asked = count if samples is None else min(samples, count)
    numbers = torch.arange(asked) * count // asked  # spread over all of them
    limit = min((port.most[0] for port in ports if port.most and port.most[0] is not None), default=SIZES[-1])
    first: _Tried | None = None
    for size in _sizes(asked, limit):
        part, numbers = numbers[:size], numbers[size:]
        batch = subject.fetch(part)
        made = _asked(program, exporter, program.layouts[0].parted(batch.inputs), batch.targets, counted=True)
        first = made if first is None or (size > 1 and len(first.given[0]) == 1) else first
        yield made
    if first is not None and len(first.given[0]) == 1 < limit:
        # So few samples that none has been asked together with another: the same ones again.
        for size in SIZES[1:3]:
            raw = program.layouts[0].parted(subject.fetch(torch.arange(min(size, limit)) % count).inputs)
            yield _asked(program, exporter, raw, None, counted=False)
    if first is not None and _has_length(ports):
        yield from _shorter(program, exporter, first)


def _shorter(program: Program, exporter: Exporter, first: _Tried) -> Iterator[_Tried]:
    """Sequences of fewer tokens; a length that the model itself does not take (a window is longer) is not asked for."""
    length = first.given[0].shape[1]
    for shorter in dict.fromkeys((max(1, length // 2), 1)):
        try:
            made = _asked(program, exporter, tuple(tensor[:, :shorter] for tensor in first.given), None, counted=False)
        except (RuntimeError, IndexError, ValueError):
            continue
        yield made


def _sizes(samples: int, limit: int) -> Iterator[int]:
    sizes = iter(SIZES)
    while samples:
        size = min(next(sizes, SIZES[-1]), limit, samples)
        yield size
        samples -= size


def _asked(program: Program, exporter: Exporter, raw: tuple[Tensor, ...], targets: Any, *, counted: bool) -> _Tried:
    given = raw
    if not exporter.inside and program.prepare is not None:
        prepared = program.prepare(program.layouts[0].joined([tensor.clone() for tensor in raw]))
        given = (
            tuple(prepared.values())
            if isinstance(prepared, dict)
            else (prepared,)
            if isinstance(prepared, Tensor)
            else tuple(prepared)
        )
    return _Tried(tuple(tensor.contiguous() for tensor in given), program.answer(raw), targets, counted)


def _has_length(ports: Sequence[Port]) -> bool:
    return all(len(port.shape) > 1 and port.shape[1] is None for port in ports)


def _answers(artifact: Artifact, tried: Sequence[_Tried], device: str) -> list[tuple[Tensor, ...]]:
    try:
        answered = run_elsewhere(
            artifact.folder, [[_array(tensor) for tensor in batch.given] for batch in tried], device
        )
    except OSError as error:
        raise CannotSave(
            f"The samples that it is tried on cannot be put into {gettempdir()} ({error.strerror or error}). Nothing was exported."
        ) from None
    except RuntimeFailure as failure:
        at = f"the batch {tried[failure.batch].words}" if failure.batch >= 0 else "it at all"
        raise CannotExport(
            f"{artifact.name} as {artifact.target} was written, but {artifact.runtime['package']} could not run {at}: {failure}. "
            "Nothing was exported."
        ) from None
    return [tuple(map(torch.from_numpy, batch)) for batch in answered]


def _array(tensor: Tensor) -> Array:
    array: Array = tensor.detach().numpy()
    return array


# -- where they part --


def _first_differing(
    subject: Subject,
    program: Program,
    exporter: Exporter,
    artifact: Artifact,
    batch: _Tried,
    tolerance: float,
    device: str,
) -> str:
    """The layer, in words, found by exporting the same program once more with all its layers' answers as outputs."""
    if not exporter.inside:
        return "The weights were not written as they are, or the recipe's model has changed."
    twice = max(map(error_between, batch.ours, program.answer(batch.given)), default=0.0)
    if twice > tolerance * max(1.0, *map(largest_in, batch.ours)):
        return f"The model itself answers otherwise when asked twice, by {twice:.3g}: it draws random numbers, or remembers what was asked."
    observed, original = Observed(exportable(program)).eval(), Observed(program).eval()
    ours, names = original.answer(batch.given), list(original.calls)
    observed.name(len(ours))
    with TemporaryDirectory(prefix="trueloop-export-") as scratch:
        try:
            given = replace(subject.given(program, inside=True), device=device if exporter.native else "cpu")
            theirs = _observed(exporter, observed, given, artifact, Path(scratch) / "observed", batch, device)
        except (CannotExport, RuntimeFailure, RuntimeError) as error:
            reason = str(error).splitlines()[0][:200]
            return f"Which layer it is cannot be told: with the layers' answers as outputs it does not run ({reason})."
    for name, a, b in zip(names, ours, theirs, strict=False):
        apart = error_between(a, b)
        if apart > tolerance * max(1.0, largest_in(a)):
            return f"The first differing layer is {_shown(program, name)}, by {apart:.3g}."
    return "No single layer differs when each is looked at: they part where the target joins layers, or after the last of them."


def _observed(
    exporter: Exporter, observed: Any, given: Given, artifact: Artifact, place: Path, batch: _Tried, device: str
) -> Sequence[Tensor]:
    with writing(place) as folder:
        ports = exporter.write(observed, given, folder.aside / exporter.file)
        folder.seal(replace(artifact, inputs=ports, verification=None))
        asked = [[_array(tensor) for tensor in batch.given]]
        return [torch.from_numpy(array) for array in run_elsewhere(folder.aside, asked, device)[0]]


def _shown(program: Program, name: str) -> str:
    module = program.model.get_submodule(name)
    place = birthplace(program.model, name) if name else None
    written = f", made in {place.path}:{place.line}" if place is not None else ""
    return f"{name or 'the model itself'} ({type(module).__name__}{written})"
