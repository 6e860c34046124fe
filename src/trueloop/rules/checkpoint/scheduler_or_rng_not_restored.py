"""CKP105 scheduler-or-rng-not-restored: model and optimizer go on from a checkpoint, the rest begins anew.

What it sees
------------
A model that had not been trained in this run gets all its weights from a file, its optimizer gets its state, and when
the first step comes,

- a schedule of that optimizer stands at its beginning, and is then stepped, though the file keeps a schedule that had
been stepped, or
  an optimizer whose learning rate a schedule had moved;
- a GradScaler is in use whose state nothing has put back;
- the state of torch's random generator is in the file, and nothing has put it back.

Why it hurts
------------
A schedule that begins anew warms up a second time, or decays from the full learning rate again: the run's last part is
another run. A scaler that begins anew skips steps until it has found its factor. Without the random state the order of
the data and the dropout masks of the first epochs come again.

Evidence
--------
What begins anew, what the file keeps, and whether torch's random state was put back.

Use instead
-----------
    torch.save({..., "schedule": schedule.state_dict(), "scaler": scaler.state_dict(), "random": torch.get_rng_state()},
    path)

    schedule.load_state_dict(checkpoint["schedule"])
    scaler.load_state_dict(checkpoint["scaler"])
    torch.set_rng_state(checkpoint["random"])

When it is fine
---------------
Not reported: schedules that were told where they are by other means (`last_epoch=`, steps taken before training,
`step(epoch)`, a function of the user's where the file keeps no schedule); a constant learning rate; fine-tuning, which
leaves the optimizer fresh; a random state that was never saved: most runs go on without it, and then it is only
mentioned.

The random states of Python and NumPy, and that of a device, are not looked for in the file.
"""

from __future__ import annotations

import ast
from typing import Final, final

from trueloop.event import Resumed, RunEnded, ScheduleAtResume, ScheduleStepped
from trueloop.finding import Finding, Severity
from trueloop.rules.rule import Findings, Rule
from trueloop.usercode.source import called_name, calls_in, shown_path, source_of

__all__ = ["SchedulerOrRngNotRestored"]

PUTS_BACK: Final = ("set_state", "set_rng_state", "set_rng_state_all", "setstate")
"""Functions that put back the state of some generator; not all of them can be seen while they run."""


@final
class SchedulerOrRngNotRestored(Rule):
    code = "CKP105"
    name = "scheduler-or-rng-not-restored"
    severity = Severity.ADVICE
    not_applicable = "no training went on from a file"

    def __init__(self) -> None:
        self._waiting: list[tuple[Resumed, ScheduleAtResume]] = []
        """Schedules that stand at their beginning: whether they are used will be seen."""

    def on_resumed(self, event: Resumed) -> Findings:
        if event.fresh or not event.key:
            return
        forgotten = [schedule for schedule in event.schedules if _begins_anew(event, schedule)]
        self._waiting += [(event, schedule) for schedule in forgotten[:1]]
        if not forgotten and (others := _others(event)):
            yield self._told(event, others)

    def on_schedule_stepped(self, event: ScheduleStepped) -> Findings:
        for entry in [entry for entry in self._waiting if entry[1].schedule == event.schedule]:
            self._waiting.remove(entry)
            resumed, schedule = entry
            if left_out := [*([] if event.explicit else [f"the schedule ({schedule.name})"]), *_others(resumed)]:
                yield self._told(resumed, left_out)

    def on_run_ended(self, event: RunEnded) -> Findings:
        for resumed, _ in self._waiting:
            if left_out := _others(resumed):
                yield self._told(resumed, left_out)

    def _told(self, event: Resumed, left_out: list[str]) -> Finding:
        file = shown_path(event.file) if event.file else "a checkpoint"
        kept = event.contents
        return self.finding(
            event,
            f"{event.model} and its {event.name} go on from {file}, but {' and '.join(left_out)} "
            f"{'begins' if len(left_out) == 1 else 'begin'} anew.",
            fix="Save and load the state of everything that changes while training: schedule.state_dict(), scaler.state_dict(), "
            "torch.get_rng_state().",
            evidence={
                "file": file,
                "begins_anew": left_out,
                "file_keeps": {"schedules": kept.schedules, "scalers": kept.scalers, "random_state": kept.random},
                "random_state_put_back": event.random_restored,
                "steps_before": event.steps_before,
            },
        )


def _begins_anew(event: Resumed, schedule: ScheduleAtResume) -> bool:
    if schedule.last_epoch > 0:
        return False
    return event.contents.schedules > 0 or (event.rate_moved and not schedule.user_defined)


def _others(event: Resumed) -> list[str]:
    """What begins anew besides a schedule."""
    found = ["the scaler"] if event.scaler_used and not event.scaler_restored else []
    if event.contents.random and not event.random_restored and not _puts_back_by_hand(event):
        found.append("torch's random generator")
    return found


def _puts_back_by_hand(event: Resumed) -> bool:
    if event.place is None:
        return False
    return any(
        called_name(call) in PUTS_BACK
        for call in calls_in(source_of(event.place.path).tree)
        if isinstance(call, ast.Call)
    )
