"""Of somebody's script: what one checked and recorded run of it shows. Much is missing there that a recipe would
have."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Final

from trueloop.finding import Severity
from trueloop.readiness import contract, findings
from trueloop.readiness.performance import STARVED
from trueloop.readiness.question import Question, Run, answers, asked, questions_in
from trueloop.readiness.record import Absent
from trueloop.readiness.validation import proved
from trueloop.results.readiness import SECTIONS, Readiness, Statement, Status, stated
from trueloop.rules.catalogue import find_rule, select
from trueloop.rules.rule import Rule
from trueloop.usercode.settings import Settings

__all__ = ["readiness_of_script"]

RULES: Final[Mapping[str, tuple[tuple[str, str], ...]]] = {
    "data": (
        ("train-validation-overlap", "training rows in the validation"),
        ("not-shuffled", "the order of the training samples"),
        ("inputs-not-normalized", "the scale of the inputs"),
        ("nan-or-inf-in-inputs", "inputs that are no numbers"),
    ),
    "validation": (
        ("evaluated-in-train-mode", "the mode that it is validated in"),
        ("evaluation-without-no-grad", "graphs while it is validated"),
        ("nondeterministic-evaluation", "whether a validation repeats"),
        ("metric-averaged-over-batches", "how the metric is averaged"),
    ),
    "checkpoints": (("optimizer-state-not-restored", "what a resume leaves out"),),
    "reproducibility": (("no-seed-set", "the seed"),),
}
"""Rules that judge what a section asks for; the others speak up in the findings."""
AS_RECIPE: Final = "write it as a recipe, then: trueloop train RECIPE.py"
AGAIN: Final = "trueloop ready {run}"
PROBE: Final = "trueloop probe --format json --output training-readiness/proofs.json {run}"
"""All claims in one go: the file holds what was tried last."""


def readiness_of_script(run: Run, settings: Settings) -> Readiness:
    selected = select(settings.select, settings.ignore)
    questions = [*_QUESTIONS, *questions_in(vars(contract)), *questions_in(vars(findings)), *_by_rules(selected)]
    made = sorted(answers(questions, run), key=lambda each: SECTIONS.index(each.section))
    return Readiness(run.name, tuple(made))


def _by_rules(selected: tuple[type[Rule], ...]) -> Iterator[Question]:
    for section, rules in RULES.items():
        for name, topic in rules:
            yield Question(section, topic, AGAIN, partial(_judged, section=section, name=name, selected=selected))


def _judged(run: Run, section: str, name: str, selected: tuple[type[Rule], ...]) -> Statement:
    rule, record = find_rule(name), run.record
    unjudged = {each["code"]: each["because"] for each in record.figure("report.json#not_applicable").value}
    found = [each["code"] for each in record.figure("report.json#findings").value]
    if rule not in selected:
        raise Absent(f"report.json#{rule.name}", "the rule is switched off in the settings")
    if rule.code in unjudged:
        raise Absent(f"report.json#{rule.name}", str(unjudged[rule.code]))
    links = [record.address(f"report.json#{part}") for part in ("findings", "not_applicable")]
    if rule.code in found:
        status: Status = "bad" if rule.severity is Severity.ERROR else "risk"
        return (
            stated(section, status, f"{rule.name}: found, see the findings")
            .and_see(*links)
            .advising(f"trueloop explain {rule.name}")
        )
    return stated(section, "good", f"{rule.name}: judged, and nothing was found").and_see(*links)


def _first(run: Run, event: str, **wanted: object) -> str:
    """The address of the first event of a kind. Raises Absent."""
    for line in run.record.lines("events.jsonl", event):
        if all(run.record.value(f"events.jsonl:{line}#{name}") == value for name, value in wanted.items()):
            return f"events.jsonl:{line}"
    which = ",".join(f"{name}={value}" for name, value in wanted.items()) or "step"
    raise Absent(f"events.jsonl?{event}#{which}", "no such thing was seen")


@asked("model", "the model", AGAIN)
def _model(run: Run) -> Statement:
    at = _first(run, "ModelSeen")
    name, size = run.record.figure(f"{at}#name"), run.record.figure(f"{at}#parameters")
    return stated("model", "note", "{name}, {size:,} parameters", name=name, size=size)


@asked("model", "the loss", AGAIN)
def _loss(run: Run) -> Statement:
    at = _first(run, "LossComputed", grad=True)
    function, reduction = run.record.figure(f"{at}#function"), run.record.figure(f"{at}#reduction")
    return stated("model", "note", "{function}, reduced by {reduction}", function=function, reduction=reduction)


@asked("model", "the optimizer", AGAIN)
def _optimizer(run: Run) -> Statement:
    at = _first(run, "Stepped")
    name, rate = run.record.figure(f"{at}#name"), run.record.number(f"{at}#learning_rates.0")
    return stated("model", "note", "{name}, learning rate {rate:.4g} in its first step", name=name, rate=rate)


@asked("model", "what the optimizer holds", AGAIN)
def _held(run: Run) -> Statement:
    lines = run.record.lines("events.jsonl", "ParametersAccounted")
    at = f"events.jsonl:{lines[-1]}" if lines else _first(run, "ParametersAccounted")
    orderly, others = run.record.figure(f"{at}#complete"), run.record.count(f"{at}#accounts")
    text = "{orderly} trainable tensors have gradients and an optimizer; {others} lack one of them"
    return stated("model", "risk" if others.value else "good", text, orderly=orderly, others=others)


@asked("model", "the device", AGAIN)
def _device(run: Run) -> Statement:
    at = _first(run, "BackwardDtypes")
    device, weights = run.record.figure(f"{at}#device"), run.record.figure(f"{at}#weights.0")
    return stated("model", "note", "on {device}, weights in {weights}", device=device, weights=weights)


@asked("data", "how many samples there are", AGAIN)
def _sizes(run: Run) -> Iterator[Statement]:
    for fate, purpose in (("trained", "learn from"), ("evaluated", "validate")):
        size = run.record.figure(f"{_first(run, 'BatchInspected', fate=fate)}#samples")
        yield stated("data", "note", f"{{size:,}} samples to {purpose}", size=size)


@asked("data", "the scale of the inputs", AGAIN)
def _inputs(run: Run) -> Statement:
    at = _first(run, "FirstLayerInput")
    figures = {name: run.record.number(f"{at}#{name}") for name in ("smallest", "largest")}
    text = "numbers from {smallest:.4g} to {largest:.4g} enter the first layer, {layer}"
    return stated("data", "note", text, layer=run.record.figure(f"{at}#layer"), **figures)


@asked("data", "workers", AGAIN)
def _workers(run: Run) -> Statement:
    at = _first(run, "LoaderSeen")
    workers, cores = run.record.figure(f"{at}#workers"), run.record.figure(f"{at}#cores")
    return stated("data", "note", "workers of the loader: {workers}, cores: {cores}", workers=workers, cores=cores)


@asked(
    "validation",
    "a validation",
    "write a validation (model.eval(), torch.no_grad()), then: trueloop ready {run}",
    essential=True,
)
def _validated(run: Run) -> Statement:
    passes = run.record.count("events.jsonl?EvaluationPass#step")
    return stated("validation", "note", "passes over data that were scored without training: {passes}", passes=passes)


@asked("validation", "the metric, and what a constant answer or the last good run reach", AS_RECIPE)
def _metric(run: Run) -> Statement:
    raise Absent("metrics.jsonl", "a script keeps its metric to itself")


@asked("validation", "how the loss went", AGAIN)
def _course(run: Run) -> Statement:
    at = _first(run, "LossCurve")
    first, end, count = (run.record.number(f"{at}#{name}") for name in ("first.0", "end", "count"))
    text = "over {count:,} backwards the training loss went from {first:.4g} to {end:.4g}"
    return stated("validation", "good" if end.value < first.value else "risk", text, first=first, end=end, count=count)


@asked("checkpoints", "a checkpoint", "write one by torch.save, then: trueloop ready {run}", essential=True)
def _saved(run: Run) -> Statement:
    lines = run.record.lines("events.jsonl", "FileWritten")
    at = f"events.jsonl:{lines[-1]}" if lines else _first(run, "FileWritten")
    names = {"weights": "weights", "optimizers": "an optimizer", "random": "random states", "counters": "a counter"}
    held = [word for name, word in names.items() if run.record.value(f"{at}#contents.{name}")]
    lacking = [word for word in names.values() if word not in held]
    text = f"its last file holds {', '.join(held) or 'nothing that trains'}" + (
        f"; it lacks {', '.join(lacking)}" if lacking else ""
    )
    link = run.record.address(f"{at}#contents")
    return stated("checkpoints", "risk" if lacking else "good", text).and_see(link)


@asked("checkpoints", "whether a resumed run is the same run", PROBE)
def _resumed(run: Run) -> Statement:
    return proved(run, "checkpoints", "resume-is-exact", "a resume was proved", "a resumed run is another run")


@asked("reproducibility", "whether two runs give the same numbers", PROBE)
def _twice(run: Run) -> Statement:
    name = "runs-are-deterministic"
    return proved(run, "reproducibility", name, "the same run twice gives the same", "the same run twice differs")


@asked("reproducibility", "versions", AGAIN)
def _versions(run: Run) -> Statement:
    figures = {name: run.record.figure(f"run.json#{name}") for name in ("trueloop", "torch", "python")}
    return stated("reproducibility", "note", "trueloop {trueloop}, torch {torch}, python {python}", **figures)


@asked("failure detection", "how the run ended", AGAIN, essential=True)
def _ended(run: Run) -> Statement:
    reason, code = run.record.figure("run.json#reason"), run.record.figure("run.json#exit_code")
    status: Status = "bad" if code.value else "risk" if reason.value not in ("finished", "exit") else "good"
    return stated(
        "failure detection", status, "the script ended with exit code {code}: {reason}", code=code, reason=reason
    )


@asked("failure detection", "which rules watched the run", AGAIN)
def _watched(run: Run) -> Statement:
    rules, steps = run.record.figure("report.json#watched.rules"), run.record.figure("report.json#watched.steps")
    if run.record.value("report.json#watched.failures"):
        return stated("failure detection", "risk", "rules broke while they watched").and_see(
            run.record.address("report.json#watched.failures")
        )
    text = "{rules} rules judged {steps:,} steps of this run; without `trueloop check` nothing watches the next one"
    return stated("failure detection", "note", text, rules=rules, steps=steps)


@asked("performance", "whether it waits for data", AGAIN)
def _waits(run: Run) -> Statement:
    at = _first(run, "BatchesAwaited")
    step, waited = run.record.number(f"{at}#step_ms"), run.record.number(f"{at}#waited_ms")
    share = waited / step
    bound = share.value > STARVED
    text = (
        f"{'data-bound' if bound else 'not data-bound'}: {{share:.1%}} of a step of {{step:.2f}} ms is waiting for data"
    )
    return stated("performance", "risk" if bound else "good", text, share=share, step=step)


@asked("larger data", "how long an epoch would take", AGAIN)
def _epoch(run: Run) -> Statement:
    at = _first(run, "BatchesAwaited")
    loader = _first(run, "EpochStarted", loader=run.record.value(f"{at}#loader"))
    step, batches = run.record.number(f"{at}#step_ms"), run.record.number(f"{loader}#batches")
    text = "an epoch of {batches:,} batches takes about {seconds:.1f} s at this pace, and ten times the data {longer:.1f} s"
    seconds = step * batches / 1e3
    return stated("larger data", "note", text, batches=batches, seconds=seconds, longer=seconds * 10)


_QUESTIONS: Final = questions_in(dict(globals()))
