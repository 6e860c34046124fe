"""The claims about operations are the files of this folder that define a subclass of OpClaim."""

from pathlib import Path
from typing import Final

from trueloop.claims.catalogue import Catalogue

__all__ = ["OP_CLAIMS"]

OP_CLAIMS: Final = Catalogue(
    "trueloop.op_claims",
    Path(__file__).parent,
    "OpClaim",
    (
        *("forward-equals-reference", "result-independent-of-layout", "empty-and-single-inputs"),
        *("edge-values-equal-reference", "gradient-equals-reference", "gradient-equals-differences"),
        *("gradient-independent-of-layout", "gradient-at-zero-is-finite", "gradients-for-any-subset"),
        *("second-gradient-equals-reference", "inputs-untouched", "incoming-gradient-untouched"),
        *("result-owns-its-memory", "memory-stays-inside-tensors", "twice-bit-identical", "library-opcheck"),
        *("fake-equals-real", "compiled-equals-eager", "vmap-equals-loop", "autocast-like-reference"),
        "streams-agree",
    ),
)
