"""CKP105 scheduler-or-rng-not-restored: the scheduler, GradScaler or random state is not restored from the checkpoint.

What it sees
------------
A model that had not been trained in this run gets all its weights from a file, its optimizer gets its state, and at the
first step,

- a scheduler of that optimizer is at its start and is then stepped, although the file contains a scheduler that had
  been stepped, or an optimizer whose learning rate a scheduler had changed. With a function of the user (LambdaLR),
  only if its first step also takes the learning rate away from the one in the file, by more than a quarter (a warning);
- your own loop sets the learning rate, no scheduler does, and the rates of the first steps are 1, 2, 3 ... times the
  first one, which is not the one in the file: a warm-up from step 0 (a warning);
- a GradScaler is in use whose state was not restored;
- the file contains the state of torch's random generator, and it was not restored.

Why it hurts
------------
A scheduler that restarts warms up a second time, or decays from the full learning rate again. A scaler that restarts
skips steps until it has found its scale. Without the random state, the data order and dropout masks of the first epochs
repeat.

Evidence
--------
What restarts, what the file contains, and whether torch's random state was restored.

Use instead
-----------
    state = {..., "scheduler": scheduler.state_dict(), "scaler": scaler.state_dict(), "rng": torch.get_rng_state()}
    torch.save(state, path)

    scheduler.load_state_dict(checkpoint["scheduler"])
    scaler.load_state_dict(checkpoint["scaler"])
    torch.set_rng_state(checkpoint["rng"])

When it is fine
---------------
Not reported: schedulers positioned in another way (`last_epoch=`, steps before training, `step(epoch)`, a function of
the user that continues where the learning rate was); a constant learning rate; fine-tuning with a new optimizer; a
random state that was never saved.

Not checked: the random states of Python, NumPy and of a device.
"""

from typing import Final

from trueloop.event import OptimizerSettings, Resumed, RunEnded, ScheduleAtResume, ScheduleStepped
from trueloop.rules.rule import Findings, Rule, Severity
from trueloop.usercode.source import called_name, calls_in, shown_path, source_of

__all__ = ["SchedulerOrRngNotRestored"]

WARM_UP: Final = 5  # first rates that rise in proportion to the number of the step
STATES: Final = "Also save and load `scheduler.state_dict()`, `scaler.state_dict()` and `torch.get_rng_state()`."
JUMP: Final = 0.25  # relative change of the learning rate at the first step of the scheduler
RESTORES: Final = ("set_state", "set_rng_state", "set_rng_state_all", "setstate")
"""Functions that restore the state of a generator; not all of them can be observed while they run."""


class SchedulerOrRngNotRestored(Rule, code="CKP105", severity=Severity.ADVICE):
    not_applicable = "no training resumed from a file"

    def __init__(self) -> None:
        self._waiting: list[tuple[Resumed, ScheduleAtResume]] = []  # At their start; reported when they are stepped
        self._by_hand: dict[int, Resumed] = {}  # Without a scheduler, by the optimizer

    def on_resumed(self, event: Resumed) -> Findings:
        if event.fresh or not event.key:
            return
        restarted = [schedule for schedule in event.schedules if _restarts(event, schedule)]
        self._waiting += [(event, schedule) for schedule in restarted[:1]]
        if not restarted:
            yield from self._report(event, _others(event))
        if not event.schedules and event.steps_before:
            self._by_hand[event.optimizer] = event

    def on_optimizer_settings(self, event: OptimizerSettings) -> Findings:
        resumed, rates = self._by_hand.get(event.optimizer), event.start
        saved = 0.0 if resumed is None else max(resumed.saved_rates, default=0.0)
        if resumed is None or event.scheduled is not None or not _warms_up(rates) or saved <= 0:
            return
        if abs(rates[0] / saved - 1) > JUMP:
            step = ["the step from which your loop computes the learning rate"]
            fix = "Also save the number of steps, and set your counter to it after loading."
            yield from self._report(resumed, step, (saved, rates[0]), fix)

    def on_schedule_stepped(self, event: ScheduleStepped) -> Findings:
        for entry in [entry for entry in self._waiting if entry[1].schedule == event.schedule]:
            self._waiting.remove(entry)
            resumed, schedule = entry
            saved, now = max(resumed.saved_rates, default=0.0), max(event.learning_rates, default=0.0)
            jumps = saved > 0 and abs(now / saved - 1) > JUMP
            unknown = schedule.user_defined and not resumed.contents.schedules
            restarted = [] if event.explicit or (unknown and not jumps) else [f"the scheduler ({schedule.name})"]
            yield from self._report(resumed, [*restarted, *_others(resumed)], (saved, now) if jumps else None)

    def on_run_ended(self, event: RunEnded) -> Findings:
        for resumed, _ in self._waiting:
            yield from self._report(resumed, _others(resumed))

    def _report(
        self, event: Resumed, restarted: list[str], rates: tuple[float, float] | None = None, fix: str = ""
    ) -> Findings:
        if not restarted:
            return
        file = shown_path(event.file) if event.file else "a checkpoint"
        kept = event.contents
        yield self.finding(
            event,
            f"{event.model} and {event.name} resume from {file}, but {' and '.join(restarted)} "
            f"{'starts' if len(restarted) == 1 else 'start'} from the beginning."
            + (f" The learning rate jumps from {rates[0]:.3g} to {rates[1]:.3g}." if rates else ""),
            fix=fix or STATES,
            evidence={
                "file": file,
                "restarted": restarted,
                "file_contains": {"schedulers": kept.schedules, "scalers": kept.scalers, "random_state": kept.random},
                "random_state_restored": event.random_restored,
                "steps_before": event.steps_before,
            },
            severity=Severity.WARNING if rates else None,
        )


def _restarts(event: Resumed, schedule: ScheduleAtResume) -> bool:
    if schedule.last_epoch > 0:
        return False
    return event.contents.schedules > 0 or event.rate_moved


def _warms_up(rates: tuple[float, ...]) -> bool:
    """From zero: 1, 2, 3 ... times the first rate."""
    times = [rate / rates[0] for rate in rates] if rates and rates[0] > 0 else []
    return len(times) >= WARM_UP and all(abs(time - k - 1) < 1e-3 for k, time in enumerate(times[:WARM_UP]))


def _others(event: Resumed) -> list[str]:
    """What else restarts besides a scheduler."""
    found = ["the GradScaler"] if event.scaler_used and not event.scaler_restored else []
    if event.contents.random and not event.random_restored and not _restores_rng(event):
        found.append("torch's random generator")
    return found


def _restores_rng(event: Resumed) -> bool:
    if event.place is None:
        return False
    return any(called_name(call) in RESTORES for call in calls_in(source_of(event.place.path).tree))
