"""Sizes, bandwidths and times as they are typed."""

from __future__ import annotations

import argparse

import pytest

from trueloop.cli.options import bandwidth, duration, shape, size


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("80GB", 80e9),
        ("80 GB", 80e9),
        ("80gB", 80e9),
        ("24GiB", 24 * 2**30),
        ("1.5TB", 1.5e12),
        ("512MiB", 2**29),
        ("0.5kB", 500.0),
        ("1e9B", 1e9),
        ("16_000B", 16_000.0),
    ],
)
def test_sizes_are_read(text: str, value: float) -> None:
    assert size(text) == pytest.approx(value)


@pytest.mark.parametrize(
    "text",
    ["80", "GB", "-80GB", "0GB", "80Gb", "80GB/s", "80XB", "eighty", "", "80GBB", "nan", "infGB", "1e999GB", "1.2.3GB"],
)
def test_what_is_no_size_is_refused_with_what_to_type(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match=r"^cannot be .*: expected a size such as 80GB or 24GiB$"):
        size(text)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("600GB/s", 600e9),
        ("600GBps", 600e9),
        ("25Gb/s", 25e9 / 8),
        ("25Gbps", 25e9 / 8),
        ("400Gbit/s", 50e9),
        ("100Mbit/s", 12.5e6),
        ("32GiB/s", 32 * 2**30),
        ("1.8TB/s", 1.8e12),
    ],
)
def test_bandwidths_are_read_in_bytes_and_in_bits(text: str, value: float) -> None:
    assert bandwidth(text) == pytest.approx(value)


@pytest.mark.parametrize("text", ["600GB", "600", "GB/s", "0GB/s", "-1GB/s", "600GX/s", "fast", "600GB/h", ""])
def test_what_is_no_bandwidth_is_refused_with_what_to_type(text: str) -> None:
    expected = r"^cannot be .*: expected a bandwidth such as 600GB/s, or 25Gb/s for bits$"
    with pytest.raises(argparse.ArgumentTypeError, match=expected):
        bandwidth(text)


@pytest.mark.parametrize(
    ("text", "value"),
    [("45ms", 0.045), ("1.2s", 1.2), ("800us", 8e-4), ("800µs", 8e-4), (".5s", 0.5), ("45 ms", 0.045)],
)
def test_times_are_read(text: str, value: float) -> None:
    assert duration(text) == pytest.approx(value)


@pytest.mark.parametrize("text", ["45", "ms", "0ms", "-1s", "45min", "45ms/s", "soon", ""])
def test_what_is_no_time_is_refused_with_what_to_type(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match=r"^cannot be .*: expected a time such as 45ms or 1.2s$"):
        duration(text)


@pytest.mark.parametrize(
    ("text", "value"),
    [("3x224x224", ((3, 224, 224), "float32")), ("1024:int64", ((1024,), "int64")), ("8:float32", ((8,), "float32"))],
)
def test_shapes_are_read(text: str, value: tuple[tuple[int, ...], str]) -> None:
    assert shape(text) == value


@pytest.mark.parametrize("text", ["", "x", "3x", "3x0", "3x-1", "3:int8", "3,4"])
def test_a_malformed_shape_is_refused(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match=r"^cannot be .*: expected a shape such as 3x224x224"):
        shape(text)
