"""SPD104 more-workers-than-cores: a loader starts more processes than this one has cores.

What it sees
------------
The workers that a loader was asked for, against the cores that the process may run on (its affinity, which a container
or a batch system often makes smaller than the machine).

Why it hurts
------------
The workers take turns on the cores, with one another and with the loop that they are to feed. Each also takes memory
and time to start, and more of them than cores bring no more samples per second.

Evidence
--------
The workers, and the cores.

Use instead
-----------
    loader = DataLoader(data, num_workers=min(8, len(os.sched_getaffinity(0))))

When it is fine
---------------
Workers that sleep for most of their time, in a network or a slow disk, take no turns from anybody; then allow it. As
many workers as cores are not reported. Limits that a container sets by quota rather than by affinity are not seen.
"""

from __future__ import annotations

from typing import final

from trueloop.event import LoaderSeen
from trueloop.finding import Severity
from trueloop.results.check import counted
from trueloop.rules.rule import Findings, Rule

__all__ = ["MoreWorkersThanCores"]


@final
class MoreWorkersThanCores(Rule):
    code = "SPD104"
    name = "more-workers-than-cores"
    severity = Severity.ADVICE
    not_applicable = "no loader was used"

    def on_loader_seen(self, event: LoaderSeen) -> Findings:
        if event.workers <= event.cores:
            return
        yield self.finding(
            event,
            f"The loader starts {counted(event.workers, 'worker')}, but this process may use {counted(event.cores, 'core')}.",
            fix=f"Ask for no more workers than there are cores: num_workers={event.cores}, or fewer.",
            evidence={"workers": event.workers, "cores": event.cores},
        )
