"""SPD104 more-workers-than-cores: a DataLoader has more workers than CPU cores.

What it sees
------------
`num_workers` of a loader, compared with the cores that the process may use (its affinity, which a container or a batch
system often restricts).

Why it hurts
------------
The workers compete for the cores with each other and with the training loop. Each also takes memory and time to start,
and more workers than cores bring no more samples per second.

Evidence
--------
The workers and the cores.

Use instead
-----------
    loader = DataLoader(data, num_workers=min(8, len(os.sched_getaffinity(0))))

When it is fine
---------------
Workers that mostly wait for a network or a slow disk use no core: then allow it. As many workers as cores are not
reported. Container limits by quota instead of affinity are not seen.
"""

from trueloop.event import LoaderSeen
from trueloop.rules.rule import Findings, Rule, Severity, plural

__all__ = ["MoreWorkersThanCores"]


class MoreWorkersThanCores(Rule, code="SPD104", severity=Severity.ADVICE):
    not_applicable = "no loader was used"

    def on_loader_seen(self, event: LoaderSeen) -> Findings:
        if event.workers <= event.cores:
            return
        yield self.finding(
            event,
            f"The DataLoader starts {plural(event.workers, 'worker')}, but this process may use only "
            f"{plural(event.cores, 'core')}.",
            fix=f"Use at most one worker per core: `num_workers={event.cores}`.",
            evidence={"workers": event.workers, "cores": event.cores},
        )
