"""OPT119 optimizer-recreated-every-epoch: a new optimizer is created for every epoch, so its state is lost each time.

What it sees
------------
Three times in a row an optimizer was created over exactly the parameters of the one before, with the same settings. The
earlier one had taken one pass over the same loader and held state, and nothing else wrote to the weights in between.
Without a loader: twelve times in a row, after the same number of steps.

Why it hurts
------------
Momentum and Adam's averages are stored in the optimizer. Each epoch starts without them: with a large momentum most of
an epoch is spent on building it up again, Adam begins with steps of full size in the direction of each gradient's sign,
and a learning rate schedule never gets beyond its first epoch.

Evidence
--------
How many optimizers were dropped, after how many steps each, and for how many parameters they had state.

Use instead
-----------
    optimizer = torch.optim.Adam(model.parameters())
    for epoch in range(epochs):
        train_epoch(model, loader, optimizer)

When it is fine
---------------
Not reported: a new optimizer for each task, stage, fold or client (other loaders, several epochs, weights that are
loaded), with another learning rate, or without state (plain SGD).
"""

from typing import Final

from trueloop.event import SHORT_LIFE, OptimizerRebuilt, Place, Stepped
from trueloop.rules.rule import Findings, Rule, Severity, plural
from trueloop.rules.shared_thresholds import DROPPED_IN_A_ROW
from trueloop.usercode.rewrite import loops_around
from trueloop.usercode.source import called_name, calls_in, source_of

__all__ = ["OptimizerRecreatedEveryEpoch"]

WITHOUT_LOADER: Final = 12


class OptimizerRecreatedEveryEpoch(Rule, code="OPT119", severity=Severity.WARNING):
    not_applicable = "no optimizer step was seen"

    def __init__(self) -> None:
        self._in_a_row: dict[int, tuple[int, int]] = {}  # by set of parameters: dropped ones, and their steps

    def on_stepped(self, event: Stepped) -> None:
        """A run with steps was checked."""

    def on_optimizer_rebuilt(self, event: OptimizerRebuilt) -> Findings:
        continues = event.untouched and event.same_settings and not event.closure
        lost = event.steps > SHORT_LIFE and event.parameters_with_state > 0 and continues and event.passes <= 1
        count, steps = self._in_a_row.get(event.parameter_set, (0, event.steps))
        known = count == 0 or (event.steps == steps and event.same_loaders)
        count = (count + 1 if known else 1) if lost else 0
        self._in_a_row[event.parameter_set] = (count, event.steps)
        if count < (DROPPED_IN_A_ROW if event.passes else WITHOUT_LOADER):
            return
        yield self.finding(
            event,
            f"A new `{event.name}` replaces the old one after every {plural(event.steps, 'step')}, once per epoch: "
            f"{count} in a row lost their state for {plural(event.parameters_with_state, 'parameter')}.",
            fix="Create the optimizer once, before the loop over epochs.",
            evidence={"optimizer": event.name, "dropped": count, "steps_each": event.steps,
                      "parameters_with_state": event.parameters_with_state},
            place=_in_the_loop(event.place),
        )  # fmt: skip


def _in_the_loop(place: Place | None) -> Place | None:
    """The only call of the function that creates the optimizer, where that function has no loop around the line."""
    if place is None:
        return None
    source = source_of(place.path)
    statement = source.statement(place.line)
    if statement is None or loops_around(source, statement) or not place.function:
        return place
    calls = [call for call in calls_in(source.tree) if called_name(call) == place.function.rpartition(".")[2]]
    return source.place(calls[0]) if len(calls) == 1 else place
