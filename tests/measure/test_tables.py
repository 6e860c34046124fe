"""Data files are read as tables; each difference between two files is recognized, and a second sample is not one."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import numpy
import pytest
import torch
from numpy.typing import NDArray

from trueloop.measure.parallel_lines import shifted_lines
from trueloop.measure.picture_orientation import turned
from trueloop.measure.table_differences import differences, group_differences, single_file
from trueloop.measure.table_relations import parts_by_group, relations, relations_of_files, shifted_targets
from trueloop.measure.table_rows import copied_rows, ids_from_one, row_order
from trueloop.measure.tables import Table, Values, read_tables
from trueloop.measure.text_markers import marker
from trueloop.measure.vocabulary import Vocabulary, coverage, read_vocabularies

Numbers = NDArray[numpy.float64]


def table(*, path: str = "a.csv", **columns: Any) -> Table:
    values = tuple(
        Values(key, numpy.asarray(value, dtype=float)) if not isinstance(value, list) else Values(key, None, value)
        for key, value in columns.items()
    )
    return Table(path, values, len(values[0]), named=True)


def kinds(first: Table, second: Table) -> list[str]:
    return [difference.kind for difference in differences(first, second)]


def drawn(seed: int) -> numpy.random.Generator:
    return numpy.random.default_rng(seed)


# -- reading --


def test_text_with_a_header_and_without(tmp_path: Path) -> None:
    lines = [f"{i},{i / 2},k{i % 3}" for i in range(30)]
    (tmp_path / "named.csv").write_text("\n".join(["row,half,kind", *lines]))
    (tmp_path / "bare.csv").write_text("\n".join(lines))
    (named,), (bare,) = (read_tables(str(tmp_path / name)) for name in ("named.csv", "bare.csv"))
    assert named.names == ("row", "half", "kind")
    assert named.rows == bare.rows == 30
    assert not bare.named
    assert bare.columns[2].words == named.column("kind").words
    assert named.column("half").numbers is not None


def test_a_first_row_of_sentences_is_no_header(tmp_path: Path) -> None:
    rows = [f"the box number {i} has not arrived yet\tlate" for i in range(30)]
    (tmp_path / "tickets.tsv").write_text("\n".join(rows))
    (found,) = read_tables(str(tmp_path / "tickets.tsv"))
    assert not found.named
    assert found.rows == 30


def test_arrays_records_and_plain_lines(tmp_path: Path) -> None:
    numpy.savez(tmp_path / "a.npz", y=numpy.arange(25), x=numpy.zeros((25, 2)), images=numpy.zeros((25, 8, 8)))
    (tmp_path / "a.json").write_text(json.dumps([{"id": i, "score": i / 3} for i in range(25)]))
    (tmp_path / "a.src").write_text("\n".join(["a", "sentence", "of", "some", "words"][i % 5] * 2 for i in range(40)))
    (arrays,), (records,), (lines,) = (read_tables(str(tmp_path / name)) for name in ("a.npz", "a.json", "a.src"))
    assert arrays.names == ("y", "x[0]", "x[1]", "images")
    assert arrays.column("images").kind == "digest"
    assert records.names == ("id", "score")
    assert lines.lines


def test_what_is_no_table_gives_none(tmp_path: Path) -> None:
    (tmp_path / "a.npz").write_bytes(b"not a zip file at all")
    (tmp_path / "b.csv").write_bytes(bytes(range(256)) * 10)
    (tmp_path / "c.json").write_text("{")
    assert not any(read_tables(str(tmp_path / name)) for name in ("a.npz", "b.csv", "c.json", "missing.csv"))


def test_other_files(tmp_path: Path) -> None:
    torch.save({"x": torch.zeros(30, 3), "y": torch.arange(30)}, tmp_path / "data.pt")
    torch.save(torch.nn.Linear(30, 30).state_dict() | {"0.weight": torch.zeros(30)}, tmp_path / "weights.pt")
    (tmp_path / "a.json").write_text(json.dumps({"age": list(range(30)), "dose": [0.5] * 30, "unit": "mg"}))
    with gzip.open(tmp_path / "a.csv.gz", "wt") as file:
        file.write("\n".join(["a,b", *(f"{i},{i}" for i in range(30))]))
    names = ("data.pt", "weights.pt", "a.json", "a.csv.gz")
    found = [[table.names for table in read_tables(str(tmp_path / name))] for name in names]
    assert found == [[("x[0]", "x[1]", "x[2]", "y")], [], [("age", "dose")], [("a", "b")]]


def test_channels_of_windows(tmp_path: Path) -> None:
    scale = numpy.array([1.0, 5.0, 20.0])
    windows = [drawn(seed).normal(10, 1, (60, 40, 3)) * scale for seed in (0, 1)]
    for name, array in (("train", windows[0]), ("same", windows[1]), ("swapped", windows[1][..., [1, 0, 2]])):
        numpy.savez(tmp_path / f"{name}.npz", x=array)
    train, same, swapped = (read_tables(str(tmp_path / f"{name}.npz"))[0] for name in ("train", "same", "swapped"))
    parts = [Table("x", each.channels, len(each.channels[0]), named=True) for each in (train, same, swapped)]
    assert not kinds(parts[0], parts[1])
    assert "exchanged" in kinds(parts[0], parts[2])


# -- columns --


def rain(rng: numpy.random.Generator) -> Numbers:
    return rng.gamma(4.0, 80.0, 300)  # millimetres a year


def prices(rng: numpy.random.Generator) -> Numbers:
    return numpy.exp(rng.normal(10.25, 0.6, 900)).clip(2500, 140_000).round()


def warmth(rng: numpy.random.Generator) -> Numbers:
    return rng.normal(12.0, 8.0, 300)


@pytest.mark.parametrize(
    ("kind", "first", "second"),
    [
        ("units", rain(drawn(0)), rain(drawn(1)) / 25.4),
        ("units", rain(drawn(0)), rain(drawn(1)) * 1000),
        ("units", warmth(drawn(0)), warmth(drawn(1)) * 1.8 + 32),
        ("units", warmth(drawn(0)), warmth(drawn(1)) + 273.15),
        ("constant", numpy.full(300, 0.4), drawn(1).gamma(1.0, 1.0, 300)),
        ("base", drawn(0).integers(0, 5, 300), drawn(1).integers(1, 6, 300)),
        ("base", drawn(0).integers(1, 3, 300), drawn(1).integers(0, 2, 300)),
        ("percent", numpy.where(drawn(2).random(300) < 0.5, 100, 1) * drawn(0).random(300), drawn(1).random(300)),
        ("rounded", drawn(0).normal(0, 2, 300), drawn(1).normal(0, 2, 300).round()),
        ("wrapped", drawn(0).integers(2000, 60000, 900).astype("int16"), drawn(1).integers(2000, 60000, 400)),
        (
            "wrapped",
            drawn(0).gamma(6, 18, 400).round().clip(0, 255).astype("uint8").astype("int8"),
            drawn(1).gamma(6, 18, 400).round().clip(0, 255),
        ),
        ("wrapped", prices(drawn(0)).astype("int64").astype("int16"), prices(drawn(1))),
        ("wrapped", (2 * prices(drawn(0))).astype("int64").astype("uint16"), (2 * prices(drawn(1))).clip(0, 260_000)),
        (
            "wrapped",
            drawn(0).normal(250, 30, 400).round().astype("int64").astype("uint8"),
            drawn(1).normal(250, 30, 400).round(),
        ),
        ("direction", numpy.sort(rain(drawn(0))), -numpy.sort(-rain(drawn(1)))),
    ],
)
def test_numbers_that_differ(kind: str, first: Numbers, second: Numbers) -> None:
    assert kinds(table(c=first), table(c=second)) == [kind]
    assert kinds(table(c=second), table(c=first)) == [kind]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (rain(drawn(0)), rain(drawn(1))),
        (rain(drawn(0)), rain(drawn(1)) * 1.5),  # a wet year
        (warmth(drawn(0)), warmth(drawn(1)) + 6),  # a warm one
        (numpy.arange(300), numpy.arange(300, 400)),  # ids
        (numpy.arange(1000), numpy.arange(100)),
        (drawn(0).integers(0, 2, 300), numpy.zeros(100)),  # one class in a small file
        (drawn(0).integers(2015, 2020, 300), drawn(1).integers(2016, 2021, 300)),  # years
        (drawn(0).integers(0, 30, 300), drawn(1).integers(0, 25, 300)),
        (
            numpy.append(drawn(0).integers(1, 12, 300), 0),
            numpy.append(drawn(1).integers(1, 12, 300), 12),
        ),  # counts: rare at both ends
        (numpy.where(drawn(0).random(300) < 0.8, 0, rain(drawn(2))), numpy.where(drawn(1).random(300) < 0.95, 0, 5.5)),
        (drawn(0).random(300), drawn(1).random(300) * 100),  # all of it percent: the factor says so
        (drawn(0).integers(-100, 100, 300), drawn(1).integers(0, 200, 300)),  # balances, debts in one file only
        (drawn(0).normal(10, 60, 300).round(), numpy.abs(drawn(1).normal(10, 90, 300)).round()),
        (drawn(0).integers(-128, 128, 300), drawn(1).integers(0, 128, 300)),
        (drawn(0).integers(-30, 90, 300), drawn(1).integers(0, 180, 300)),
        (drawn(0).integers(0, 256, 300), drawn(1).integers(0, 1024, 300)),  # counts of 8 bits and of 10
        (drawn(0).integers(0, 65536, 300), drawn(1).integers(0, 250_000, 300)),  # ids of two sizes
        (drawn(0).integers(-32768, 32768, 300), drawn(1).integers(0, 130_000, 300)),
        (drawn(0).normal(230, 30, 400).round().clip(0, 255), drawn(1).normal(230, 30, 400).round()),  # clipped
        (drawn(0).gamma(4, 30, 400).round().clip(0, 250), drawn(1).gamma(4, 60, 400).round().clip(0, 900)),
    ],
)
def test_numbers_of_two_samples(first: Numbers, second: Numbers) -> None:
    found = kinds(table(c=first), table(c=second))
    assert found in ([], ["units"])
    assert not found or second.max() > 50


@pytest.mark.parametrize(
    ("kind", "first", "second"),
    [
        ("separator", ["red; blue", "red", "green; red"] * 30, ["red|blue", "blue", "red|green"] * 30),
        ("padding", [f"f{i}.png" for i in range(1, 13)] * 5, [f"f{i:02d}.png" for i in range(1, 13)] * 5),
        ("date", ["01.02.2023", "15.11.2022"] * 30, ["2023-02-01", "2022-11-15"] * 30),
        ("spelling", ["Oak", "Pine", "Elm"] * 30, ["oak", "pine", "elm "] * 30),
        ("accents", ["K\u00f6ln", "N\u00eemes", "Wien"] * 30, ["Ko\u0308ln", "Ni\u0302mes", "Wien"] * 30),
    ],
)
def test_words_that_differ(kind: str, first: list[str], second: list[str]) -> None:
    assert kinds(table(c=first), table(c=second)) == [kind]


def test_words_of_two_samples() -> None:
    assert not kinds(table(c=["a; b", "c", "d"] * 30), table(c=["a", "c; d", "b"] * 30))
    assert not kinds(table(c=["Oak", "Pine"] * 30), table(c=["Oak", "Larch"] * 30))
    assert not kinds(table(c=[f"f{i}" for i in range(60)]), table(c=[f"f{i}" for i in range(50, 110)]))


def test_a_decimal_comma_in_one_file() -> None:
    first = table(price=[f"{i},{i % 10}" for i in range(60)])
    assert kinds(first, table(price=drawn(0).random(60))) == ["comma"]
    assert not kinds(table(price=["n/a", "1,5"] * 30), table(price=drawn(0).random(60)))


def test_columns_in_another_order_and_exchanged() -> None:
    x, y = drawn(0).normal(0, 1, 200), drawn(1).normal(9, 3, 200)
    u, v = drawn(2).normal(0, 1, 200), drawn(3).normal(9, 3, 200)
    assert kinds(table(x=x, y=y), table(y=v, x=u)) == ["order"]
    assert kinds(table(x=x, y=y), table(x=v, y=u)) == ["exchanged"]
    three, moved = table(x=x, y=y, z=x - 9), table(x=v, y=u - 9, z=u)
    assert kinds(three, moved) == ["exchanged"]
    assert not kinds(table(x=x, y=y), table(x=u, y=v))


def test_codes_of_groups_in_one_file() -> None:
    site = ["north"] * 200 + ["south"] * 200
    code = numpy.concatenate([drawn(0).integers(0, 2, 200), drawn(1).integers(1, 3, 200)])
    (parts,) = parts_by_group(table(site=site, outcome=code))
    assert [d.kind for d in group_differences(table(site=site, outcome=code), parts[0].rows, parts[1].rows)] == ["base"]
    price = numpy.concatenate([drawn(0).lognormal(2, 1, 200), drawn(1).lognormal(9, 1, 200)])  # pens and cars
    assert not group_differences(table(site=site, price=price), parts[0].rows, parts[1].rows)


def test_single_files() -> None:
    dates = [f"{1 + i % 28:02d}.{1 + i % 12:02d}.2023" for i in range(60)]
    times = 1.7e9 + numpy.cumsum(drawn(0).random(60))
    assert [d.kind for d in single_file(table(day=dates, time=times))] == ["text date", "day first", "precision"]
    healthy = table(
        day=[f"2023-01-{1 + i % 28:02d}" for i in range(60)], time=times - times[0], id=1e9 + numpy.arange(60)
    )
    assert not single_file(healthy)


@pytest.mark.parametrize("decimals", [1, 2, 3])
def test_values_that_lost_their_decimal_point(decimals: int) -> None:
    values = (drawn(0).normal(12, 1.5, 1000) / 10 ** (decimals - 1)).round(decimals)
    lost = numpy.where(drawn(1).random(1000) < 0.03, values * 10**decimals, values).round(decimals)
    (found,) = single_file(table(c=lost))
    assert (found.kind, found.units) == ("point", f"{10**decimals:,}")
    assert not single_file(table(c=values))


@pytest.mark.parametrize(
    "values",
    [
        numpy.where(drawn(1).random(900) < 0.03, 999.0, drawn(0).normal(12, 1.5, 900).round(1)),  # a sentinel
        numpy.where(
            drawn(1).random(900) < 0.05, drawn(2).integers(50, 400, 900), drawn(0).normal(12, 1.5, 900).round(1)
        ),
        drawn(0).lognormal(2, 1.2, 900).round(1),  # a long tail
        numpy.where(drawn(0).random(900) < 0.1, drawn(1).gamma(4, 40, 900).round(), drawn(2).gamma(4, 4, 900).round(1)),
        drawn(0).normal(120, 15, 900),  # no decimals to lose
        drawn(0).integers(80, 160, 900).astype(float),
    ],
    ids=["sentinel", "others", "tail", "gauges", "floats", "whole"],
)
def test_large_values_that_did_not_lose_a_point(values: Numbers) -> None:
    assert not single_file(table(c=values))


# -- relations --


def related(seed: int, sign: float = 1.0, noise: float = 0.5) -> dict[str, Any]:
    rng = drawn(seed)
    x = rng.normal(size=(400, 3))
    score = sign * (x[:, 0] - x[:, 1]) + noise * rng.normal(size=400)
    return {"a": x[:, 0], "b": x[:, 1], "c": x[:, 2], "died": (score > 0).astype(float)}


def test_a_code_that_means_the_opposite() -> None:
    found = list(relations(table(**related(0)), table(**related(1, sign=-1.0))))
    assert min(found, key=lambda relation: max(relation.across)).column == "died"
    assert {relation.kind for relation in found} == {"inverted"}
    assert not list(relations(table(**related(0)), table(**related(1))))
    assert not list(relations(table(**related(0)), table(**related(1, noise=2.0))))  # weaker, not turned


@pytest.mark.parametrize("seed", range(3))
def test_a_code_that_means_the_opposite_in_some_of_many_files(seed: int) -> None:
    signs = (1.0, -1.0, 1.0, 1.0, -1.0)
    first, second, *others = (table(**related(10 * seed + index, sign=sign)) for index, sign in enumerate(signs))
    assert "died" in {relation.column for relation in relations_of_files(first, second, others)}
    assert "died" in {relation.column for relation in relations_of_files(first, second, [])}


def field(mean: float, sign: float = 1.0) -> Table:
    """The yield is best at 6.5."""
    rng = drawn(3)
    acid = mean + 0.4 * rng.normal(size=400)
    return table(acid=sign * acid, clay=rng.normal(size=400), crop=0.3 * (acid - 6.5) ** 2 + 0.1 * rng.normal(size=400))


def test_a_curve_that_rises_in_one_file_and_falls_in_the_other() -> None:
    assert not list(relations(field(5.6), field(7.4)))
    assert "acid" in {each.column for each in relations(field(7.4), field(7.4, sign=-1.0))}


def scene(turn: float) -> Table:
    """A relation of its own to each of two columns."""
    rng = drawn(int(turn))
    x, way = rng.normal(size=(400, 2)), numpy.deg2rad(turn)
    return table(a=x[:, 0], b=x[:, 1], c=x @ [numpy.cos(way), numpy.sin(way)] + 0.5 * rng.normal(size=400))


def test_scenes_have_relations_of_their_own() -> None:
    first, second, *others = map(scene, (0, 170, 90, 260, 45, 300))
    assert "c" in {relation.column for relation in relations(first, second) if relation.kind == "inverted"}
    assert "c" not in {relation.column for relation in relations_of_files(first, second, others)}


def test_a_column_that_was_shuffled_or_shifted_alone() -> None:
    broken = related(1)
    broken["died"] = drawn(5).permutation(broken["died"])
    found = {relation.column: relation for relation in relations(table(**related(0, noise=0.1)), table(**broken))}
    assert found["died"].kind == "unrelated"
    assert found["died"].shift == 0
    broken = related(1) | {"died": numpy.roll(related(1)["died"], 1)}
    found = {relation.column: relation for relation in relations(table(**related(0)), table(**broken))}
    assert found["died"].shift == -1


# -- rows --


def test_rows_in_another_order() -> None:
    area, age = drawn(0).random(300), drawn(1).integers(0, 90, 300).astype(float)
    order = drawn(2).permutation(300)
    found = row_order(table(area=area, age=age), table(path="b.npy", x=((area - 1) / 7)[order], z=age[order]))
    assert found is not None
    assert not found.keyed
    assert (found.column, found.other) == ("area", "x")
    assert row_order(table(area=area), table(path="b.npy", x=numpy.float16(area))) is None
    assert row_order(table(area=area), table(path="b.npy", x=drawn(3).random(300))) is None


def test_a_key_in_both_files_is_noted() -> None:
    order = drawn(2).permutation(300)
    found = row_order(table(cell=numpy.arange(300)), table(path="b.csv", cell=order))
    assert found is not None
    assert found.keyed


def test_copies() -> None:
    text = [f"review number {i} was not good" for i in range(300)]
    assert copied_rows(table(text=text), table(text=text[200:] + [word + "!" for word in text[:50]])) == (100, 0.0)
    codes = [f"c{i % 40:02d}" for i in range(300)]
    assert copied_rows(table(clip=codes), table(clip=codes)) is None


def test_ids_that_count_from_one() -> None:
    pairs = drawn(0).integers(0, 99, (2, 600))  # row 99 has no edge
    nodes = table(path="nodes.csv", degree=drawn(1).random(100), age=drawn(2).random(100))
    assert not ids_from_one(table(a=pairs[0], b=pairs[1]), nodes)
    assert ids_from_one(table(a=pairs[0] + 1, b=pairs[1] + 1), nodes)
    fewer = table(path="nodes.csv", degree=drawn(1).random(99))
    assert not ids_from_one(table(a=pairs[0] + 1, b=pairs[1] + 1), fewer)  # rows 1 to 99, read with 1 subtracted


def test_words_and_reserved_rows_do_not_count_from_one() -> None:
    words = drawn(0).integers(1, 100, (600, 8))
    columns = {f"words[{i}]": words[:, i] for i in range(8)}
    nodes = table(path="labels.csv", label=drawn(1).integers(0, 2, 100), weight=drawn(2).random(100))
    assert not ids_from_one(table(path="train.npz", **columns), nodes)
    pairs = {"first": words[:, 0], "second": words[:, 1]}
    sister = {"first": words[:100, 2], "second": words[:100, 3]}
    assert not ids_from_one(table(path="train.csv", **pairs), table(path="valid.csv", **sister))
    vectors = drawn(3).random((100, 2))
    vectors[0] = 0  # of the padding
    assert not ids_from_one(
        table(path="pairs.csv", **pairs), table(path="vectors.npy", **{"[0]": vectors[:, 0], "[1]": vectors[:, 1]})
    )


def test_lines_that_belong_to_the_line_before() -> None:
    lengths = drawn(0).integers(3, 20, 900)
    source, target = (["word " * n for n in lengths], ["wort " * n for n in lengths])
    found = shifted_lines(source, target[:200] + target[201:] + target[:1])
    assert found is not None
    assert found.by == -1
    assert 200 <= found.first <= 310
    assert shifted_lines(source, target) is None
    assert shifted_lines(source, ["wort " * n for n in drawn(1).integers(3, 20, 900)]) is None


def test_pictures_that_are_turned() -> None:
    mean = drawn(0).random((8, 8))
    first, second = (mean + 0.3 * drawn(seed).normal(size=(400, 8, 8)) for seed in (1, 2))
    assert turned(first, second) is None
    found = turned(first, second.swapaxes(1, 2))
    assert found is not None
    assert found.how == "transposed"
    noise = turned(drawn(1).normal(size=(400, 8, 8)), drawn(2).normal(size=(400, 8, 8)))
    assert noise is None
    colors = numpy.array([0.8, 0.5, 0.2])[:, None, None]
    found = turned(colors + 0.1 * first[:, None], colors[::-1] + 0.1 * second[:, None])
    assert found is not None
    assert "channels" in found.how


def letters(seed: int, mark: str, informative: int) -> Table:
    """Texts of 8 words, some of which depend on the label."""
    rng = drawn(seed)
    labels = [("claim", "praise", "question")[k] for k in rng.integers(0, 3, 400)]
    rows = []
    for label in labels:
        words = [f"w{rng.integers(0, 60)}" for _ in range(8 - informative)]
        words += [f"{label}{rng.integers(0, 40)}" for _ in range(informative)]
        rows.append(" ".join([f"{mark}-{label}" if mark else f"s{rng.integers(0, 30)}", *words]))
    return table(text=rows, label=labels)


def test_a_first_word_that_gives_the_label() -> None:
    found = marker(letters(0, "desk", 0))
    assert found is not None
    assert found.found == 1.0
    assert marker(letters(0, "", 0)) is None
    assert marker(letters(0, "", 3)) is None
    assert marker(letters(0, "desk", 3)) is None  # the other words give it too: an easy problem


def vocabulary(folder: Path, words: list[str]) -> Vocabulary:
    path = folder / "vocab.txt"
    path.write_text("\n".join(["<unk>", *words]))
    (found,) = read_vocabularies(str(path))
    return found


def test_words_of_a_text_that_a_vocabulary_has_in_a_different_case(tmp_path: Path) -> None:
    words = [f"w{chr(97 + i)}" for i in range(26)]
    text = [" ".join(drawn(i).choice(words, 8)) for i in range(100)]
    found = coverage(vocabulary(tmp_path, [word.title() for word in words]), table(text=text, row=range(100)))
    assert found is not None
    assert (found.column, found.known, found.ignoring_case) == ("text", 0.0, 1.0)
    assert found.entry == found.example.title()
    same = coverage(vocabulary(tmp_path, words), table(text=text))
    assert same is not None
    assert same.known == 1.0
    other = vocabulary(tmp_path, [f"other{word}" for word in words])
    assert coverage(other, table(text=text)) is None  # the vocabulary of a different text


def test_vocabularies_of_characters_and_in_json(tmp_path: Path) -> None:
    letters = [chr(97 + i) for i in range(26)]
    assert vocabulary(tmp_path, letters).characters
    path = tmp_path / "vocab.json"
    path.write_text(json.dumps({"src": ["<pad>", *letters], "tgt": {w: i for i, w in enumerate(["<s>", *letters])}}))
    assert len(read_vocabularies(str(path))) == 2
    path.write_text(json.dumps({"names": letters, "lr": 0.1}))  # names of columns: no entry for unknown words
    assert read_vocabularies(str(path)) == []
    (tmp_path / "binary.dat").write_bytes(b"\xff\x00\xfe" * 100)
    assert read_vocabularies(str(tmp_path / "binary.dat")) == []


def test_blank_lines_between_blocks_of_a_table(tmp_path: Path) -> None:
    (tmp_path / "train.conll").write_text("\n".join("Lane\tSTREET\n3\tNUMBER\n" for _ in range(30)))
    (found,) = read_tables(str(tmp_path / "train.conll"))
    assert (found.rows, found.names) == (60, ("column 1", "column 2"))


@pytest.mark.parametrize("by", [-1, 2])
def test_targets_that_belong_to_a_different_row(by: int) -> None:
    x = drawn(1).normal(size=(400, 3))
    y = x @ [1.0, -2.0, 0.5] + 0.1 * drawn(2).normal(size=400)
    inputs = table(a=x[:, 0], b=x[:, 1], c=x[:, 2], row=range(400))
    found = shifted_targets(inputs, table(path="b.csv", y=numpy.roll(y, -by)))
    assert found is not None
    assert (found.column, found.by) == ("y", by)
    assert found.here < 0.15 < 0.9 < found.moved
    assert shifted_targets(inputs, table(path="b.csv", y=y)) is None
    assert shifted_targets(inputs, table(path="b.csv", y=drawn(3).permutation(y))) is None


def test_series_are_not_moved_against_one_another() -> None:
    rain = drawn(1).normal(size=400)
    river = numpy.convolve(rain, [0.0, 0.2, 1.0, 0.9, 0.6], "full")[:400]  # follows the rain hours later
    assert shifted_targets(table(rain=rain), table(path="b.csv", river=river)) is None


def test_features_of_an_array_in_another_order(tmp_path: Path) -> None:
    days = drawn(1).integers(0, 99, (300, 24))
    features = numpy.stack([days.std(1), days.mean(1)], 1)
    numpy.savez(tmp_path / "meters.npz", kwh=days)
    numpy.save(tmp_path / "same.npy", features)
    numpy.save(tmp_path / "moved.npy", features[drawn(2).permutation(300)])
    (meters,), (same,), (moved,) = (read_tables(str(tmp_path / f)) for f in ("meters.npz", "same.npy", "moved.npy"))
    assert row_order(same, meters) is None
    order = row_order(moved, meters)
    assert order is not None
    assert order.other == "mean of kwh"


def test_copies_of_pictures(tmp_path: Path) -> None:
    pictures = drawn(1).integers(0, 255, (300, 9, 9))
    numpy.savez(tmp_path / "early.npz", images=pictures[:200])
    numpy.savez(tmp_path / "late.npz", images=pictures[100:])
    (early,), (late,) = (read_tables(str(tmp_path / f"{name}.npz")) for name in ("early", "late"))
    assert copied_rows(early, late) == (100, 0.0)
