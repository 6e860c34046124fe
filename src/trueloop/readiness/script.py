"""The note of a script, from one checked run of it: recorded by `trueloop ready SCRIPT`, or the run folder of
`trueloop check`, which has no events. A recipe has much more evidence."""

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Final

from trueloop.finding import Severity
from trueloop.readiness import contract, findings
from trueloop.readiness.performance import DATA_BOUND
from trueloop.readiness.record import Absent
from trueloop.readiness.statements import Question, Run, answers, claim_question, question, questions_in
from trueloop.results.readiness import SECTIONS, Readiness, Statement, Status, stated
from trueloop.rules.catalogue import find_rule, select
from trueloop.rules.rule import Rule
from trueloop.usercode.settings import Settings

__all__ = ["readiness_of_script"]

RULES: Final[Mapping[str, tuple[tuple[str, str], ...]]] = {
    "data": (
        ("train-validation-overlap", "training samples in the validation data"),
        ("not-shuffled", "order of the training samples"),
        ("inputs-not-normalized", "scale of the inputs"),
        ("nan-or-inf-in-inputs", "NaN or Inf in inputs"),
    ),
    "validation": (
        ("evaluated-in-train-mode", "mode during validation"),
        ("evaluation-without-no-grad", "graphs during validation"),
        ("nondeterministic-evaluation", "repeated validation"),
        ("metric-averaged-over-batches", "averaging of the metric"),
    ),
    "checkpoints": (("optimizer-state-not-restored", "what a resume does not restore"),),
    "reproducibility": (("no-seed-set", "the seed"),),
}  # Rules that answer a question of a section; the others are in the findings
AS_RECIPE: Final = "write it as a recipe, then: trueloop train RECIPE.py"
AGAIN: Final = "trueloop ready {run}"
WITH_VALIDATION: Final = "add a validation (model.eval(), torch.no_grad()), then: trueloop ready {run}"
PROBE: Final = "trueloop probe --format json --output {proofs} {run}"
"""All claims at once: the file holds the last results only."""


def readiness_of_script(run: Run, settings: Settings) -> Readiness:
    selected = select(settings.select, settings.ignore)
    questions = [*_QUESTIONS, *questions_in(vars(contract)), *questions_in(vars(findings)), *_by_rules(selected)]
    statements = sorted(answers(questions, run), key=lambda each: SECTIONS.index(each.section))
    return Readiness(run.name, tuple(statements))


def _by_rules(selected: tuple[type[Rule], ...]) -> Iterator[Question]:
    for section, rules in RULES.items():
        for name, topic in rules:
            yield Question(section, topic, AGAIN, partial(_rule_result, section=section, name=name, selected=selected))


def _rule_result(run: Run, section: str, name: str, selected: tuple[type[Rule], ...]) -> Statement:
    rule, record = find_rule(name), run.record
    not_applicable = {each["code"]: each["because"] for each in record.figure("report.json#not_applicable").value}
    found = [each["code"] for each in record.figure("report.json#findings").value]
    if rule not in selected:
        raise Absent(f"report.json#{rule.name}", "the rule is disabled in the settings")
    if rule.code in not_applicable:
        raise Absent(f"report.json#{rule.name}", str(not_applicable[rule.code]))
    links = [record.address(f"report.json#{part}") for part in ("findings", "not_applicable")]
    if rule.code in found:
        status: Status = "bad" if rule.severity is Severity.ERROR else "risk"
        found_it = stated(section, status, f"{rule.name}: reported, see the findings").and_see(*links)
        return found_it.advising(f"trueloop explain {rule.name}")
    return stated(section, "good", f"{rule.name}: checked, nothing found").and_see(*links)


def _first(run: Run, event: str, **wanted: object) -> str:
    """The address of the first event of a kind. Raises Absent."""
    for line in run.record.lines("events.jsonl", event):
        if all(run.record.value(f"events.jsonl:{line}#{name}") == value for name, value in wanted.items()):
            return f"events.jsonl:{line}"
    if not (run.record.folder / "events.jsonl").is_file():
        raise Absent(f"events.jsonl?{event}", "a run of `trueloop check` keeps no events")
    which = ",".join(f"{name}={value}" for name, value in wanted.items()) or "step"
    raise Absent(f"events.jsonl?{event}#{which}", "not seen in this run")


@question("model", "the model", AGAIN)
def _model(run: Run) -> Statement:
    at = _first(run, "ModelSeen")
    name, size = run.record.figure(f"{at}#name"), run.record.figure(f"{at}#parameters")
    return stated("model", "note", "{name}, {size:,} parameters", name=name, size=size)


@question("model", "the loss", AGAIN)
def _loss(run: Run) -> Statement:
    at = _first(run, "LossComputed", grad=True)
    function, reduction = run.record.figure(f"{at}#function"), run.record.figure(f"{at}#reduction")
    return stated("model", "note", "{function}, reduction {reduction}", function=function, reduction=reduction)


@question("model", "the optimizer", AGAIN)
def _optimizer(run: Run) -> Statement:
    at = _first(run, "Stepped")
    name, rate = run.record.figure(f"{at}#name"), run.record.number(f"{at}#learning_rates.0")
    return stated("model", "note", "{name}, learning rate {rate:.4g} at its first step", name=name, rate=rate)


@question("model", "what the optimizer holds", AGAIN)
def _held(run: Run) -> Statement:
    lines = run.record.lines("events.jsonl", "ParametersAccounted")
    at = f"events.jsonl:{lines[-1]}" if lines else _first(run, "ParametersAccounted")
    complete, others = run.record.figure(f"{at}#complete"), run.record.count(f"{at}#accounts")
    text = "{complete} trainable tensors have gradients and an optimizer; {others} lack one of them"
    return stated("model", "risk" if others.value else "good", text, complete=complete, others=others)


@question("model", "the device", AGAIN)
def _device(run: Run) -> Statement:
    at = _first(run, "BackwardDtypes")
    device, weights = run.record.figure(f"{at}#device"), run.record.figure(f"{at}#weights.0")
    return stated("model", "note", "on {device}, weights in {weights}", device=device, weights=weights)


@question("data", "number of samples", AGAIN)
def _sizes(run: Run) -> Iterator[Statement]:
    for fate, purpose in (("trained", "training"), ("evaluated", "validation")):
        size = run.record.figure(f"{_first(run, 'BatchInspected', fate=fate)}#samples")
        yield stated("data", "note", f"{{size:,}} {purpose} samples", size=size)


@question("data", "scale of the inputs", AGAIN)
def _inputs(run: Run) -> Statement:
    at = _first(run, "FirstLayerInput")
    figures = {name: run.record.number(f"{at}#{name}") for name in ("smallest", "largest")}
    text = "inputs of the first layer, {layer}, are from {smallest:.4g} to {largest:.4g}"
    return stated("data", "note", text, layer=run.record.figure(f"{at}#layer"), **figures)


@question("data", "workers", AGAIN)
def _workers(run: Run) -> Statement:
    at = _first(run, "LoaderSeen")
    workers, cores = run.record.figure(f"{at}#workers"), run.record.figure(f"{at}#cores")
    return stated("data", "note", "loader workers: {workers}, CPU cores: {cores}", workers=workers, cores=cores)


@question("validation", "a validation", WITH_VALIDATION, essential=True)
def _validated(run: Run) -> Statement:
    if run.record.lines("metrics.jsonl", "valid"):
        seen = run.record.count("metrics.jsonl?valid#step")
        return stated("validation", "note", "evaluations with a value that was seen: {seen}", seen=seen)
    passes = run.record.count("events.jsonl?EvaluationPass#step")
    return stated("validation", "note", "evaluation passes: {passes}", passes=passes)


@question("validation", "metric, and its value for a constant prediction and the last good run", AS_RECIPE)
def _metric(run: Run) -> Statement:
    raise Absent("run.json#metric", "a script does not say which value is its metric")


@question("validation", "course of the loss", AGAIN)
def _course(run: Run) -> Statement:
    if lines := run.record.lines("metrics.jsonl", "train"):
        first, end = (run.record.number(f"metrics.jsonl:{line}#loss") for line in (lines[0], lines[-1]))
        count = run.record.count("metrics.jsonl?train#loss")
        text = "over {count:,} rows of metrics the training loss went from {first:.4g} to {end:.4g}"
        better: Status = "good" if end.value < first.value else "risk"
        return stated("validation", better, text, first=first, end=end, count=count)
    at = _first(run, "LossCurve")
    first, end, count = (run.record.number(f"{at}#{name}") for name in ("first.0", "end", "count"))
    text = "over {count:,} backward calls the training loss went from {first:.4g} to {end:.4g}"
    return stated("validation", "good" if end.value < first.value else "risk", text, first=first, end=end, count=count)


@question("checkpoints", "a checkpoint", "save one with torch.save, then: trueloop ready {run}", essential=True)
def _saved(run: Run) -> Statement:
    lines = run.record.lines("events.jsonl", "FileWritten")
    at = f"events.jsonl:{lines[-1]}" if lines else _first(run, "FileWritten")
    names = {"weights": "weights", "optimizers": "an optimizer", "random": "random states", "counters": "a counter"}
    held = [word for name, word in names.items() if run.record.value(f"{at}#contents.{name}")]
    lacking = [word for word in names.values() if word not in held]
    text = f"the last saved file holds {', '.join(held) or 'no training state'}"
    text += f"; it lacks {', '.join(lacking)}" if lacking else ""
    link = run.record.address(f"{at}#contents")
    return stated("checkpoints", "risk" if lacking else "good", text).and_see(link)


_resumed = claim_question(
    "checkpoints", "exact resume", "resume-is-exact", "a resume is exact", "a resumed run differs", PROBE
)
_twice = claim_question(
    "reproducibility",
    "two runs give the same results",
    "runs-are-deterministic",
    "two runs give the same results",
    "two runs give different results",
    PROBE,
)


@question("reproducibility", "versions", AGAIN)
def _versions(run: Run) -> Statement:
    below = "machine." if run.record.has("run.json#machine") else ""
    figures = {name: run.record.figure(f"run.json#{below}{name}") for name in ("trueloop", "torch", "python")}
    return stated("reproducibility", "note", "trueloop {trueloop}, torch {torch}, python {python}", **figures)


@question("failure detection", "how the run ended", AGAIN, essential=True)
def _ended(run: Run) -> Statement:
    reason, code = run.record.figure("run.json#reason"), run.record.figure("run.json#exit_code")
    status: Status = "bad" if code.value else "risk" if reason.value not in ("finished", "exit") else "good"
    text = "the script ended with exit code {code}: {reason}"
    return stated("failure detection", status, text, code=code, reason=reason)


@question("failure detection", "which rules checked the run", AGAIN)
def _watched(run: Run) -> Statement:
    rules, steps = run.record.figure("report.json#watched.rules"), run.record.figure("report.json#watched.steps")
    if run.record.value("report.json#watched.failures"):
        failed = stated("failure detection", "risk", "rules failed with an error of their own")
        return failed.and_see(run.record.address("report.json#watched.failures"))
    text = "{rules} rules checked {steps:,} steps of this run; the next one needs `trueloop check` again"
    return stated("failure detection", "note", text, rules=rules, steps=steps)


@question("performance", "waiting for data", AGAIN)
def _waits(run: Run) -> Statement:
    at = _first(run, "BatchesAwaited")
    step, waited = run.record.number(f"{at}#step_ms"), run.record.number(f"{at}#waited_ms")
    share = waited / step
    bound = share.value > DATA_BOUND
    text = (
        f"{'data-bound' if bound else 'not data-bound'}: it waits for data {{share:.1%}} of a step of {{step:.2f}} ms"
    )
    return stated("performance", "risk" if bound else "good", text, share=share, step=step)


@question("larger data", "time per epoch", AGAIN)
def _epoch(run: Run) -> Statement:
    at = _first(run, "BatchesAwaited")
    loader = _first(run, "EpochStarted", loader=run.record.value(f"{at}#loader"))
    step, batches = run.record.number(f"{at}#step_ms"), run.record.number(f"{loader}#batches")
    text = "an epoch of {batches:,} batches takes about {seconds:.1f} s, and {longer:.1f} s with ten times the data"
    seconds = step * batches / 1e3
    return stated("larger data", "note", text, batches=batches, seconds=seconds, longer=seconds * 10)


_QUESTIONS: Final = questions_in(dict(globals()))
