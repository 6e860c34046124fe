"""The result of `sweep` as a document: the verdict, and the settings, the best first."""

from collections.abc import Iterator
from statistics import fmean, stdev
from typing import Any, Final

from trueloop.results.document import Column, Document, Facts, Item, Items, Part, Table, Text, Tone
from trueloop.results.sweep import LEVEL, Setting, Sweep, spread_text

__all__ = ["document"]

LONGEST: Final = 32  # Characters of a value in the table


def document(sweep: Sweep) -> Document:
    verdict, advice, method = sweep.verdict(), sweep.advice(), sweep.method()
    bad = any(trial.state == "failed" for setting in sweep.settings for trial in setting.trials)
    tone: Tone = "warning" if bad or sweep.chosen() is None or sweep.interrupted else "good"
    closing = (f"{verdict}{f'; {advice}' if advice else ''}", *((method,) if method else ()))
    notes = ("interrupted: type the same command again to continue",) if sweep.interrupted else ()
    return Document(
        title=f"Sweep {sweep.group}",
        parts=tuple(_parts(sweep)),
        notes=notes,
        subtitle=f"{sweep.counts()}; recipe `{sweep.recipe}`, runs in `{sweep.folder}`",
        tone=tone,
        closing=closing,
    )


def _parts(sweep: Sweep) -> Iterator[Part]:
    ranked, p_of = sweep.ranked(), {id(setting): p for setting, _, p in sweep.comparisons()}
    names = list(ranked[0].values) if ranked else []
    columns = [*(Column(name) for name in names), Column(f"valid {sweep.metric}", "number"), Column("±", "number")]
    columns += [Column("n", "number"), Column("against the best")]
    rows = [list(_row(setting, sweep, p_of.get(id(setting)))) for setting in ranked]
    if any(setting.states() for setting in ranked):
        columns.append(Column("not finished"))
        rows = [[*row, setting.states()] for row, setting in zip(rows, ranked, strict=True)]
    yield Table("", tuple(columns), tuple(map(tuple, rows)), best=frozenset({0} if sweep.chosen() else ()))
    if tests := sweep.test_values():
        best = sweep.chosen()
        values = {name: _with_spread(list(each)) for name, each in tests.items()}
        yield Facts(f"Test values of {best.label if best else ''}", values, hint="the setting chosen by validation")
    if troubles := sweep.troubles():
        yield Items("Trials to look at", tuple(Item("", text, "warning") for text in troubles), "warning")
    if best_setting := sweep.chosen():
        runs = [trial for trial in best_setting.trials if trial.value is not None]
        first = min(runs, key=lambda trial: trial.seed)
        yield Text(f"`trueloop evaluate {sweep.folder}/{first.run}` measures one of its models.", show="page")


def _row(setting: Setting, sweep: Sweep, p: float | None) -> Iterator[Any]:
    yield from (value if len(value) <= LONGEST else f"{value[: LONGEST - 1]}…" for value in setting.values.values())
    mean, _, spread = spread_text(setting).partition(" ± ")
    scores = setting.scores()
    yield mean if scores else ""
    yield spread
    yield str(len(scores))
    if setting is sweep.chosen() or not scores or p is None:
        yield "best" if setting is sweep.chosen() else ""
    else:
        yield f"{'cannot be told apart' if p >= LEVEL else 'worse'}, p = {p:.2g}"


def _with_spread(values: list[float]) -> str:
    return f"{fmean(values):.4g}" + (f" ± {stdev(values):.2g} (n = {len(values)})" if len(values) > 1 else "")
