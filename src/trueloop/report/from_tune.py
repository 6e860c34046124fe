"""The result of `tune` as a document: all trials, what was verified and refused, speed against memory, the winner."""

from collections.abc import Iterator, Mapping
from datetime import datetime
from statistics import mean
from typing import Final

from trueloop.report.units import bytes_of, seconds_of
from trueloop.results import document as doc
from trueloop.results.check import counted
from trueloop.results.tune import Agreement, BatchSizes, Outcome, Trial, Tuning, front, words_of

__all__ = ["document", "trial_line"]

TONES: Final[Mapping[Outcome, doc.Tone]] = {
    "kept": "good",
    "refused": "error",
    "failed": "error",
    "unproved": "warning",
}
WORDS: Final[Mapping[Outcome, str]] = {"refused": "REFUSED", "reported": "not chosen", "unproved": "not verified"}
SIGNS: Final = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
WIDEST: Final = 60  # letters of a variant's name; the JSON report has all


def document(tuning: Tuning) -> doc.Document:
    place = tuning.place
    return doc.Document(
        title=f"{tuning.subject} tuned for {tuning.objective}",
        parts=tuple(_parts(tuning)),
        notes=tuning.notes,
        subtitle=f"on {place.name}, {counted(place.cores, 'core')}, torch {place.torch}",
        closing=(f"winner: {_winner(tuning)}",),
        tone="good",
        name=f"trueloop tune: {tuning.subject}",
    )


def trial_line(trial: Trial) -> doc.Items:
    """One line, printed as soon as the trial has ended."""
    name = f"{trial.knob}: {words_of(trial.added)}" if trial.added else trial.knob
    numbers = ""
    if trial.pace is not None:
        rate, peak = trial.pace.samples_per_second, bytes_of(trial.pace.peak_bytes)
        numbers = f"  {rate:,.0f} samples/s, {trial.speed:.2f}x the reference, {peak}"
    why = f": {trial.said}" if trial.said else ""
    tone: doc.Tone = "advice" if trial.outcome == "reported" else TONES.get(trial.outcome, "")
    return doc.Items("", (doc.Item(sign_of(trial.number), f"{name}{numbers}  {_outcome(trial)}{why}", tone),))


def sign_of(number: int) -> str:
    """One letter for a trial."""
    return SIGNS[number] if number < len(SIGNS) else "+"


def variant_in_words(trial: Trial) -> str:
    if trial.outcome == "reference":
        return "reference: fp32, eager"
    return words_of(trial.changes) or "the unchanged recipe"


def agreement_in_words(same: Agreement) -> str:
    """Its numbers, each with its limit."""
    metric = ""
    if same.measured and same.reference:
        ours, reference = mean(same.measured), mean(same.reference)
        seeds = f"over {counted(len(same.measured), 'seed')} (noise {same.metric_allowed:.2g})"
        metric = f", {same.metric} {ours:.4f} against {reference:.4f} {seeds}"
    cosine = f", gradient cosine at least {same.cosine:.4f} (needs {same.cosine_allowed:.2f})" if same.layer else ""
    apart = f"loss at most {same.loss_apart:.2%} apart in {same.steps} steps ({same.loss_allowed:.1%} is rounding)"
    return f"{apart}{cosine}{metric}"


def _outcome(trial: Trial) -> str:
    return WORDS.get(trial.outcome, trial.outcome)


def _parts(tuning: Tuning) -> Iterator[doc.Part]:
    if tuning.cached:
        when = datetime.fromtimestamp(tuning.when).astimezone().strftime("%Y-%m-%d %H:%M")
        text = f"from the cache: measured on this machine on {when}; --fresh measures again"
        yield doc.Text(text, tone="warning")
    yield _table(tuning)
    yield from _explained(tuning)
    yield from _speed_against_memory(tuning)
    if tuning.batches is not None:
        yield _batches(tuning.batches)
    if tuning.idle:
        yield doc.Items("Not tried", tuple(doc.Item(each.knob, each.why) for each in tuning.idle))


def _table(tuning: Tuning) -> doc.Table:
    numbers = doc.columns("variant", "samples/s", "speed", "step", "peak", "start")
    heads = (doc.Column("", "number"), *numbers, doc.Column("outcome"))
    best = frozenset(number for number, trial in enumerate(tuning.trials) if trial.number == tuning.winner)
    note = "Speed is relative to the reference. Each trial alternates with the best before it; rates follow from that."
    return doc.Table("", heads, tuple(_row(trial, tuning.winner) for trial in tuning.trials), note, best)


def _row(trial: Trial, winner: int) -> tuple[str, ...]:
    numbers = ("",) * 5
    if (pace := trial.pace) is not None:
        numbers = (
            f"{pace.samples_per_second:,.0f}",
            f"{trial.speed:.2f}x",
            seconds_of(pace.step_seconds),
            bytes_of(pace.peak_bytes),
            seconds_of(pace.start_seconds),
        )
    outcome = "WINNER" if trial.number == winner else _outcome(trial)
    return sign_of(trial.number), variant_in_words(trial)[:WIDEST], *numbers, outcome


def _explained(tuning: Tuning) -> Iterator[doc.Items]:
    verified = tuple(
        doc.Item(sign_of(trial.number), agreement_in_words(trial.agreement), "good")
        for trial in tuning.trials
        if trial.outcome == "kept" and trial.agreement is not None
    )
    if verified:
        hint = "against fp32, eager, on the same batches and initial weights"
        yield doc.Items("Verified: the same training", verified, "good", hint=hint)
    refused = tuple(
        doc.Item(sign_of(trial.number), trial.said + (f" ({agreement_in_words(same)})" if same else ""), "error")
        for trial in tuning.trials
        if trial.outcome == "refused"
        for same in [trial.agreement]
    )
    if refused:
        yield doc.Items("Refused", refused, "error", hint="faster, but a different training")
    failed = tuple(
        doc.Item(sign_of(trial.number), f"{_outcome(trial)}: {trial.said}", "warning")
        for trial in tuning.trials
        if trial.outcome in ("failed", "unproved") and trial.said
    )
    if failed:
        yield doc.Items("Without a result", failed, "warning")


def _speed_against_memory(tuning: Tuning) -> Iterator[doc.Part]:
    measured = [(trial, trial.pace.peak_bytes) for trial in tuning.trials if trial.pace is not None and trial.speed > 0]
    if len(measured) < 2:
        return
    best = front(tuning.trials)
    groups: dict[tuple[str, doc.Tone], list[tuple[Trial, int]]] = {
        ("not beaten in both", "good"): [],
        ("refused", "error"): [],
    }
    for trial, peak in measured:
        key: tuple[str, doc.Tone] = ("other trials", "")
        if trial in best:
            key = ("not beaten in both", "good")
        elif trial.outcome == "refused":
            key = ("refused", "error")
        groups.setdefault(key, []).append((trial, peak))
    series = tuple(
        doc.Series(
            name,
            tuple((peak, trial.speed) for trial, peak in group),
            tone,
            line=False,
            dots=True,
            labels=tuple(sign_of(trial.number) for trial, _ in group),
            titles=tuple(variant_in_words(trial) for trial, _ in group),
            sizes=(6.0,) * len(group),
        )
        for (name, tone), group in groups.items()
        if group
    )
    hint = "up is faster, left is smaller; numbers are the trials"
    x, y = doc.Axis("peak memory", unit="B", zero=True), doc.Axis("speed", unit="x", zero=True)
    yield doc.Plot("Speed against memory", series, x, y, hint=hint)
    listed = ", ".join(f"{sign_of(trial.number)} ({trial.speed:.2f}x)" for trial in best)
    yield doc.Text(f"Verified, and not beaten in both speed and memory: {listed}")


def _batches(sizes: BatchSizes) -> doc.Items:
    first = sizes.tried[0][1]
    items = [doc.Item(f"{size:,}", f"{rate / first:.2f}x, {bytes_of(peak)}") for size, rate, peak in sizes.tried]
    how = "measured" if sizes.measured else f"estimated; the limit is {sizes.limit}"
    items.append(doc.Item("", f"knee at {sizes.knee:,}; the largest that fits is about {sizes.largest:,} ({how})"))
    hint = "they change the training, so they are not chosen: use --allow batch"
    return doc.Items("Larger batches", tuple(items), hint=hint)


def _winner(tuning: Tuning) -> str:
    best, reference = tuning.best, tuning.reference
    changes = words_of(best.changes) or "the unchanged recipe"
    result = f"{best.speed:.2f}x the reference" if best.outcome != "reference" else "no trial is better"
    if best.outcome != "reference" and tuning.objective == "memory" and best.pace and reference.pace:
        sizes = f"{bytes_of(best.pace.peak_bytes)} instead of {bytes_of(reference.pace.peak_bytes)}"
        result = f"{sizes}, at {best.speed:.2f}x the speed"
    return f"{changes}: {result} ({counted(len(tuning.trials), 'trial')}, {tuning.seconds:.0f} s)"
