"""The results of `lab` as documents: an article with its measurement, a checked exercise, the list of labs."""

from collections.abc import Iterator

from trueloop.results.check import counted
from trueloop.results.document import Code, Document, Facts, Item, Items, Part, Text, Tone
from trueloop.results.lab import GROUPS, Check, ExerciseCheck, LabEntry, LabRun, LabRuns, Labs

__all__ = ["document", "run_part"]


def document(result: LabRun | LabRuns | ExerciseCheck | Labs) -> Document:
    match result:
        case LabRun():
            return _article(result)
        case LabRuns():
            return _all(result)
        case ExerciseCheck():
            return _exercise(result)
        case Labs():
            return _progress(result) if result.progress else _list(result)


# -- one lab --


def _article(run: LabRun) -> Document:
    paragraphs = [Text(" ".join(each.split())) for each in run.about.split("\n\n") if each.strip()]
    parts: list[Part] = [*paragraphs, *([Code(run.code, "python", "Code")] if run.code else [])]
    parts += run.shown
    if run.sentences:
        parts.append(Items("Answer", tuple(_sentence(each.text, each.holds) for each in run.sentences)))
    if run.contradicted:
        parts.append(Facts("Measured", {name: str(value) for name, value in run.measured.items()}))
    return Document(
        title=run.question,
        parts=tuple(parts),
        notes=run.notes,
        tone=_tone(run),
        closing=tuple(_closing(run)),
        name=f"trueloop lab {run.name}",
    )


def _sentence(text: str, holds: bool) -> Item:
    if holds:
        return Item("", text, "good", badge="measured")
    said = f"{text} The measurement on this machine contradicts this sentence."
    return Item("", said, "error", badge="contradicted")


def _tone(run: LabRun) -> Tone:
    return "error" if run.contradicted or run.error else "good" if run.holds() else "advice"


def _closing(run: LabRun) -> Iterator[str]:
    yield f"{run.name}: {_outcome(run)}"
    if run.exercise:
        typed = f"trueloop lab {run.name}"
        yield f"Exercise: `{typed} --start FILE.py` writes it, `{typed} FILE.py` checks it."


def _outcome(run: LabRun) -> str:
    if run.not_here:
        return f"{run.not_here} Nothing was measured."
    if run.error:
        return "the lab itself failed."
    held = len(run.sentences) - len(run.contradicted)
    return f"{held} of {counted(len(run.sentences), 'sentence')} measured to be right; {run.seconds:.1f} s"


# -- all labs --


def run_part(run: LabRun) -> Items:
    """One line, and what is contradicted."""
    wrong = [Item("", each.text, "error") for each in run.contradicted]
    error = [Item("", run.error.strip().rpartition("\n")[2], "error")] if run.error else []
    return Items("", (Item(run.name, _outcome(run), _tone(run)), *wrong, *error))


def _all(result: LabRuns) -> Document:
    runs = result.runs
    wrong = [run.name for run in runs if run.exit_code()]
    absent = sum(bool(run.not_here) for run in runs)
    said = f"{counted(len(runs), 'lab')}: {sum(run.holds() for run in runs)} hold"
    said += f", {absent} cannot run here" if absent else ""
    said += f", {len(wrong)} do not: {', '.join(wrong)}" if wrong else ""
    tracebacks = [Code(run.error, title=run.name) for run in runs if run.error]
    return Document(
        title="Every lab, run here",
        parts=(*map(run_part, runs), *tracebacks),
        tone="error" if wrong else "good",
        closing=(f"{said}; {sum(run.seconds for run in runs):.0f} s",),
    )


# -- exercises --


def _exercise(result: ExerciseCheck) -> Document:
    done = result.holds()
    said = "solved" if done else f"{len(result.failed)} of {counted(len(result.checks), 'check')} not passed"
    return Document(
        title=f"{result.lab}: {result.file}",
        parts=(Items("", tuple(item for check in result.checks for item in _check(check))),),
        notes=result.notes,
        tone="good" if done else "error",
        closing=(f"{result.file}: {said}",),
    )


def _check(check: Check) -> Iterator[Item]:
    measured = f": {check.measured}" if check.measured else ""
    tone: Tone = "good" if check.holds else "error"
    yield Item("", f"{check.what}{measured}", tone, badge="passed" if check.holds else "failed")
    if not check.holds and check.hint:
        yield Item("hint", check.hint)


# -- lists --


def _grouped(labs: Labs) -> Iterator[tuple[str, list[LabEntry]]]:
    for group, heading in GROUPS.items():
        if entries := [each for each in labs.entries if each.group == group]:
            yield heading, entries


def _list(labs: Labs) -> Document:
    parts = tuple(
        Items(
            heading, tuple(Item(each.name, _line(each), "good" if each.state == "proven" else "") for each in entries)
        )
        for heading, entries in _grouped(labs)
    )
    solved = sum(each.state == "proven" for each in labs.entries)
    typed = "`trueloop lab NAME` runs one; `--start FILE.py` writes its exercise; `trueloop lab --progress` says more."
    return Document(
        title=f"{counted(len(labs.entries), 'lab')}: a question, measured on this machine",
        parts=parts,
        closing=(f"{solved} of {len(labs.entries)} proven. {typed}",),
    )


def _line(entry: LabEntry) -> str:
    also = [
        *(["exercise"] if entry.exercise else []),
        *([f"needs {'a GPU' if entry.needs == 'gpu' else entry.needs}"] if entry.needs else []),
        *([f"about {entry.seconds} s"] if entry.seconds > 20 else []),
        *(["proof is stale"] if entry.state == "stale" else []),
    ]
    return f"{entry.question} [{', '.join(also)}]" if also else entry.question


def _progress(labs: Labs) -> Document:
    tones: dict[str, Tone] = {"proven": "good", "stale": "warning", "": ""}
    parts = tuple(
        Items(heading, tuple(Item(each.name, _standing(each), tones[each.state]) for each in entries))
        for heading, entries in _grouped(labs)
    )
    solved = sum(each.state == "proven" for each in labs.entries)
    return Document(
        title=f"{solved} of {counted(len(labs.entries), 'lab')} proven",
        parts=parts,
        closing=(f"Proofs are in {labs.folder}.",),
    )


def _standing(entry: LabEntry) -> str:
    if entry.state == "proven":
        return "exercise solved" if entry.exercise else "answers measured to be right"
    if entry.state == "stale":
        return f"stale: {entry.why}"
    typed = f"`trueloop lab {entry.name} --start FILE.py`" if entry.exercise else f"`trueloop lab {entry.name}`"
    return f"open: {typed}"
