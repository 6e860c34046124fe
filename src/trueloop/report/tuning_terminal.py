"""A tuning as a person reads it: each trial when it is done; then the table, what was proved and refused, and the
picture."""

from __future__ import annotations

import io
from collections.abc import Mapping
from datetime import datetime
from statistics import mean
from typing import TYPE_CHECKING, Final, TextIO, final

from trueloop.report.ink import console_for, line, prose
from trueloop.report.tuning_picture import picture, sign_of
from trueloop.report.units import bytes_of, seconds_of
from trueloop.results.check import counted
from trueloop.results.tune import Agreement, Outcome, Trial, Tuning, front, words_of

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["Teller", "document", "print_tuning", "proof_in_words", "variant_in_words"]

STYLES: Final[Mapping[Outcome, str]] = {
    "reference": "bold",
    "kept": "green",
    "no gain": "dim",
    "refused": "bold red",
    "failed": "red",
    "unproved": "yellow",
    "reported": "cyan",
}
SHOWN: Final[Mapping[Outcome, str]] = {"refused": "REFUSED", "reported": "told only"}
WIDEST: Final = 60
"""Letters of a variant's name; the JSON report holds all."""


@final
class Teller:
    """One line for each trial, as it is done."""

    def __init__(self, to: TextIO, *, colour: bool) -> None:
        self._console = console_for(to, colour=colour)

    def tell(self, trial: Trial) -> None:
        numbers = ""
        if trial.pace is not None:
            rate, peak = trial.pace.samples_per_second, bytes_of(trial.pace.peak_bytes)
            numbers = f"  {rate:,.0f} samples/s, {trial.speed:.2f}x the reference, {peak}"
        why = f": {trial.said}" if trial.said else ""
        outcome = SHOWN.get(trial.outcome, trial.outcome)
        name = f"{trial.knob}: {words_of(trial.added)}" if trial.added else trial.knob
        line(
            self._console,
            (f"{sign_of(trial.number):>3}  ", "dim"),
            (name, ""),
            (numbers, "dim"),
            (f"  {outcome}{why}", STYLES[trial.outcome]),
        )


def print_tuning(tuning: Tuning, *, colour: bool, to: TextIO) -> None:
    console = console_for(to, colour=colour)
    place = tuning.place
    line(console)
    line(
        console,
        (tuning.subject, "bold"),
        (f" tuned for {tuning.objective} on {place.name}, {counted(place.cores, 'core')}, torch {place.torch}", "dim"),
    )
    if tuning.cached:
        when = datetime.fromtimestamp(tuning.when).astimezone().strftime("%Y-%m-%d %H:%M")
        prose(
            console,
            f"from memory: measured here on {when}, and nothing that it depends on has changed; --fresh measures anew",
            style="yellow",
        )
    _table(console, tuning)
    line(
        console,
        (
            "     speed: times the reference, each measured in turns with the best before it; the rates are reckoned from that",
            "dim",
        ),
    )
    _proofs(console, tuning)
    _picture(console, tuning)
    _batches(console, tuning)
    _idle(console, tuning)
    _closing(console, tuning)


def document(tuning: Tuning) -> str:
    """The same as plain text."""
    text = io.StringIO()
    print_tuning(tuning, colour=False, to=text)
    return text.getvalue()


def variant_in_words(trial: Trial) -> str:
    if trial.outcome == "reference":
        return "reference: fp32, eager"
    return words_of(trial.changes) or "the recipe as it stands"


def proof_in_words(same: Agreement) -> str:
    """Its numbers, each with what is allowed."""
    metric = ""
    if same.measured and same.reference:
        ours, theirs = mean(same.measured), mean(same.reference)
        metric = f", {same.metric} {ours:.4f} against {theirs:.4f} over {counted(len(same.measured), 'seed')} (noise {same.metric_allowed:.2g})"
    cosine = f", cosine of gradients at least {same.cosine:.4f} (needs {same.cosine_allowed:.2f})" if same.layer else ""
    return f"loss at most {same.loss_apart:.2%} apart in {same.steps} steps ({same.loss_allowed:.1%} is rounding){cosine}{metric}"


def _heading(console: Console, text: str, more: str = "") -> None:
    line(console)
    line(console, (text, "bold"), (f"  {more}" if more else "", "dim"))


def _table(console: Console, tuning: Tuning) -> None:
    names = [variant_in_words(trial)[:WIDEST] for trial in tuning.trials]
    width = max(map(len, names))
    line(console)
    line(
        console,
        (
            f"     {'variant':<{width}}{'samples/s':>12}{'speed':>8}{'a step':>10}{'peak':>10}{'start':>9}  outcome",
            "dim",
        ),
    )
    for trial, name in zip(tuning.trials, names, strict=True):
        numbers = " " * 49
        if trial.pace is not None:
            pace = trial.pace
            numbers = f"{pace.samples_per_second:>12,.0f}{trial.speed:>7.2f}x{seconds_of(pace.step_seconds):>10}"
            numbers += f"{bytes_of(pace.peak_bytes):>10}{seconds_of(pace.start_seconds):>9}"
        won = trial.number == tuning.winner
        outcome = "WINNER" if won else SHOWN.get(trial.outcome, trial.outcome)
        style = "bold green" if won else STYLES[trial.outcome]
        line(
            console,
            (f"  {sign_of(trial.number)}  ", "dim"),
            (f"{name:<{width}}{numbers}", "bold" if won else ""),
            (f"  {outcome}", style),
        )


def _proofs(console: Console, tuning: Tuning) -> None:
    proved = [trial for trial in tuning.trials if trial.outcome == "kept" and trial.agreement is not None]
    if proved:
        _heading(console, "Proved the same training", "against fp32, eager, on the same batches and initial weights")
        for trial in proved:
            assert trial.agreement is not None
            prose(
                console,
                proof_in_words(trial.agreement),
                label=f"  {sign_of(trial.number)}  ",
                width=5,
                label_style="green",
            )
    refused = [trial for trial in tuning.trials if trial.outcome == "refused"]
    if refused:
        _heading(console, "Refused", "faster, but another training")
        for trial in refused:
            prose(
                console, trial.said, label=f"  {sign_of(trial.number)}  ", width=5, style="red", label_style="bold red"
            )
            if trial.agreement is not None:
                prose(console, proof_in_words(trial.agreement), label=" ", width=5, style="dim")
    failed = [trial for trial in tuning.trials if trial.outcome in ("failed", "unproved") and trial.said]
    if failed:
        _heading(console, "Came to nothing")
        for trial in failed:
            prose(console, trial.said, label=f"  {sign_of(trial.number)}  ", width=5, label_style="red")


def _picture(console: Console, tuning: Tuning) -> None:
    drawn = picture(tuning.trials)
    if not drawn:
        return
    _heading(console, "Speed against memory", "up is faster, left is smaller; numbers are the trials")
    for each in drawn:
        line(console, (each, ""))
    best = ", ".join(f"{sign_of(trial.number)} ({trial.speed:.2f}x)" for trial in front(tuning.trials))
    line(console, (f"  of those proved the same, nobody beats in both: {best}", "dim"))


def _batches(console: Console, tuning: Tuning) -> None:
    sizes = tuning.batches
    if sizes is None:
        return
    _heading(console, "Larger batches", "they change the training, so they are told and not chosen: --allow batch")
    first = sizes.tried[0][1]
    line(
        console,
        ("  " + " · ".join(f"{size:,}: {rate / first:.2f}x, {bytes_of(peak)}" for size, rate, peak in sizes.tried), ""),
    )
    how = "measured" if sizes.measured else f"reckoned; the limit is {sizes.limit}"
    line(console, (f"  knee at {sizes.knee:,}; the largest that fits is about {sizes.largest:,} ({how})", ""))


def _idle(console: Console, tuning: Tuning) -> None:
    if tuning.idle:
        _heading(console, "Not tried")
        width = max(len(each.knob) for each in tuning.idle) + 4
        for each in tuning.idle:
            prose(console, each.why, label=f"  {each.knob}", width=width, style="dim", label_style="dim")


def _closing(console: Console, tuning: Tuning) -> None:
    line(console)
    for note in tuning.notes:
        prose(console, note, label="note", width=6, label_style="bold yellow")
    best = tuning.best
    changes = words_of(best.changes) or "the recipe as it stands"
    told = f"{best.speed:.2f}x the reference" if best.outcome != "reference" else "nothing that was tried is better"
    if best.outcome != "reference" and tuning.objective == "memory" and best.pace and tuning.reference.pace:
        told = f"{bytes_of(best.pace.peak_bytes)} instead of {bytes_of(tuning.reference.pace.peak_bytes)}, at {best.speed:.2f}x the speed"
    tried = counted(len(tuning.trials), "trial")
    prose(
        console,
        f"{changes}: {told}",
        f" ({tried}, {tuning.seconds:.0f} s)",
        label="winner",
        width=8,
        style="bold",
        label_style="bold green",
    )
