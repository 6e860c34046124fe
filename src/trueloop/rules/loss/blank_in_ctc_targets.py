"""LOS144 blank-in-ctc-targets: a label of the targets has the index that the CTC loss takes for the blank.

What it sees
------------
In recorded training steps, the targets of `ctc_loss`, each cut to its length, contain the index that was given as
`blank` (0 by default).

Why it hurts
------------
The blank means that nothing is spoken or written at a frame. A label with its index looks like silence: the model
learns a wrong alignment wherever it occurs, and a decoder with a different blank emits it everywhere. PyTorch
accepts such targets without an error.

Evidence
--------
The index of the blank, the number of targets and how many of them are the blank.

Use instead
-----------
    criterion = nn.CTCLoss(blank=len(alphabet))          # the blank after the labels: num_classes = len(alphabet) + 1
    targets = targets + 1                                # or labels from 1 on, and the default blank of 0

When it is fine
---------------
Not reported: targets that are padded with the blank beyond their lengths, and losses without a gradient.
"""

from typing import Final

from trueloop.event import CtcTargetsRead
from trueloop.rules.rule import Findings, Rule, Severity

__all__ = ["BlankInCtcTargets"]

STEPS: Final = 2  # recorded steps that must show it


class BlankInCtcTargets(Rule, code="LOS144", severity=Severity.ERROR):
    not_applicable = "no recorded training step called `ctc_loss`"

    def on_ctc_targets_read(self, event: CtcTargetsRead) -> Findings:
        if not event.blanks or self.count(event.place) != STEPS:
            return
        yield self.finding(
            event,
            f"{event.blanks:,} of {event.targets:,} targets are {event.blank}, the index of the blank: the loss cannot "
            "distinguish this label from silence.",
            fix=f"Give the index that no label has: `nn.CTCLoss(blank={event.classes - 1})` where labels begin at 0 "
            "and the last output is the blank. If these targets are padding, `target_lengths` must not count them.",
            evidence={"blank": event.blank, "targets": event.targets, "blanks": event.blanks, "classes": event.classes},
        )
