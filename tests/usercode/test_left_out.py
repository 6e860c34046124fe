"""Whether a script leaves a column out."""

from pathlib import Path

import pytest

from trueloop.usercode.left_out import leaves_out


@pytest.mark.parametrize(
    "line",
    ['names = [n for n in names if n != "code"]', 'table = table.drop(columns=["code", "id"])',
     'table = table.drop("code", axis=1)', 'row.pop("code")', 'del row["code"]', "del row[name]", "row.pop(name, None)",
     "table = table.drop(columns=config.skipped)", 'SKIPPED = ["code"]\ntable = table.drop(columns=SKIPPED)'],
)  # fmt: skip
def test_a_column_may_be_left_out(tmp_path: Path, line: str) -> None:
    script = tmp_path / "train.py"
    script.write_text(line + "\n")
    assert leaves_out("code", [str(script)])


@pytest.mark.parametrize(
    "line",
    ["x = self.drop(relu(x))", "node = stack.pop()", "node = stack.pop(0)", 'y = table.pop("label")', "del loss",
     'table = table.drop(columns=["label"])', 'LABEL = "label"\ntable = table.drop(columns=LABEL)', "index.drop(0)"],
)  # fmt: skip
def test_lines_that_leave_no_column_of_this_name_out(tmp_path: Path, line: str) -> None:
    script = tmp_path / "train.py"
    script.write_text(line + "\n")
    assert not leaves_out("code", [str(script)])
