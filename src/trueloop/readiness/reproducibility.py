"""Can these results be reproduced?"""

from collections.abc import Iterator
from typing import Final

from trueloop.readiness.record import Absent
from trueloop.readiness.statements import Run, claim_question, question
from trueloop.results.readiness import Statement, stated

__all__ = ["changed", "data", "deterministic", "order", "seeded", "versions"]

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


@question(SECTION, "changes between resumes", "trueloop resume {run}")
def changed(run: Run) -> Iterator[Statement]:
    """Only of a run that was resumed with --accept-changes."""
    for number, change in enumerate(run.record.value("run.json#changes") or ()):
        at = f"run.json#changes.{number}"
        figures, said = {"step": run.record.figure(f"{at}.step")}, []
        for name, values in change.get("recipe", {}).items():
            sides = {
                f"{name}_{side}": f"{at}.recipe.{name}.{side}" for side, value in enumerate(values) if value is not None
            }
            figures |= {side: run.record.figure(where) for side, where in sides.items()}
            before, now = (f"{{{name}_{side}}}" if f"{name}_{side}" in sides else "nothing" for side in (0, 1))
            said.append(f"{name} from {before} to {now}")
        for topic, words in (("code", "{code} functions, classes or constants"), ("data", "data of {data} splits")):
            if change.get(topic):
                figures[topic] = run.record.count(f"{at}.{topic}")
                said.append(words)
        yield stated(SECTION, "risk", f"changed at step {{step:,}} and accepted: {'; '.join(said)}", **figures)


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
