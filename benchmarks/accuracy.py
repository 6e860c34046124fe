"""What the bundled recipes reach on their real data, against the bars they are meant to pass.

    TRUELOOP_DATA=DIR python benchmarks/accuracy.py --recipes fashion-mlp:3 fashion-cnn:1 mnist:1 sentiment:3
    shakespeare:1 --device auto

After a colon: how many seeds, from 0. Each is trained by `trueloop.session.train.train`, chosen by its validation data,
and told by its test data; shakespeare has none, so its validation loss is told. Exits with 1 if a bar is missed.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from dataclasses import dataclass, replace
from statistics import mean
from time import perf_counter

from trueloop.recipe.recipe import Recipe
from trueloop.recipes.catalogue import find_recipe
from trueloop.session.train import train


@dataclass(frozen=True)
class Bar:
    """What the mean over the seeds must reach."""

    value: float
    metric: str = "accuracy"
    seconds: float | None = None
    """The most that one run may take, where that is part of the bar."""

    def passed(self, reached: float, seconds: float) -> bool:
        good = reached <= self.value if self.metric == "loss" else reached >= self.value
        return good and (self.seconds is None or seconds <= self.seconds)

    def __str__(self) -> str:
        time = "" if self.seconds is None else f" in {self.seconds:.0f} s"
        return f"{'<=' if self.metric == 'loss' else '>='} {self.value:g}{time}"


BARS = {
    "digits": Bar(0.97, seconds=20),
    "fashion-mlp": Bar(0.889),
    "fashion-cnn": Bar(0.938),
    "mnist": Bar(0.993),
    "sentiment": Bar(0.76),
    "shakespeare": Bar(1.50, "loss", seconds=180),
    "shakespeare-tiny": Bar(2.2, "loss"),
}
"""digits and shakespeare are also meant to be quick: on two CPU cores, and on a GPU."""


HEADING = f"{'recipe':<17} seeds  metric   mean    {'each':<34} seconds  {'bar':<17} passed"


@dataclass(frozen=True)
class Result:
    recipe: str
    reached: list[float]
    seconds: list[float]

    def row(self) -> str:
        bar = BARS[self.recipe]
        each = " ".join(f"{value:.4f}" for value in self.reached)
        verdict = "yes" if self.passed() else "NO"
        return (
            f"{self.recipe:<17} {len(self.reached):>5}  {bar.metric:<8} {mean(self.reached):.4f}  {each:<34} "
            f"{mean(self.seconds):>7.1f}  {bar!s:<17} {verdict}"
        )

    def passed(self) -> bool:
        return BARS[self.recipe].passed(mean(self.reached), mean(self.seconds))


def once(recipe: Recipe, data: str | None, metric: str) -> tuple[float, float]:
    """What one run reaches, and its seconds, from reading the data to the test."""
    begun = perf_counter()
    with tempfile.TemporaryDirectory() as runs:
        ending = train(recipe, runs=runs, data=data).ending
    if ending.reason != "finished" or ending.best is None:
        raise SystemExit(f"{recipe.name}, seed {recipe.seed}, ended as {ending.reason}: {ending.message}")
    return (ending.best if ending.test is None else ending.test[metric]), perf_counter() - begun


def measured(name: str, seeds: int, device: str, data: str | None) -> Result:
    recipe = replace(find_recipe(name, {}), device=device, trackers=())
    runs = [once(replace(recipe, seed=seed), data, BARS[name].metric) for seed in range(seeds)]
    result = Result(name, [reached for reached, _ in runs], [seconds for _, seconds in runs])
    print(f"{HEADING}\n{result.row()}", flush=True)  # at once: a later recipe may run out of time
    return result


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--recipes", nargs="+", default=[f"{name}:1" for name in BARS], metavar="NAME[:SEEDS]")
    parser.add_argument("--device", default="auto")
    parser.add_argument(
        "--data", help="the folder that holds the data; without it TRUELOOP_DATA, then the cache folder"
    )
    arguments = parser.parse_args()
    asked = [word.partition(":") for word in arguments.recipes]
    if unknown := [name for name, _, _ in asked if name not in BARS]:
        parser.error(f"there is no bar for {', '.join(unknown)}; there are: {', '.join(BARS)}")
    results = [measured(name, int(seeds or 1), arguments.device, arguments.data) for name, _, seeds in asked]
    print("\n".join(["", HEADING, *(result.row() for result in results)]))
    return 0 if all(result.passed() for result in results) else 1


if __name__ == "__main__":
    sys.exit(main())
