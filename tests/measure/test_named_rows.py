"""Rows of an array beside targets of which entries are missing."""

from __future__ import annotations

import numpy
import pytest

from trueloop.measure.named_rows import moved_from, row_vectors


def _pair(seed: int, rows: int, strength: float = 0.6) -> tuple[numpy.ndarray, numpy.ndarray]:
    rng = numpy.random.default_rng(seed)
    classes = rng.integers(0, 4, rows)
    return rng.normal(size=(rows, 12)) + rng.normal(0, strength, (4, 12))[classes], classes


def _order(features: numpy.ndarray, classes: numpy.ndarray) -> str:
    rows = row_vectors(features)
    assert rows is not None
    hot = numpy.stack([classes == code for code in numpy.unique(classes)], 1).astype(float)
    found = moved_from(rows, (hot - hot.mean(0)) / hot.std(0) / len(hot))
    return found.order if found else ""


@pytest.mark.parametrize("seed", range(4))
def test_one_label_is_missing(seed: int) -> None:
    features, classes = _pair(seed, 600)
    assert _order(features, numpy.concatenate([classes[:200], classes[201:], classes[-1:]])).startswith("moved by +1 ")


@pytest.mark.parametrize("seed", range(4))
def test_the_array_is_from_before_entries_were_removed(seed: int) -> None:
    features, classes = _pair(seed, 1440)
    removed = numpy.sort(numpy.random.default_rng(seed).choice(numpy.arange(400, 1400), 40, replace=False))
    kept = numpy.setdiff1d(numpy.arange(1440), removed)
    assert _order(features[:1400], classes[kept]).startswith("moved by +1 to +")
    assert _order(features[kept], classes[kept]) == ""
    assert _order(features[kept], classes[:1400]).startswith("moved by -1 to -")


@pytest.mark.parametrize("seed", range(4))
def test_later_rows_that_are_unrelated_in_every_order(seed: int) -> None:
    features, classes = _pair(seed, 1200)
    classes[400:] = numpy.random.default_rng(seed).permutation(classes[400:])
    assert _order(features, classes) == ""


@pytest.mark.parametrize("seed", range(4))
def test_a_relation_that_fades(seed: int) -> None:
    features, _ = _pair(seed, 1600)
    fading = features[:, 0] * numpy.linspace(1, 0, 1600) + numpy.random.default_rng(seed).normal(0, 0.3, 1600)
    assert _order(features, (fading > 0).astype(int)) == ""
