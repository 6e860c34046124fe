"""CARD.md: the artifact for people. What is empty is for its owner to fill; the file is not sealed, so that they
can."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from trueloop.results.artifact import FILE, Artifact, Port

__all__ = ["card_of"]

EMPTY: Final = "(to be filled)"
MOST: Final = 20
"""Classes or columns that are listed; of more, their number."""


def card_of(artifact: Artifact) -> str:
    parts = (
        _what(artifact),
        _data(artifact),
        _metrics(artifact),
        _ports(artifact),
        _preprocessing(artifact),
        _files(artifact),
        _licence(artifact),
    )
    return "\n\n".join(parts) + "\n"


def _what(artifact: Artifact) -> str:
    run, recipe = artifact.run, artifact.run.get("recipe") or {}
    lines = [
        f"# {artifact.name}, as {artifact.target}",
        "",
        f"A model for {artifact.task}, trained by `trueloop train` (run {run.get('id', '?')}, step {run.get('step', '?')}, "
        f"{'the moving average of the weights' if run.get('weights') == 'ema' else 'the weights as trained'}).",
        f"Model: `{recipe.get('model', '?')}`. It runs with {artifact.runtime['package']} {artifact.runtime['version']}; made with "
        f"torch {artifact.versions['torch']}, trueloop {artifact.versions['trueloop']}.",
    ]
    return "\n".join([*lines, *(f"\n> {note}" for note in artifact.notes)])


def _data(artifact: Artifact) -> str:
    notes = artifact.run.get("data") or ["(the recipe says nothing of its data)"]
    return "\n".join(["## Data", "", *(f"- {note}" for note in notes), *_classes(artifact.classes)])


def _classes(classes: tuple[str, ...]) -> Iterator[str]:
    if classes:
        yield f"- {len(classes)} classes: {', '.join(map(_line, classes[:MOST]))}{', ...' if len(classes) > MOST else ''}"


def _line(name: str) -> str:
    """Names are anybody's: one that holds an end of line would begin a heading."""
    return name if name.isprintable() else name.encode("unicode_escape").decode()


def _metrics(artifact: Artifact) -> str:
    told = artifact.run.get("metrics") or {}
    lines = ["## Metrics", ""]
    if told.get("best") is not None:
        lines.append(
            f"- best validation {told.get('metric', 'metric')} of the run: {told['best']:.6g} at step {told.get('best_step')}"
        )
    if told.get("test"):
        lines.append("- test: " + ", ".join(f"{name} {value:.6g}" for name, value in told["test"].items()))
    lines.append(f"- readiness (`trueloop ready`): {artifact.run.get('readiness') or 'not judged'}")
    made = artifact.verification
    if made is not None:
        lines.append(
            f"- verified in a process of its own by {made.runtime}, on {made.samples:,} {made.split} samples in batches of "
            f"{', '.join(map(str, made.batches))}: largest difference {made.max_error:.2g} (tolerance {made.tolerance * made.scale:.2g}), "
            f"{made.disagreements} other predictions, {made.ties} ties"
        )
        lines += [
            f"- {name} on these: {ours:.6g} of the model, {theirs:.6g} exported"
            for name, (ours, theirs) in made.metrics.items()
        ]
    return "\n".join(lines)


def _ports(artifact: Artifact) -> str:
    lines = ["## Inputs and outputs", "", "| | name | dtype | shape |", "|---|---|---|---|"]
    named = [("in", port) for port in artifact.inputs] + [("out", port) for port in artifact.outputs]
    return "\n".join([*lines, *(f"| {way} | {port.name} | {port.dtype} | {_shape(port)} |" for way, port in named)])


def _shape(port: Port) -> str:
    def one(at: int, size: int | None) -> str:
        most = port.limit(at)
        return str(size) if size is not None else f"1 to {most}" if most else "any"

    return " x ".join(one(at, size) for at, size in enumerate(port.shape))


def _preprocessing(artifact: Artifact) -> str:
    told = dict(artifact.preprocessing)
    done = (
        "is part of the program: raw samples go in"
        if told.get("inside")
        else "is NOT part of the file: the caller does it"
    )
    prepared = f" ({told['prepare']})" if told.get("prepare") else ""
    lines = ["## Preprocessing", "", f"What the recipe does to raw samples{prepared} {done}.", ""]
    return "\n".join(
        [*lines, *(f"- {name}: {_short(value)}" for name, value in told.items() if name not in ("inside", "prepare"))]
    )


def _short(value: Any) -> str:
    if isinstance(value, list) and len(value) > MOST:
        return f"{len(value):,} entries, in {FILE}"
    if isinstance(value, list) and value and isinstance(value[0], dict):
        return ", ".join(str(each.get("name", each)) for each in value)
    return str(value)


def _files(artifact: Artifact) -> str:
    lines = ["## Files", "", "| file | bytes | SHA-256 |", "|---|---|---|"]
    return "\n".join(
        [
            *lines,
            *(
                f"| {name} | {entry.get('bytes', 0):,} | `{entry.get('sha256', '')}` |"
                for name, entry in artifact.files.items()
            ),
        ]
    )


def _licence(artifact: Artifact) -> str:
    return "\n".join(["## Licence", "", *(f"- {name}: {text or EMPTY}" for name, text in artifact.licence.items())])
