"""Whether a script leaves a column out."""

from pathlib import Path

import pytest

from trueloop.usercode.left_out import leaves_out, takes_all_columns, takes_the_rest


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


@pytest.mark.parametrize(
    ("text", "all_of_them"),
    [
        ("rows = list(csv.DictReader(f))", True),
        ("table = pd.read_csv(path)", True),
        ("table = pd.read_csv(path, usecols=[1, 2])", False),
        ("table = pd.read_csv(path).iloc[:, 2:]", False),
        ("data = np.loadtxt(path)\nx, y = data[:, :-1], data[:, -1]", True),
        ("data = np.loadtxt(path)\nx, y = data[:, 1:4], data[:, -1]", False),
        ("data = np.loadtxt(path)\nx = data[:, [0, 2]]", False),
        ("rows = list(csv.reader(f))\nx = [row[3] for row in rows]", False),
    ],
)
def test_scripts_that_take_all_columns(text: str, *, all_of_them: bool) -> None:
    assert takes_all_columns(text) == all_of_them


def test_scripts_that_take_what_they_do_not_name() -> None:
    assert takes_the_rest('names = [c for c in header if c not in ("id", "label")]')
    assert takes_the_rest('names = [name for name in reader.fieldnames if name != "label"]')
    assert not takes_the_rest("names = [c for c in header if c in wanted]")
