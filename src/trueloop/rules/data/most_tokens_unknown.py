"""DAT116 most-tokens-unknown: most tokens of the text have one id, probably that of unknown words.

What it sees
------------
In the integer inputs of a model with an embedding, one id makes up most of the tokens inside the sequences, and only a
small part of the embedding's rows is used. Padding at the ends does not count. The ids may be a table, one flat tensor
with offsets (`nn.EmbeddingBag`), a list of sequences, or one sequence per call.

In evaluation that one id is enough, if no id is that common in training.

Why it hurts
------------
The text is lost before the model sees it: a vocabulary of another corpus, another tokenizer or another case maps nearly
every word to the id of unknown words.

Evidence
--------
The id, its share, and the number of distinct ids.

Use instead
-----------
    unknown = sum(word not in vocabulary for word in words) / len(words)
    assert unknown < 0.1, f"{unknown:.0%} of the words are not in the vocabulary"

When it is fine
---------------
Not reported: shares below 60 %; inputs with fewer than four distinct ids; inputs that use a quarter of the embedding or
more (boards, pixels, text with many masks); flat ids of single categories (one per row) or of the nodes of graphs; and,
in evaluation, an id that is common in training too (a mask from which text is generated).
"""

from typing import Final

from trueloop.event import InputsSummarized, RunEnded, TokensCounted
from trueloop.rules.rule import Findings, Rule, Severity

__all__ = ["MostTokensUnknown"]

SHARE: Final = 0.6
LEAST_TOKENS: Final = 4
LEAST_ROWS: Final = 32
USED: Final = 0.25  # of the embedding
COMMON: Final = 0.3
FLAT: Final = -1  # instead of a position


class MostTokensUnknown(Rule, code="DAT116", severity=Severity.WARNING):
    not_applicable = "no model was given sequences of tokens"

    def __init__(self) -> None:
        self._events: list[tuple[int, InputsSummarized | TokensCounted]] = []

    def on_inputs_summarized(self, event: InputsSummarized) -> None:
        if event.kind == "tokens" and event.most_common is not None and event.rows >= LEAST_ROWS:
            self._events.append((event.position, event))

    def on_tokens_counted(self, event: TokensCounted) -> None:
        if event.rows >= LEAST_ROWS:
            self._events.append((FLAT, event))

    def on_run_ended(self, _: RunEnded) -> Findings:
        trained = {(e.model, position): e.most_common for position, e in self._events if e.phase == "training"}
        for position, event in self._events:
            token, share = event.most_common or (0, 0.0)
            if share < SHARE or event.token_count < LEAST_TOKENS:
                continue
            there = trained.get((event.model, position)) if event.phase == "evaluation" else None
            if event.phase == "evaluation" and (there is None or (there[0] == token and there[1] >= COMMON)):
                continue
            if event.token_count >= USED * event.table and (there is None or there[1] >= COMMON):
                continue
            yield self.finding(
                event,
                f"{share:.0%} of the tokens inside the sequences of `{event.name}` are the id {token}; only "
                f"{event.token_count} of {event.table} ids occur. The text is probably not in the vocabulary.",
                fix="Check that the vocabulary belongs to this text: same tokenizer, same case, same file version.",
                evidence={"token": token, "share": round(share, 3), "distinct": event.token_count,
                          "embedding": event.table, "phase": event.phase},
            )  # fmt: skip
