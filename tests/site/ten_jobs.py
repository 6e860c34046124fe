"""`python -m tests.site.ten_jobs` writes the table of lines in docs/coming-from.md, and the code in ten-jobs.md."""

from __future__ import annotations

from pathlib import Path
from textwrap import indent
from typing import Final

from tests.engine.strangers.jobs import Job, lines_of

PAGE: Final = Path(__file__).parent.parent.parent / "docs" / "coming-from.md"
CODE: Final = PAGE.with_name("ten-jobs.md")
BEGIN, END = "<!-- jobs -->\n", "<!-- end of jobs -->"
COUNTED: Final = "Counted by `python -m tests.site.ten_jobs`; a test compares."
VERSIONS: Final = {
    "recipe": "trueloop",
    "plain": "plain PyTorch",
    "lightning_version": "Lightning",
    "trainer_version": "HF Trainer",
}
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
    lines = [f"| job | {' | '.join(VERSIONS.values())} |", "|---|---|---|---|---|"]
    for name, words in JOBS.items():
        folder = Job(name).folder
        counts = [lines_of(folder / f"{version}.py") for version in VERSIONS]
        lines.append(f"| {words} (`{name}`) | {' | '.join(map(str, counts))} |")
    return "\n".join(lines)


def page_with_table(text: str) -> str:
    before, _, rest = text.partition(BEGIN)
    return f"{before}{BEGIN}\n{table()}\n\n{COUNTED}\n\n{END}{rest.partition(END)[2]}"


HEAD: Final = """# Ten jobs, four versions of each

Written by `make docs` from `tests/engine/strangers/JOB`; a test compares. CI runs the trueloop, plain PyTorch and HF
Trainer versions and compares their losses. It does not run the Lightning versions. The shared `job.py` has the data,
the model and its losses. Lines of code are counted in [ten jobs](coming-from.md#ten-jobs-lines-of-code)."""


def code_page() -> str:
    parts = [HEAD]
    for name, words in JOBS.items():
        folder = Job(name).folder
        parts += [f"## {words[0].upper()}{words[1:]}", _tab("job.py", folder / "job.py")]
        parts += [_tab(tool, folder / f"{version}.py") for version, tool in VERSIONS.items()]
    return "\n\n".join(parts) + "\n"


def _tab(title: str, file: Path) -> str:
    return f'=== "{title}"\n\n' + indent(f"```python\n{file.read_text(encoding='utf-8').strip()}\n```", "    ")


if __name__ == "__main__":
    CODE.write_text(code_page(), encoding="utf-8")
    PAGE.write_text(page_with_table(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
