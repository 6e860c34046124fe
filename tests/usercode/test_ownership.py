"""What is read of the user's classes: attributes they use, and lines of their forwards that leave the graph."""

from __future__ import annotations

import inspect
from pathlib import Path

import torch
from torch import Tensor, nn

from trueloop.usercode.ownership import attributes_read, class_place, detaching_lines, is_users


class Inner(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.used = nn.Linear(2, 2)
        self.unused = nn.Linear(2, 2)

    def forward(self, inputs: Tensor) -> Tensor:
        outputs: Tensor = self.used(inputs.round())
        return outputs


class Heir(Inner):
    def forward(self, inputs: Tensor) -> Tensor:
        with torch.no_grad():
            first = super().forward(inputs)
        return first + inputs.data


class Outer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.parts = nn.ModuleList([Inner(), Heir()])

    def forward(self, inputs: Tensor) -> Tensor:
        for part in self.parts:
            inputs = part(inputs).detach()
        return inputs


def line_of(text: str) -> int:
    lines = Path(__file__).read_text(encoding="utf-8").splitlines()
    return next(number for number, line in enumerate(lines, 1) if line.strip() == text)


def test_attributes_are_those_that_some_method_but_the_constructor_reads() -> None:
    assert attributes_read(Inner) == {"used"}
    assert attributes_read(Heir) == {"used"}, "a base's method is the class's too"
    assert attributes_read(Outer) == {"parts"}
    assert attributes_read(nn.Linear) == frozenset(), "a library's class is not read"


def test_a_cut_is_a_line_of_a_forward_around_the_layer() -> None:
    model = Outer()
    places = list(detaching_lines(model, "parts.0.used.weight", ["round", "detach"]))
    assert [(place.line, place.function) for place in places] == [
        (line_of("inputs = part(inputs).detach()"), "Outer.forward"),
        (line_of("outputs: Tensor = self.used(inputs.round())"), "Inner.forward"),
    ]
    assert {place.path for place in places} == {__file__}


def test_only_calls_that_were_asked_for_are_cuts_but_no_grad_and_data_always_are() -> None:
    lines = {place.line for place in detaching_lines(Outer(), "parts.1.used.weight", [])}
    assert lines == {line_of("with torch.no_grad():"), line_of("return first + inputs.data")}
    assert not list(detaching_lines(Outer(), "parts.0.used.weight", []))
    assert not list(detaching_lines(nn.Sequential(nn.Linear(1, 1)), "0.weight", ["round"])), (
        "nothing of the user's is around it"
    )


def test_a_class_is_where_it_is_written() -> None:
    place = class_place(Inner)
    assert place is not None
    assert (place.path, place.line) == (__file__, inspect.getsourcelines(Inner)[1])
    assert class_place(nn.Linear) is None


def test_the_command_that_pip_installs_is_not_the_users(tmp_path: Path) -> None:
    """`trueloop profile RECIPE` named its line, `sys.exit(main())`."""
    command = tmp_path / "trueloop"
    command.write_text("sys.exit(main())")
    assert not is_users(str(command))
    assert is_users(str(tmp_path / "trueloop.py"))
