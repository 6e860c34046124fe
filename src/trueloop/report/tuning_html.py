"""A tuning as one HTML file that opens offline: the winner, the table of trials, speed against memory, proofs and
refusals."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from typing import Final

from trueloop import __version__
from trueloop.report.html import PAGE, STYLE, TABLES, prose
from trueloop.report.tuning_terminal import proof_in_words, variant_in_words
from trueloop.report.units import bytes_of, seconds_of
from trueloop.results.tune import Trial, Tuning, front, words_of

__all__ = ["document"]

WIDTH: Final = 720
HEIGHT: Final = 300
EDGE: Final = 50
"""Points around the picture, for its labels."""
MORE: Final = """
section { margin: 2rem 0; } tr.won td { font-weight: 600; }
"""


def document(tuning: Tuning) -> str:
    title = f"trueloop tune: {tuning.subject}"
    return PAGE.format(title=escape(title), style=STYLE + TABLES + MORE, body="\n".join(_body(tuning)))


def _body(tuning: Tuning) -> Iterator[str]:
    best, place = tuning.best, tuning.place
    yield f"<h1>{escape(words_of(best.changes) or 'The recipe as it stands')}: {best.speed:.2f}x</h1>"
    where = f"{escape(place.name)}, torch {escape(place.torch)}"
    yield f'<p class="soft"><code>{escape(tuning.subject)}</code> for {tuning.objective} on {where}</p>'
    yield f"<section><h2>Trials</h2>{_table(tuning)}</section>"
    yield f"<section><h2>Speed against memory</h2>{_scatter(tuning)}</section>"
    for trial in tuning.trials:
        if trial.outcome == "kept" and trial.agreement is not None:
            yield f'<article class="good"><b>{trial.number}</b> is the same training: {prose(proof_in_words(trial.agreement))}</article>'
        elif trial.outcome == "refused":
            yield f'<article class="error"><b>{trial.number}</b> is refused: {prose(trial.said)}</article>'
        elif trial.said:
            yield f'<article class="advice"><b>{trial.number}</b> {trial.outcome}: {prose(trial.said)}</article>'
    rows = "".join(f"<tr><td>{escape(each.knob)}</td><td>{escape(each.why)}</td></tr>" for each in tuning.idle)
    yield f"<section><h2>Not tried</h2><table>{rows}</table></section>" if rows else ""
    yield from (f'<article class="advice">{prose(note)}</article>' for note in tuning.notes)
    yield f"<footer>Written by trueloop {escape(__version__)}.</footer>"


def _table(tuning: Tuning) -> str:
    heads = ("", "variant", "samples/s", "speed", "a step", "peak", "start", "outcome")
    head = "".join(f"<th>{name}</th>" for name in heads)
    return f"<table><tr>{head}</tr>{''.join(_row(trial, tuning.winner) for trial in tuning.trials)}</table>"


def _row(trial: Trial, winner: int) -> str:
    cells = [str(trial.number), variant_in_words(trial)]
    pace = trial.pace
    if pace is None:
        cells += [""] * 5
    else:
        cells += [f"{pace.samples_per_second:,.0f}", f"{trial.speed:.2f}x", seconds_of(pace.step_seconds)]
        cells += [bytes_of(pace.peak_bytes), seconds_of(pace.start_seconds)]
    won = trial.number == winner
    cells.append("winner" if won else trial.outcome)
    made = "".join(f"<td>{escape(cell)}</td>" for cell in cells)
    return f"<tr{' class=won' if won else ''}>{made}</tr>"


def _scatter(tuning: Tuning) -> str:
    points = [(trial, trial.pace) for trial in tuning.trials if trial.pace is not None and trial.speed > 0]
    best = front(tuning.trials)
    fastest, largest = max(trial.speed for trial, _ in points), max(pace.peak_bytes for _, pace in points) or 1
    marks = []
    for trial, pace in points:
        x = EDGE + pace.peak_bytes / largest * (WIDTH - 2 * EDGE)
        y = HEIGHT - EDGE - trial.speed / fastest * (HEIGHT - 2 * EDGE)
        colour = "var(--good)" if trial in best else "var(--error)" if trial.outcome == "refused" else "var(--soft)"
        marks.append(
            f'<circle cx="{x:.0f}" cy="{y:.0f}" r="6" fill="{colour}"/><text x="{x + 9:.0f}" y="{y + 4:.0f}">{trial.number}</text>'
        )
    axes = f'<path d="M{EDGE} {EDGE // 2}V{HEIGHT - EDGE}H{WIDTH - EDGE}" fill="none" stroke="var(--line)"/>'
    words = (
        f'<text x="{EDGE}" y="{HEIGHT - EDGE // 2}">0</text><text x="{WIDTH - EDGE}" y="{HEIGHT - EDGE // 2}" text-anchor="end">'
        f'{bytes_of(largest)} of memory</text><text x="4" y="{EDGE}">{fastest:.2f}x</text>'
    )
    return f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img">{axes}{words}{"".join(marks)}</svg>'
