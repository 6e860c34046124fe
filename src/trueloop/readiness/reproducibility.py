"""Could somebody else get these numbers again?"""

from __future__ import annotations

from typing import Final

from trueloop.readiness.question import Run, asked
from trueloop.readiness.record import Absent
from trueloop.readiness.validation import proved
from trueloop.results.readiness import Statement, stated

__all__ = ["data", "deterministic", "order", "seeded", "versions"]

SECTION: Final = "reproducibility"


@asked(SECTION, "the seed", "trueloop train {recipe}")
def seeded(run: Run) -> Statement:
    record = run.record
    seed, exact = record.figure("run.json#recipe.seed"), record.figure("run.json#recipe.deterministic")
    word = "only operations that give the same bits" if exact.value else "operations as torch chooses them"
    return stated(SECTION, "note", f"seed {{seed}}; {word}", seed=seed).and_see(*exact.addresses)


@asked(SECTION, "versions", "trueloop train {recipe}")
def versions(run: Run) -> Statement:
    names = ("trueloop", "torch", "python")
    figures = {name: run.record.figure(f"run.json#machine.{name}") for name in names}
    return stated(
        SECTION, "good", "versions are written down: trueloop {trueloop}, torch {torch}, python {python}", **figures
    )


@asked(SECTION, "whether the data are those of the last good run", "trueloop ready {run} --baseline OTHER")
def data(run: Run) -> Statement:
    digest, read = (
        run.record.figure("facts.json#samples.train.digest"),
        run.record.figure("facts.json#samples.train.read"),
    )
    if run.before is None:
        return stated(
            SECTION,
            "note",
            "the data are known by a digest of {read:,} training samples: {digest}",
            digest=digest,
            read=read,
        )
    other, name = run.before.figure("facts.json#samples.train.digest"), run.before.figure("run.json#name")
    if run.before.value("facts.json#samples.train.read") != read.value:
        raise Absent("facts.json#samples.train.same", f"{name} read another number of samples")
    same = other.value == digest.value
    text = (
        f"the training data are {'those' if same else 'others than those'} of {{name}} (digests of {{read:,}} samples)"
    )
    return stated(SECTION, "good" if same else "risk", text, read=read, name=name).and_see(
        *digest.addresses, *other.addresses
    )


@asked(SECTION, "whether two runs give the same numbers", "trueloop probe {run} runs-are-deterministic")
def deterministic(run: Run) -> Statement:
    return proved(
        run, SECTION, "runs-are-deterministic", "the same run twice gives the same", "the same run twice differs"
    )


@asked(SECTION, "whether the order of the data follows the seed", "trueloop probe {run} loader-order-is-seeded")
def order(run: Run) -> Statement:
    return proved(
        run, SECTION, "loader-order-is-seeded", "the order follows the seed", "the order does not follow the seed"
    )
