"""The loop, written out. Read it aloud.

Each turn is one optimizer step, or several of the same that are played at once (`graphed.py`). The order of the data is
a pure function of (seed, epoch), the learning rate of the step, and everything else that a step depends on is in the
checkpoint: so a run that was killed anywhere ends with the same bits.
"""

from __future__ import annotations

from contextlib import closing

from trueloop.engine.facts import EngineObserver
from trueloop.engine.loop import Loop
from trueloop.engine.nonfinite_guard import clear_gradients
from trueloop.engine.schedule import set_rate
from trueloop.engine.stop import catch_signals
from trueloop.engine.torch_settings import torch_settings
from trueloop.hook import Ending

__all__ = ["train"]


def train(loop: Loop) -> Ending:
    """Train until it is enough, from wherever the loop stands."""
    recipe, model, task, state = loop.recipe, loop.forward, loop.task, loop.state
    optimizer, precision, strategy, guard = loop.optimizer, loop.precision, loop.strategy, loop.guard
    observer, samples = EngineObserver(loop), 0
    loop.into_training_mode()
    with torch_settings(precision, recipe), catch_signals(loop.stop), closing(loop.windows(observer.next_look)) as all_:
        for window in all_:
            if window.numbers is not None:
                # several steps at once, each of them what is written out below
                norm, taken, overflow = loop.play(window), True, False
            else:
                # One divisor for the whole step: the mean over all its targets, in all micro-batches and processes.
                targets, losses = loop.count_targets(window), []
                observer.begin(window)  # looks at some steps, for the rules and the statistics of layers
                clear_gradients(loop.parameters)  # here, not after the update: so their memory is used again at once
                for micro, divisor in loop.shared_out(window, targets):
                    if loop.whole is not None and loop.whole.takes(micro):
                        losses.append(loop.whole.backward(micro, divisor, looked=observer.looking))
                        continue
                    with precision.autocast():
                        loss = task.loss_sum(model(micro.inputs), micro.targets) / divisor
                    precision.scaled(loss).backward()  # type: ignore[no-untyped-call]
                    losses.append(loss.detach())
                loss = strategy.add_up(losses, loop.parameters)
                precision.unscale(optimizer)  # before anybody looks at the gradients' length
                observer.gradients(loss)
                norm = strategy.norm(loop.parameters)
                if recipe.clip is not None:
                    strategy.clip(loop.parameters, norm, recipe.clip)
                set_rate(optimizer, loop.schedule(state.clock) * state.plateau_factor)
                taken = guard.step(loss, norm, (state.epoch, state.batch))  # a non-finite loss or gradient is held back
                observer.updated(taken)
                overflow = not taken and precision.is_overflow(loss)
                precision.learn()
                if loop.ema is not None and taken:
                    loop.ema.follow(state.step)
            state.clock += window.steps * (not overflow)  # a step that the scaler refused does not advance the schedule
            state.advance(window.ends_epoch, window.steps)
            samples += window.samples

            if (not taken or loop.time_to_look(window.ends_epoch)) and loop.face_nonfinite(overflow=overflow):
                continue  # the run ends here, or went back to a checkpoint
            if loop.time_to_log():
                loop.log(norm, samples)
                samples = 0
            evaluated = loop.time_to_evaluate(window.ends_epoch)
            if loop.copies_differ(evaluated):
                continue  # the run ends here: its processes train models of their own
            best = loop.evaluate() if evaluated else False
            saved = loop.time_to_save(evaluated) or best
            if saved:
                loop.save()
            if loop.asked_to_stop():
                loop.leave(saved=saved)
        observer.tell()  # what is still waiting on the device
        clear_gradients(loop.parameters)
        loop.saver.finish()
    return loop.ending or Ending("finished", state.step)
