"""DAT116 most-tokens-unknown: most tokens of the text have one id, probably that of unknown words.

What it sees
------------
In the integer inputs of a model, one id makes up most of the tokens inside the sequences. Padding at the ends does not
count.

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
Not reported: shares below 60 %, and inputs with fewer than four distinct ids (bits, DNA with gaps).
"""

from typing import Final, final

from trueloop.event import InputsSummarized
from trueloop.finding import Severity
from trueloop.rules.rule import Findings, Rule

__all__ = ["MostTokensUnknown"]

SHARE: Final = 0.6
LEAST_TOKENS: Final = 4
LEAST_ROWS: Final = 32


@final
class MostTokensUnknown(Rule):
    code = "DAT116"
    name = "most-tokens-unknown"
    severity = Severity.WARNING
    not_applicable = "no model was given sequences of tokens"

    def on_inputs_summarized(self, event: InputsSummarized) -> Findings:
        if event.kind != "tokens" or event.most_common is None or event.rows < LEAST_ROWS:
            return
        token, share = event.most_common
        if share < SHARE or event.token_count < LEAST_TOKENS:
            return
        yield self.finding(
            event,
            f"{share:.0%} of the tokens inside the sequences of `{event.name}` are the id {token}; only "
            f"{event.token_count} distinct ids occur. The text is probably not in the vocabulary.",
            fix="Check that the vocabulary belongs to this text: same tokenizer, same case, same file version.",
            evidence={"token": token, "share": round(share, 3), "distinct": event.token_count, "phase": event.phase},
        )
