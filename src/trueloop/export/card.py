"""CARD.md: the artifact described for people. It is not sealed, so that its owner can fill in the licence."""

from typing import Any, Final

from trueloop.results.artifact import FILE, OWN, Artifact

__all__ = ["card_of"]

EMPTY: Final = "(to be filled)"
MOST: Final = 20  # Classes or columns that are listed; of more, only their number


def card_of(artifact: Artifact) -> str:
    sections = {
        "Data": _data(artifact),
        "Metrics": _metrics(artifact),
        "Inputs and outputs": _ports(artifact),
        "Preprocessing": _preprocessing(artifact),
        "Files": _files(artifact),
        "Licence": [f"- {name}: {text or EMPTY}" for name, text in artifact.licence.items()],
    }
    parts = (f"## {title}\n\n" + "\n".join(lines) for title, lines in sections.items())
    return "\n\n".join((_title(artifact), *parts)) + "\n"


def _title(artifact: Artifact) -> str:
    run, recipe = artifact.run, artifact.run.get("recipe") or {}
    lines = [
        f"# {artifact.name}, as {artifact.target}",
        "",
        f"A model {'with a loss of its own' if artifact.task == OWN else f'for {artifact.task}'}, trained by "
        f"`trueloop train` (run {run.get('id', '?')}, step "
        f"{run.get('step', '?')}, "
        f"{'EMA of the weights' if run.get('weights') == 'ema' else 'the weights as trained'}).",
        f"Model: `{recipe.get('model', '?')}`. Runtime: {artifact.runtime['package']} {artifact.runtime['version']}; "
        f"made with torch {artifact.versions['torch']}, trueloop {artifact.versions['trueloop']}.",
    ]
    return "\n".join([*lines, *(f"\n> {note}" for note in artifact.notes)])


def _data(artifact: Artifact) -> list[str]:
    lines = [f"- {note}" for note in artifact.run.get("data") or ["(the recipe does not describe its data)"]]
    if classes := artifact.classes:
        names = ", ".join(map(_line, classes[:MOST]))
        lines.append(f"- {len(classes)} classes: {names}{', ...' if len(classes) > MOST else ''}")
    return lines


def _line(name: str) -> str:
    """On one line: a newline in a name could start a heading."""
    return name if name.isprintable() else name.encode("unicode_escape").decode()


def _metrics(artifact: Artifact) -> list[str]:
    metrics, lines = artifact.run.get("metrics") or {}, []
    if metrics.get("best") is not None:
        best = f"{metrics['best']:.6g} at step {metrics.get('best_step')}"
        lines.append(f"- best validation {metrics.get('metric', 'metric')} of the run: {best}")
    if metrics.get("test"):
        lines.append("- test: " + ", ".join(f"{name} {value:.6g}" for name, value in metrics["test"].items()))
    lines.append(f"- readiness (`trueloop ready`): {artifact.run.get('readiness') or 'not checked'}")
    made = artifact.verification
    if made is not None:
        lines.append(
            f"- verified in a subprocess by {made.runtime}, on {made.samples:,} {made.split} samples in batches of "
            f"{', '.join(map(str, made.batches))}: largest difference {made.max_error:.2g} (tolerance "
            f"{made.tolerance * made.scale:.2g}), {made.disagreements} different predictions, {made.ties} ties"
        )
        if made.beyond:
            lines.append(f"- verified beyond these samples: {', '.join(made.beyond)}")
        pairs = made.metrics.items()
        lines += [f"- {name} on these samples: {a:.6g} (model), {b:.6g} (exported)" for name, (a, b) in pairs]
    return lines


def _ports(artifact: Artifact) -> list[str]:
    named = [("in", port) for port in artifact.inputs] + [("out", port) for port in artifact.outputs]
    rows = [f"| {way} | {port.name} | {port.dtype} | {' x '.join(port.sizes(' to '))} |" for way, port in named]
    return ["| | name | dtype | shape |", "|---|---|---|---|", *rows]


def _preprocessing(artifact: Artifact) -> list[str]:
    plain = artifact.preprocessing
    where = "is part of the program: pass raw samples" if plain.get("inside") else "is NOT in the file: do it yourself"
    prepare = f" ({plain['prepare']})" if plain.get("prepare") else ""
    rows = [f"- {name}: {_short(value)}" for name, value in plain.items() if name not in ("inside", "prepare")]
    return [f"The recipe's preprocessing of raw samples{prepare} {where}.", "", *rows]


def _short(value: Any) -> str:
    if isinstance(value, list) and len(value) > MOST:
        return f"{len(value):,} entries, in {FILE}"
    if isinstance(value, list) and value and isinstance(value[0], dict):
        return ", ".join(str(each.get("name", each)) for each in value)
    return str(value)


def _files(artifact: Artifact) -> list[str]:
    files = artifact.files.items()
    rows = [f"| {name} | {entry.get('bytes', 0):,} | `{entry.get('sha256', '')}` |" for name, entry in files]
    return ["| file | bytes | SHA-256 |", "|---|---|---|", *rows]
