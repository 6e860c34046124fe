"""docs/training/fields.md: every field of a recipe with its default, and what each task takes and measures.

python -m tests.recipe.fields_page            # writes the page
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from trueloop.recipe.recipe import GROUPS, defaults, field_docs
from trueloop.recipe.validate import METRICS

PAGE: Final = Path(__file__).parent.parent.parent / "docs" / "training" / "fields.md"

SHAPES: Final = {
    "multiclass": ("scores [N, classes], or [N, classes, H, W] for pixels", "class numbers, int64: [N], or [N, H, W]"),
    "binary": ("one score [N] or [N, 1], before the sigmoid", "0 or 1, any dtype: [N] or [N, 1]"),
    "multilabel": ("scores [N, labels], before the sigmoid", "0 or 1: [N, labels]"),
    "regression": ("numbers [N], [N, 1] or [N, D]", "numbers of the same shape; [N] fits [N, 1]"),
    "language": ("scores [N, time, vocabulary]", "the next tokens, int64: [N, time]"),
}


def page() -> str:
    lines = [
        "# All fields of a recipe",
        "",
        "Written by `python -m tests.recipe.fields_page`; `trueloop train RECIPE --show` prints them with your values.",
        "",
        "## Tasks",
        "",
        "| task | the model returns | targets | metrics, the first selects the best checkpoint |",
        "|---|---|---|---|",
    ]
    lines += [f"| `{task}` | {SHAPES[task][0]} | {SHAPES[task][1]} | {', '.join(METRICS[task])} |" for task in METRICS]
    lines += [
        "",
        "Padding and other targets to ignore: `Splits(..., facts=Facts(ignore=-100))`. The `Facts` of the data also go "
        "to a `model` that takes an argument. `request` in `data(request)` has `folder` (`--data DIR`), `download` and "
        "`seed`.",
        "",
        "Rows of `runs/NAME/metrics.jsonl`: kind `train` (the mean loss of the steps since the last row, `lr`, "
        "`gradient_norm`, speed), `valid`, `test`, and `layers` (statistics of weights, gradients and activations).",
    ]
    heads = {first: head for head, first in GROUPS}
    for name, text in field_docs().items():
        if name in heads:
            lines += ["", f"## {heads[name].capitalize()}", "", "| field | default | |", "|---|---|---|"]
        default = f"`{defaults()[name]!r}`" if name in defaults() else "required"
        lines.append(f"| `{name}` | {default.replace('mappingproxy({})', '{}')} | {text.replace('|', chr(92) + '|')} |")
    return "\n".join([*lines, ""])


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
