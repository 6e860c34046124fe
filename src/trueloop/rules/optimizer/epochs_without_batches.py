"""OPT129 epochs-without-batches: the iterator over the batches is used up after the first epoch.

What it sees
------------
A loop over batches draws from an iterator that can be used only once: a generator, `map`, `zip`, `filter`, `enumerate`,
`iter(loader)`. It was made before the epoch loop, and the first epoch used it up. The epoch loop took more turns, in
which there was no batch. Also an evaluation loop of this kind, and a `DataLoader` over an iterable dataset that holds
such an iterator.

Why it hurts
------------
Only the first epoch trains. The later ones end at once, without an error: the schedule advances, validation runs, and
the printed loss is that of an empty epoch.

Evidence
--------
What is iterated, its type, the loop around it, and its turns without a batch.

Use instead
-----------
    batches = list(make_batches())          # or a function that is called in every epoch
    for epoch in range(epochs):
        for x, y in batches:
            ...

When it is fine
---------------
Not reported: iterators that are made in each epoch, one epoch over a stream, loops that may end before the iterator
does (`break` after some steps), infinite streams, and classes of your own whose `__iter__` starts again.
"""

from trueloop.event import IteratorExhausted, Stepped
from trueloop.rules.rule import Findings, Rule, Severity, facts, on_line, plural

__all__ = ["EpochsWithoutBatches"]


class EpochsWithoutBatches(Rule, code="OPT129", severity=Severity.ERROR):
    not_applicable = "no optimizer step was seen"
    applies_after = (Stepped,)

    def on_iterator_exhausted(self, event: IteratorExhausted) -> Findings:
        if event.outer is None:
            message = (
                f"The dataset of this loader holds a {event.kind}, which the first pass used up: "
                f"{plural(event.turns, 'later pass')} had no batch."
            )
        else:
            around = on_line(event.outer, event.place)
            message = (
                f"`{event.iterable}` is a {event.kind}, and the first turn of the loop{around} used it up: "
                f"{plural(event.turns, 'later turn')} had no batch."
            )
        yield self.finding(
            event,
            message,
            fix="Make the iterator again in every epoch, or keep the batches in a list.",
            evidence=facts(event, "phase iterable kind outer turns"),
        )
