"""Targets that are turned in one file against the arrays beside them; and targets that only have another level."""

from __future__ import annotations

import numpy

from trueloop.measure.tables import Table, Values
from trueloop.measure.turned_columns import turned_columns


def shard(number: int, sign: float = 1, level: float = 0, camera: float = 1) -> Table:
    draw = numpy.random.default_rng(number)
    load = draw.normal(size=150)
    records = load[:, None, None] * numpy.array([camera, -0.5, 0.2]) + draw.normal(0, 0.3, (150, 20, 3))
    targets = sign * (3 * load + draw.normal(0, 0.2, 150)) + level
    columns = (Values("records", None, [str(row) for row in range(150)], "digest"), Values("sinks", targets))
    return Table(f"shard_{number}.npz", columns, 150, True, arrays=(("records", records),))


def files(*tables: Table) -> list[tuple[str, str]]:
    return [found.names for found in turned_columns(list(tables))]


def test_one_file_has_the_opposite_sign() -> None:
    assert files(shard(1), shard(2), shard(3, -1)) == [("shard_1.npz", "shard_3.npz"), ("shard_2.npz", "shard_3.npz")]


def test_files_that_differ_otherwise() -> None:
    assert not files(shard(1), shard(2), shard(3))
    assert not files(shard(1), shard(2, level=9), shard(3, 0.2))
    assert not files(shard(1), shard(2), shard(3, camera=-0.2))  # one channel of three


def test_one_of_two_graders_turned_the_scale() -> None:
    draw = numpy.random.default_rng(4)
    ripe = draw.integers(1, 10, 400)
    pictures = draw.normal(0, 1, (400, 8, 8)) + ripe[:, None, None] / 3
    grader = ["ama" if row % 2 else "esi" for row in range(400)]
    photos = Table("photos.npy", (Values("", None, [str(n) for n in range(400)], "digest"),), 400, True,
                   arrays=(("", pictures),))  # fmt: skip
    for turned in (False, True):
        grades = numpy.where(turned & (numpy.arange(400) % 2 == 1), 10 - ripe, ripe).astype(float)
        table = Table("grades.csv", (Values("grader", None, grader), Values("grade", grades)), 400, True)
        assert [found.group for found in turned_columns([table, photos])] == ["grader"] * turned
