"""Plans beside published runs of torchtitan: tokens per second of each GPU, estimated and measured by others.

    python benchmarks/plan.py            # from the facts of the models in llama_facts.json
    python benchmarks/plan.py --write    # counts these facts again, in minutes

One run for each GPU sets the share of its peak that a training reaches (`parallel/gpus.py`); all others are held
against it. Nothing is trained here: these are estimates on paper beside numbers that their authors measured.
"""

from __future__ import annotations

import json
import sys
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from trueloop.parallel.estimate import Terms, row_of
from trueloop.parallel.gpus import GPUS
from trueloop.results.plan import Kept, ModelFacts, Row, Way

TITAN = "torchtitan, benchmarks/llama3_h100_202412_torchtitan.md"
EARLIER = "torchtitan, docs/performance.md of 2024 (64 A100; 128 H100 for 405B)"
FLOAT8 = "pytorch.org, Supercharging Training using float8 and FSDP2, 2024-11-25 (with torchtitan)"
LENGTH = 8192
FACTS = Path(__file__).with_name("llama_facts.json")


@dataclass(frozen=True)
class Published:
    """A run that somebody measured."""

    source: str
    size: str
    gpus: int
    gpu: str
    way: Way
    micro: int  # samples of a micro-batch
    tokens: float  # a second, of one GPU
    compiled: bool = True
    sets_share: bool = False

    @property
    def terms(self) -> Terms:
        gpu = GPUS[self.gpu]
        between = 50e9 if self.gpu == "h100" else 25e9  # A100: 200 Gb/s for each GPU, as in most clusters of them
        batch = self.micro * (self.gpus // self.way.ranks)
        return Terms(
            self.gpus, 96e9 if self.gpu == "h100" else gpu.memory, gpu.inside, batch, precision="bf16", gpu=gpu,
            between=between, latency=3e-6, latency_between=15e-6,
        )  # fmt: skip

    def estimate(self) -> Row:
        return row_of(facts(self.size), self.way, self.terms)

    def ratio(self) -> float:
        """Estimated over measured: 1 is exact, more is too fast."""
        row = self.estimate()
        return self.terms.batch * LENGTH / self.gpus / row.step.value / self.tokens


RUNS = [
    Published(TITAN, "8B", 8, "h100", Way("fsdp"), 2, 6667, sets_share=True),
    Published(TITAN, "8B", 8, "h100", Way("fsdp"), 2, 5762, compiled=False),
    Published(EARLIER, "8B", 64, "a100", Way("fsdp"), 1, 2973, sets_share=True),
    Published(TITAN, "8B", 128, "h100", Way("fsdp"), 2, 6514),
    Published(EARLIER, "70B", 64, "a100", Way("fsdp", recompute=True), 1, 331),
    Published(EARLIER, "405B", 128, "h100", Way("fsdp+tp", True, 8), 2, 109),
    Published(FLOAT8, "70B", 512, "h100", Way("fsdp", recompute=True), 2, 960),
    Published(FLOAT8, "405B", 512, "h100", Way("fsdp+tp", True, 4), 2, 152),
]
"""bf16 only: trueloop has no float8. The micro-batch of the 512-GPU runs is not published; 2 is assumed."""


@lru_cache
def facts(size: str) -> ModelFacts:
    stored = json.loads(FACTS.read_text(encoding="utf-8"))[size]
    return ModelFacts(**{**stored, "kept": Kept(**stored["kept"])})


def count(size: str) -> ModelFacts:
    """The facts of the model itself, on tensors without memory."""
    import torch

    from benchmarks.llama import recipe
    from trueloop.engine.model_facts import blank_splits, facts_of

    return facts_of(recipe(size), blank_splits("language", (LENGTH,), torch.int64, 0))


def main() -> None:
    if "--write" in sys.argv:
        counted = {size: asdict(count(size)) for size in ("8B", "70B", "405B")}
        FACTS.write_text(json.dumps(counted, indent=1) + "\n", encoding="utf-8")
    print(f"{'model':6}{'GPUs':>10}  {'way':26}{'published':>10}{'estimate':>10}{'ratio':>7}{'memory':>9}  source")
    for run in RUNS:
        row, ratio = run.estimate(), run.ratio()
        notes = "sets the share; " if run.sets_share else "" if run.compiled else "eager; "
        print(
            f"{run.size:6}{run.gpus:>5} {run.gpu}  {run.way.name:26}{run.tokens:>10,.0f}{run.tokens * ratio:>10,.0f}"
            f"{ratio:>7.2f}{row.memory.total / 2**30:>6.1f} GiB  {notes}{run.source}"
        )


if __name__ == "__main__":
    main()
