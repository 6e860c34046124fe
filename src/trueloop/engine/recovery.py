"""What happens after a fault: non-finite batches are skipped, the run stops, or it goes back to a checkpoint."""

from dataclasses import replace
from typing import Any, final

from trueloop.checkpoint.contents import newest_valid
from trueloop.checkpoint.layout import CheckpointReader
from trueloop.data.source import moved
from trueloop.engine.batch_change import convert_position
from trueloop.engine.cadence import Cadence
from trueloop.engine.carry import carry_of, without_carried_state
from trueloop.engine.hook_calls import HookCalls
from trueloop.engine.nonfinite_guard import Position
from trueloop.engine.nonfinite_origin import RepeatedStep, describe_origin, find_origin, find_origin_in_shards
from trueloop.engine.own_groups import keep_options
from trueloop.engine.parts import Parts
from trueloop.engine.programs.own_step import OwnStep
from trueloop.engine.state import State
from trueloop.engine.stop import Stop
from trueloop.engine.stream_batches import StreamBatches
from trueloop.engine.task_kind import LossState
from trueloop.engine.training_log import TrainingLog
from trueloop.errors import BadCheckpoint
from trueloop.event import NotFinite
from trueloop.hook import Ending
from trueloop.measure.randomness import restore_states

__all__ = ["Recovery"]


@final
class Recovery:
    """Of one run."""

    def __init__(
        self,
        parts: Parts,
        state: State,
        stop: Stop,
        cadence: Cadence,
        log: TrainingLog,
        memory: dict[str, Any],
        hooks: HookCalls,
    ) -> None:
        self.hooks = hooks
        self.parts, self.state, self.stop, self.cadence, self.log = parts, state, stop, cadence, log
        self.memory = memory  # The user's own values, which a checkpoint carries
        self.own_step: OwnStep | None = None  # The program, if the recipe has a step of its own

    # -- checkpoints --

    def restore(self, reading: CheckpointReader) -> None:
        """Everything is bit-identical to when the checkpoint was written."""
        parts, training = self.parts, reading.training
        reading.fill_model("model", parts.model)
        if parts.ema is not None:
            reading.fill_model("ema", parts.ema.model)
        options = keep_options(parts.optimizer, parts.recipe)
        try:
            reading.fill_optimizer(parts.optimizer)
        except ValueError as error:  # torch: another number of groups, or of parameters in one
            raise BadCheckpoint(f"The optimizer's parameter groups have changed: {error}. Start a new run.") from None
        for group, option in zip(parts.optimizer.param_groups, options, strict=True):
            group.update(option)
        parts.precision.restore(training["precision"])
        self.state.restore(training["state"])
        parts.guard.restore(training["guard"])
        parts.guard.avoided = set(self.state.avoided)
        own = training["own"][parts.peers.rank if len(training["own"]) == parts.peers.world else 0]
        self.log.means.restore(own["means"])
        for name, schedule in parts.schedules.items():
            schedule.load_state_dict(training["schedules"][name])
        self.memory.clear()  # in place: others hold this very dict
        self.memory.update(moved(own["memory"], parts.device))
        if isinstance(parts.batches, StreamBatches):
            parts.batches.load_state_dict(training["stream"])
        if (carry := carry_of(parts.model)) is not None:
            carry.state = moved(own["carry"], parts.device)
        self.hooks.restore(own["hooks"])
        saved, world = training["random"], parts.peers.world
        if len(saved) == world:
            restore_states(saved[parts.peers.rank])
        else:
            memory = ", and loop.memory is that of the first process" if world > 1 and self.memory else ""
            said = f"{len(saved)} processes saved this checkpoint and {world} resume it: dropout differs{memory}."
            parts.hooks.noted(said)

    def go_back(self) -> bool:
        """To the newest valid checkpoint of this run; False: there is none."""
        parts = self.parts
        parts.saver.finish()
        parts.peers.wait()  # rank 0 writes, and all ranks read what it has written
        if len(set(parts.peers.gather(tuple(parts.saver.store.names())))) > 1:
            raise BadCheckpoint("The ranks see different checkpoints: they need one shared folder. Nothing was run.")
        name, reading, problems = newest_valid(parts.saver.store, parts.layout.read)
        for problem in problems:
            parts.hooks.noted(f"{problem} It was ignored.")
        if reading is None:
            if name is None and problems:
                raise BadCheckpoint(f"{problems[0]} This run has no valid checkpoint. Nothing was run.")
            return False
        self.restore(reading)
        note = convert_position(self.state, reading.about, parts.recipe, parts.batches.steps_per_epoch)
        if note:
            parts.hooks.noted(note)
        return True

    # -- non-finite batches --

    def handle_nonfinite(self, *, overflow: bool = False) -> bool:
        """Skip non-finite batches; no weight has seen them. True: the run stops, or went back to a checkpoint."""
        recipe, state, guard, hooks = self.parts.recipe, self.state, self.parts.guard, self.parts.hooks
        skipped = guard.take_skipped() if self.cadence.must_wait() else guard.finish_read()
        summary = guard.take_summary()
        for epoch, batch in () if overflow else skipped:
            state.skipped += 1
            ends = recipe.on_nonfinite == "stop" or state.skipped > recipe.max_nonfinite
            message = self._find_origin(epoch, batch, ends=ends)
            if ends:
                limit = f" That is more than max_nonfinite={recipe.max_nonfinite}."
                message += "" if recipe.on_nonfinite == "stop" else limit
                self.stop.ending = Ending("nonfinite", state.step, f"{message} It did not reach the weights.")
                return True
            if recipe.on_nonfinite == "rollback" and self._roll_back((epoch, batch), message):
                return True
            hooks.noted(f"{message} The step was skipped ({state.skipped} of at most {recipe.max_nonfinite}).")
        if skipped and self.parts.ema is not None:
            self.parts.ema.copy_buffers()  # the model's running statistics were restored
        if summary is not None:
            self.log.write(summary)
        return False

    def _find_origin(self, epoch: int, batch: int, *, ends: bool) -> str:
        """The sentence that names the first non-finite value, on any process. `ends`: the run ends here."""
        parts = self.parts
        if self.own_step is not None:
            return self._find_origin_in_own_step(self.own_step, epoch, batch, ends=ends)
        step, rates = epoch * parts.batches.steps_per_epoch + batch, parts.learning_rates
        again = parts.batches.batch_at(epoch, batch)
        micros = parts.batches.micros(again) if again else [None]
        if parts.strategy.in_parts:
            found = [find_origin_in_shards(parts.model, micro, step, rates, parts.strategy.mine) for micro in micros]
        else:
            autocast, at = parts.precision.autocast, LossState(step, epoch, parts.total_steps, training=True)
            with without_carried_state(parts.model):
                found = [find_origin(parts.model, parts.task, micro, step, rates, autocast, at) for micro in micros]
        event = self._first_known(found)
        if isinstance(parts.batches, StreamBatches):
            where = "The layer is unknown: the batch came from a stream and cannot be made again."
            return f"The loss or a gradient is non-finite at step {step + 1:,}. {where}"
        why = " The layer is unknown, because each process holds a part of the model." if event.what == "loss" else ""
        return describe_origin(event, epoch, batch) + (why if event.origin == "unknown" else "")

    def _find_origin_in_own_step(self, program: OwnStep, epoch: int, number: int, *, ends: bool) -> str:
        """The step may change what it likes, so it is computed once more only where nothing comes after it."""
        parts = self.parts
        step, rates = epoch * parts.batches.steps_per_epoch + number, parts.learning_rates
        position, batch = program.skipped or (None, None)
        if position != (epoch, number):
            batch = parts.batches.batch_at(epoch, number)
        found, why = find_origin_in_shards(parts.model, batch, step, rates, list), ""
        if found.origin == "unknown" and ends and batch is not None:
            again = RepeatedStep(parts.model, step, rates)
            why = program.repeat(batch, (epoch, number), again)
            found = again.found or found
            why = why or "it was finite when it was computed once more, with different random numbers"
        elif not ends:
            why = "your own step is computed once more only when the run ends; on_nonfinite=stop finds the layer"
        else:
            why = "the batch is gone and cannot be made again"
        event = self._first_known([found])
        sentence = describe_origin(event, epoch, number)
        if event.origin == "unknown":
            return f"{sentence} The layer is unknown: {next(filter(None, parts.peers.gather(why)))}."
        once_more = event.origin in ("layer", "loss")
        return f"{sentence} The step was computed once more to find this." if once_more else sentence

    def _first_known(self, found: list[NotFinite]) -> NotFinite:
        """Of all processes. It is reported."""
        parts = self.parts
        events: list[NotFinite] = [event for events in parts.peers.gather(found) for event in events]
        event = next((each for each in events if each.origin != "unknown"), events[0])
        parts.hooks.event_emitted(replace(event, skipped=parts.recipe.on_nonfinite != "stop"))
        return event

    def _roll_back(self, position: Position, message: str) -> bool:
        """To the last checkpoint, remembering the batch to skip when it comes again."""
        state, hooks = self.state, self.parts.hooks
        skipped, avoided, rollbacks = state.skipped, [*state.avoided, position], state.rollbacks + 1
        if not self.go_back():
            hooks.noted("There is no checkpoint to roll back to yet.")
            return False
        state.skipped, state.avoided, state.rollbacks = skipped, avoided, rollbacks
        self.parts.guard.avoided = set(avoided)
        hooks.noted(f"{message} Rolled back to the checkpoint of step {state.step:,}; that batch will be skipped.")
        return True
