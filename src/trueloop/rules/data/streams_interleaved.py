"""DAT192 streams-interleaved: a text is cut into streams so that each takes every n-th symbol of it.

What it sees
------------
Inputs [time, streams] and targets that share one memory, in which the target of each symbol lies a complete row further
on. In that memory a symbol tells a lot about its neighbor and next to nothing about its target: the memory is the text
in its own order, and its rows run across the streams.

Why it hurts
------------
`text.view(-1, 40)` puts 40 symbols in a row that follow one another, one into each stream. Down a column the model
reads every 40th symbol of the text and learns to predict the one 40 places ahead: hardly more than frequencies.

Evidence
--------
The number of streams, and the bits that a symbol tells about its neighbor in memory and about its target.

Use instead
-----------
    data = text[: length * streams].view(streams, length).t().contiguous()     # [time, streams]

When it is fine
---------------
Not reported: a text of fewer than 2,000 symbols, symbols that tell something about the next row (several values for
each time step), targets that are copies, and text without order.
"""

from typing import Final

from trueloop.event import StreamsFolded
from trueloop.rules.rule import Findings, Rule, Severity

__all__ = ["StreamsInterleaved"]

SAMPLED: Final = 2  # calls
LEAST: Final = 0.15  # bits about the neighbor
LOST: Final = 0.15  # of them that are left for the target, at most


class StreamsInterleaved(Rule, code="DAT192", severity=Severity.ERROR):
    not_applicable = "no text of symbols was cut into rows whose targets are the next row"

    def on_streams_folded(self, event: StreamsFolded) -> Findings:
        if event.next_one < LEAST or event.next_row > LOST * event.next_one:
            return
        if self.count(event.place) != SAMPLED:
            return
        yield self.finding(
            event,
            f"Each of {event.streams} streams takes every {event.streams}th symbol of the text: in memory a symbol "
            f"tells {event.next_one:.2f} bits about the next one, and {max(event.next_row, 0):.2f} about its target, "
            f"{event.streams} places ahead.",
            fix=f"Cut the text into pieces first: `text.view({event.streams}, -1).t()`, not "
            f"`text.view(-1, {event.streams})`.",
            evidence={"streams": event.streams, "symbols": event.symbols, "bits_about_next_symbol": event.next_one,
                      "bits_about_target": event.next_row},
        )  # fmt: skip
