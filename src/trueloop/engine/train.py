"""The training loop, written out. Read it aloud.

Each iteration is one optimizer step, or a replay of several (`programs/cuda_graphs.py`). The sample order is a pure
function of (seed, epoch), the learning rate is one of the step, and the checkpoint holds everything else a step depends
on: so a run that was killed anywhere and resumed is bit-identical to one that was not.
"""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

from trueloop.engine.facts import EngineObserver
from trueloop.engine.nonfinite_guard import clear_gradients
from trueloop.engine.schedule import set_rate
from trueloop.engine.stop import catch_signals
from trueloop.engine.torch_settings import torch_settings
from trueloop.hook import Ending

if TYPE_CHECKING:
    from trueloop.engine.loop import Loop

__all__ = ["train"]


def train(loop: Loop) -> Ending:
    """Until the run is finished, from wherever it stands."""
    parts, state, cadence, program = loop.parts, loop.state, loop.cadence, loop.program
    recipe, parameters, precision, strategy = parts.recipe, parts.parameters, parts.precision, parts.strategy
    observer, samples = EngineObserver(parts, state, replays=program.replays), 0
    parts.into_training_mode()
    loop.hooks.begin()
    windows = loop.windows(observer.next_look)
    with torch_settings(precision, recipe), catch_signals(loop.stop), closing(windows):
        for window in windows:
            if program.steps_itself(window):
                norm, taken, overflow = program.take(window)  # replays several steps, or calls the recipe's own `step`
                loop.log.flush()  # while the device is busy
            else:
                # One divisor for the step: the mean over all its targets, in all micro-batches and processes.
                targets, losses = parts.count_targets(window), []
                observer.begin(window)  # looks at some steps, for the rules and the layer statistics
                clear_gradients(parameters)  # here, not after the update, so that their memory is reused at once
                for micro, divisor in window.divided(strategy, targets):
                    losses.append(program.backward(micro, divisor, observed=observer.looking))
                loss = strategy.add_up(losses, parameters)
                loss = parts.terms.settle(loss, targets, parameters)  # a loss with a divisor or parts of its own
                precision.unscale(parts.optimizer)  # before anything reads the gradient norm
                observer.gradients(loss)
                norm = strategy.norm(parameters)
                if recipe.clip is not None:
                    strategy.clip(parameters, norm, recipe.clip)
                set_rate(parts.optimizer, parts.schedule(state.clock) * state.plateau_factor)
                taken = parts.guard.step(loss, norm, (state.epoch, state.batch))  # skips a non-finite loss or gradient
                observer.updated(norm, taken)
                overflow = not taken and precision.is_overflow(loss)
                precision.learn()
                if parts.ema is not None and taken:
                    parts.ema.follow(state.step)
            state.clock += window.steps * (not overflow)  # a step that the scaler skipped does not move the schedule
            state.advance(window.ends_epoch, window.steps)
            samples += window.samples
            look = not taken or cadence.time_to_look(window.ends_epoch)
            if look and loop.recovery.handle_nonfinite(overflow=overflow):
                continue  # the run ends here, or went back to a checkpoint
            if cadence.time_to_log():
                loop.log.log(norm, samples)
                samples = 0
            else:
                loop.log.show_progress()  # by time
            evaluated = cadence.time_to_evaluate(window.ends_epoch)
            if loop.copies_differ(evaluated):
                continue  # the run ends here: its processes train different models
            best = loop.validation.evaluate() if evaluated else False
            loop.hooks.after_step(evaluated=evaluated, ends_epoch=window.ends_epoch)
            saved = cadence.time_to_save(evaluated) or best
            if saved:
                observer.tell()  # a run that is resumed here has written all rows before it
                loop.save()
            if loop.asked_to_stop(evaluated=evaluated):
                loop.leave(saved=saved)
        observer.tell()  # what is still on the device
        clear_gradients(parameters)
        parts.saver.finish()
    return loop.stop.ending or Ending("finished", state.step)
