"""Model, loss, optimizer and the device they run on."""

from __future__ import annotations

from typing import Final

from trueloop.readiness.question import Run, asked
from trueloop.results.readiness import Statement, stated

__all__ = ["device", "held", "loss", "model", "optimizer"]

AGAIN: Final = "trueloop train {recipe}"
SECTION: Final = "model"


@asked(SECTION, "the model", AGAIN)
def model(run: Run) -> Statement:
    record = run.record
    figures = {name: record.figure(f"facts.json#model.{name}") for name in ("class", "parameters", "trained")}
    if not figures["trained"].value:
        return stated(
            SECTION, "bad", "{class} has {parameters:,} parameters, and {trained} of them are to be trained", **figures
        )
    return stated(SECTION, "note", "{class}, {parameters:,} parameters, {trained:,} of them to be trained", **figures)


@asked(SECTION, "the loss", AGAIN)
def loss(run: Run) -> Statement:
    name, task = (run.record.figure(f"facts.json#loss.{key}") for key in ("name", "task"))
    if run.record.value("facts.json#loss.own"):
        return stated(SECTION, "note", "a loss of the recipe's own: {name}", name=name)
    return stated(SECTION, "note", "{name}, for the task {task}", name=name, task=task)


@asked(SECTION, "the optimizer", AGAIN)
def optimizer(run: Run) -> Statement:
    record = run.record
    return stated(
        SECTION,
        "note",
        "{kind} with {groups} groups of parameters; learning rate at most {lr:.4g}, {schedule}, after {warmup} steps of warm-up",
        kind=record.figure("facts.json#optimizer.class"),
        groups=record.figure("facts.json#optimizer.count"),
        lr=record.number("run.json#recipe.lr"),
        schedule=record.figure("run.json#recipe.schedule"),
        warmup=record.figure("run.json#recipe.warmup"),
    )


@asked(SECTION, "what the optimizer holds", AGAIN)
def held(run: Run) -> Statement:
    holds, trained = run.record.figure("facts.json#optimizer.held"), run.record.figure("facts.json#model.trained")
    if holds.value != trained.value:
        text = "the optimizer holds {holds:,} numbers, and {trained:,} of the model are to be trained: the others stay as they are"
        return stated(SECTION, "bad", text, holds=holds, trained=trained)
    return stated(
        SECTION, "good", "the optimizer holds all {holds:,} numbers that are to be trained", holds=holds
    ).and_see(*trained.addresses)


@asked(SECTION, "the device", AGAIN)
def device(run: Run) -> Statement:
    record = run.record
    figures = {
        name: record.figure(f"facts.json#device.{name}") for name in ("name", "precision", "compile", "processes")
    }
    text = "on {name} in {precision}, compile {compile}, processes: {processes}"
    if figures["name"].value == "cpu" and record.has("run.json#machine.cuda"):
        figures["idle"] = record.figure("run.json#machine.cuda")
        return stated(SECTION, "risk", text + "; the {idle} of this machine is not used", **figures).advising(
            f"{AGAIN} --set device=cuda".format(recipe=run.recipe)
        )
    return stated(SECTION, "note", text, **figures)
