"""`python -m tests.site.ten_jobs` writes the table of lines into docs/coming-from.md."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from tests.engine.strangers.jobs import Job, lines_of

PAGE: Final = Path(__file__).parent.parent.parent / "docs" / "coming-from.md"
BEGIN, END = "<!-- jobs -->\n", "<!-- end of jobs -->"
COUNTED: Final = "Counted by `python -m tests.site.ten_jobs`; a test compares."
VERSIONS: Final = ("recipe", "plain", "lightning_version", "trainer_version")
JOBS: Final = {
    "binary": "two classes",
    "regression": "regression",
    "segmentation": "segmentation",
    "tokens": "tokens with padding",
    "rnn": "a recurrent network over long sequences",
    "vae": "a variational autoencoder",
    "gan": "two networks against each other",
    "distill": "distillation",
    "layerwise": "learning rates by layer",
    "hf": "a Hugging Face model",
}


def table() -> str:
    lines = ["| job | trueloop | plain PyTorch | Lightning | HF Trainer |", "|---|---|---|---|---|"]
    for name, words in JOBS.items():
        folder = Job(name).folder
        counts = [lines_of(folder / f"{version}.py") for version in VERSIONS]
        lines.append(f"| {words} (`{name}`) | {' | '.join(map(str, counts))} |")
    return "\n".join(lines)


def page_with_table(text: str) -> str:
    before, _, rest = text.partition(BEGIN)
    return f"{before}{BEGIN}\n{table()}\n\n{COUNTED}\n\n{END}{rest.partition(END)[2]}"


if __name__ == "__main__":
    PAGE.write_text(page_with_table(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
