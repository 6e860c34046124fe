"""Which compiler makes machine code: tried with wrappers as build images have them."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.export.made import run_here, subject
from trueloop.errors import CannotExport
from trueloop.export import cpp_compiler as module
from trueloop.export.aoti import Aoti
from trueloop.export.cpp_compiler import cpp_compiler, cpp_compiler_note
from trueloop.export.export_model import export_model

pytestmark = pytest.mark.skipif(shutil.which("g++") is None, reason="needs g++")

Wrapper = Callable[[str, str], str]


@pytest.fixture(autouse=True)
def _tried_anew() -> Iterator[None]:
    module._problem_of.cache_clear()
    yield
    module._problem_of.cache_clear()


@pytest.fixture
def wrapper(tmp_path: Path) -> Wrapper:
    """A compiler that adds options to those of g++."""

    def make(name: str, line: str) -> str:
        file = tmp_path / name
        file.write_text(f"#!/bin/sh\n{line}\n", encoding="utf-8")
        file.chmod(0o755)
        return str(file)

    return make


STATIC = f'exec {shutil.which("g++")} "$@" -static-libstdc++ -static-libgcc'


def test_without_a_wish_it_is_gxx(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CXX", raising=False)
    assert cpp_compiler() == "g++"
    assert cpp_compiler_note() == ""


def test_a_compiler_that_works_is_used_as_asked(monkeypatch: pytest.MonkeyPatch, wrapper: Wrapper) -> None:
    asked = wrapper("plain", f'exec {shutil.which("g++")} "$@"')
    monkeypatch.setenv("CXX", asked)
    assert cpp_compiler() == asked
    assert cpp_compiler_note() == ""


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (STATIC, "links a C++ runtime of its own"),
        ("exit 1", "does not compile a shared library"),
        ("exit 0", "does not compile a shared library"),
    ],
)
def test_another_one_is_used_and_the_note_says_why(
    monkeypatch: pytest.MonkeyPatch, wrapper: Wrapper, line: str, why: str
) -> None:
    asked = wrapper("wrapped", line)
    monkeypatch.setenv("CXX", asked)
    assert cpp_compiler() == "g++"
    assert cpp_compiler_note() == f"Compiled by g++: $CXX ({asked}) {why}."


def test_without_any_the_error_says_what_to_type(monkeypatch: pytest.MonkeyPatch, wrapper: Wrapper) -> None:
    monkeypatch.setattr(module, "CANDIDATES", ("no-such-compiler",))
    monkeypatch.setenv("CXX", wrapper("wrapped", STATIC))
    with pytest.raises(CannotExport) as caught:
        cpp_compiler()
    said = str(caught.value)
    assert "wrapped links a C++ runtime of its own; no-such-compiler is not installed. Nothing was exported" in said
    assert "CXX=g++" in said


def test_each_compiler_is_tried_once(monkeypatch: pytest.MonkeyPatch, wrapper: Wrapper, tmp_path: Path) -> None:
    asked = wrapper("counting", f'echo tried >> {tmp_path}/tried; exec {shutil.which("g++")} "$@"')
    monkeypatch.setenv("CXX", asked)
    for _ in range(3):
        cpp_compiler()
    assert (tmp_path / "tried").read_text(encoding="utf-8") == "tried\n"


@pytest.mark.long
def test_machine_code_is_not_made_by_a_compiler_with_its_own_runtime(
    monkeypatch: pytest.MonkeyPatch, wrapper: Wrapper, tmp_path: Path
) -> None:
    asked = wrapper("wrapped", STATIC)
    monkeypatch.setenv("CXX", asked)
    monkeypatch.setattr("trueloop.export.verify.run_in_subprocess", run_here)
    made = export_model(subject(), Aoti(), tmp_path / "out")
    assert f"Compiled by g++: $CXX ({asked}) links a C++ runtime of its own." in made.notes
    assert made.verification is not None
    assert made.verification.passed
