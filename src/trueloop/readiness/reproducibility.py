"""Can these results be reproduced?"""

from typing import Final

from trueloop.readiness.question import Run, claim_question, question
from trueloop.readiness.record import Absent
from trueloop.results.readiness import Statement, stated

__all__ = ["data", "deterministic", "order", "seeded", "versions"]

SECTION: Final = "reproducibility"


@question(SECTION, "the seed", "trueloop train {recipe}")
def seeded(run: Run) -> Statement:
    record = run.record
    seed, exact = record.figure("run.json#recipe.seed"), record.figure("run.json#recipe.deterministic")
    operations = "only deterministic operations" if exact.value else "torch's default operations"
    return stated(SECTION, "note", f"seed {{seed}}; {operations}", seed=seed).and_see(*exact.addresses)


@question(SECTION, "versions", "trueloop train {recipe}")
def versions(run: Run) -> Statement:
    figures = {name: run.record.figure(f"run.json#machine.{name}") for name in ("trueloop", "torch", "python")}
    text = "versions are recorded: trueloop {trueloop}, torch {torch}, python {python}"
    return stated(SECTION, "good", text, **figures)


@question(SECTION, "same data as the last good run", "trueloop ready {run} --baseline OTHER")
def data(run: Run) -> Statement:
    digest, read = (run.record.figure(f"facts.json#samples.train.{name}") for name in ("digest", "read"))
    if run.before is None:
        text = "digest of {read:,} training samples: {digest}"
        return stated(SECTION, "note", text, digest=digest, read=read)
    other, name = run.before.figure("facts.json#samples.train.digest"), run.before.figure("run.json#name")
    if run.before.value("facts.json#samples.train.read") != read.value:
        raise Absent("facts.json#samples.train.same", f"{name} read a different number of samples")
    same = other.value == digest.value
    verb = "are the same as" if same else "differ from"
    text = f"the training data {verb} those of {{name}} (digests of {{read:,}} samples)"
    made = stated(SECTION, "good" if same else "risk", text, read=read, name=name)
    return made.and_see(*digest.addresses, *other.addresses)


deterministic = claim_question(
    SECTION,
    "two runs give the same results",
    "runs-are-deterministic",
    "two runs give the same results",
    "two runs give different results",
)
order = claim_question(
    SECTION,
    "sample order follows the seed",
    "loader-order-is-seeded",
    "the sample order follows the seed",
    "the sample order does not follow the seed",
)
