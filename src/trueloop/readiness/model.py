"""Model, loss, optimizer and device."""

from typing import Final

from trueloop.readiness.statements import Run, question
from trueloop.results.readiness import Statement, stated

__all__ = ["device", "held", "loss", "model", "optimizer"]

AGAIN: Final = "trueloop train {recipe}"
SECTION: Final = "model"


@question(SECTION, "the model", AGAIN)
def model(run: Run) -> Statement:
    figures = {name: run.record.figure(f"facts.json#model.{name}") for name in ("class", "parameters", "trained")}
    if not figures["trained"].value:
        return stated(SECTION, "bad", "{class} has {parameters:,} parameters, {trained} of them trainable", **figures)
    return stated(SECTION, "note", "{class}, {parameters:,} parameters, {trained:,} of them trainable", **figures)


@question(SECTION, "the loss", AGAIN)
def loss(run: Run) -> Statement:
    name, task = (run.record.figure(f"facts.json#loss.{key}") for key in ("name", "task"))
    if run.record.value("facts.json#loss.own"):
        return stated(SECTION, "note", "a custom loss: {name}", name=name)
    return stated(SECTION, "note", "{name}, for the task {task}", name=name, task=task)


@question(SECTION, "the optimizer", AGAIN)
def optimizer(run: Run) -> Statement:
    record = run.record
    text = "{kind} with {groups} parameter groups; learning rate at most {lr:.4g}, {schedule}, {warmup} warm-up steps"
    figures = {
        "kind": record.figure("facts.json#optimizer.class"),
        "groups": record.figure("facts.json#optimizer.count"),
        "lr": record.number("run.json#recipe.lr"),
        "schedule": record.figure("run.json#recipe.schedule"),
        "warmup": record.figure("run.json#recipe.warmup"),
    }
    return stated(SECTION, "note", text, **figures)


@question(SECTION, "what the optimizer holds", AGAIN)
def held(run: Run) -> Statement:
    holds, trained = run.record.figure("facts.json#optimizer.held"), run.record.figure("facts.json#model.trained")
    if holds.value != trained.value:
        text = "the optimizer holds {holds:,} of {trained:,} trainable parameters: the others never change"
        return stated(SECTION, "bad", text, holds=holds, trained=trained)
    made = stated(SECTION, "good", "the optimizer holds all {holds:,} trainable parameters", holds=holds)
    return made.and_see(*trained.addresses)


@question(SECTION, "the device", AGAIN)
def device(run: Run) -> Statement:
    record = run.record
    names = ("name", "precision", "compile", "processes")
    figures = {name: record.figure(f"facts.json#device.{name}") for name in names}
    text = "on {name} in {precision}, compile {compile}, processes: {processes}"
    if figures["name"].value == "cpu" and record.has("run.json#machine.cuda"):
        figures["idle"] = record.figure("run.json#machine.cuda")
        made = stated(SECTION, "risk", text + "; the {idle} of this machine is not used", **figures)
        return made.advising(f"{AGAIN} --set device=cuda".format(recipe=run.recipe))
    return stated(SECTION, "note", text, **figures)
