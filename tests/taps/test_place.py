import sys
from types import CodeType

from trueloop.taps.place import place_in


def _here(code: CodeType) -> object:
    found: dict[str, object] = {"place_in": place_in, "frame": sys._getframe}
    exec(code, found)
    return found["place"]


def test_an_instruction_without_a_line_counts_for_the_first_line() -> None:
    """The profiler's timer signal arrives at any instruction; some that Python adds have no line."""
    code = compile("\n\nplace = place_in(frame())\n", "train.py", "exec")
    assert _here(code).line == 3  # type: ignore[attr-defined]
    without = _here(code.replace(co_linetable=b""))
    assert without.line == code.co_firstlineno  # type: ignore[attr-defined]
    assert isinstance(hash(without), int)
