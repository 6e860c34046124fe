"""Expressions and guards of a .pt2 file become Python code that torch runs: arithmetic over sizes passes, and nothing
else."""

from __future__ import annotations

import keyword

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trueloop.export.graph_schema import _CALL, _NAME, is_arithmetic

HARMLESS = [
    "1",
    "s77",
    "s77 + 1",
    "2*s0",
    "s0*s1 // 4",
    "s77 - 1 >= 2",
    "-s77",
    "s0 == s1 and s1 != 3",
    "Symbol('s95', positive=True, integer=True)",
    "Mul(Integer(2), Symbol('s95', positive=True, integer=True))",
    "FloorDiv(s77, 8)",
    "Mod(s77, 2)",
    "Max(1, s77)",
    "Min(64, s77)",
    "ModularIndexing(s77, 1, 8)",
    "Piecewise((1, s77 > 2), (0, True))",
    "CeilToInt(IntTrueDiv(s77, 2))",
    "Eq(s77, 3)",
    "L['x'].size()[1] <= 64",
    "L['tensors'][0].size()[0] == L['tensors'][1].size()[0]",
    "L['x'].stride()[0] == 4",
    "L['x'].storage_offset() == 0",
    "(-1 + L['x'].size()[1] + L['x'].size()[1] * L['x'].size()[0]) // L['x'].size()[1] >= 2",
]
"""As torch writes them."""

HARMFUL = [
    "",
    "import os",
    "os.system('true')",
    "__import__('os')",
    "__import__('os').system('true') == 0",
    "eval('1')",
    "exec('1')",
    "open('file')",
    "lambdify('x', 'x')",
    "sympify('1')",
    "S('1')",
    "parse_expr('1')",
    "preview('x')",
    "().__class__",
    "().__class__.__bases__[0].__subclasses__()",
    "L.__class__",
    "L['x'].__reduce__()",
    "L['x'].numpy()",
    "L['x'].tofile('file')",
    "L['x'].size.__self__",
    "(lambda: 1)()",
    "[each for each in L]",
    "{each for each in L}",
    "(yield)",
    "f'{L}'",
    "x := 1",
    "(x := 1)",
    "1 if True else 2",
    "Symbol('a b')",
    "Symbol('__import__(\"os\")')",
    "'a string; with code'",
    "Max(*L)(1)",
    "Max(1)(2)",
    "L['x'].size()()",
    "1\n2",
    "1; 2",
    "(" * 500 + "1" + ")" * 500,
]
"""As somebody would write them who means harm."""


@pytest.mark.parametrize("text", HARMLESS)
def test_arithmetic_over_sizes_passes(text: str) -> None:
    assert is_arithmetic(text)


@pytest.mark.parametrize("text", HARMFUL, ids=[f"harmful-{number}" for number in range(len(HARMFUL))])
def test_anything_else_is_refused(text: str) -> None:
    assert not is_arithmetic(text)


@given(st.from_regex(r"[a-z_]{3,12}", fullmatch=True))
def test_no_unknown_function_is_ever_called(name: str) -> None:
    if name not in ("floor", "ceiling") and not keyword.iskeyword(name):
        assert not is_arithmetic(f"{name}(1)")
        assert not is_arithmetic(f"L['x'].{name}(1)")


@given(st.text(max_size=40))
def test_whatever_the_text_it_is_judged_and_not_run(text: str) -> None:
    assert is_arithmetic(text) in (True, False)


@pytest.mark.parametrize(
    "target",
    [
        "torch.ops.aten.add.Tensor",
        "torch.ops.aten._softmax.default",
        "torch.ops.aten.sym_size.int",
        "torch.ops.aten.__and__.Tensor",
        "torch.ops.prims.convert_element_type.default",
        "torch.ops.higher_order.cond",
        "torch.ops.quantized_decomposed.quantize_per_tensor.default",
        "_operator.getitem",
        "_operator.floordiv",
        "torch.sym_max",
        "math.ceil",
    ],
)
def test_operations_that_compute_may_be_called(target: str) -> None:
    assert _CALL.fullmatch(target)


@pytest.mark.parametrize(
    "target",
    [
        "",
        "os.system",
        "torch.load",
        "torch.hub.load",
        "torch.serialization.load",
        "torch.ops.load_library",
        "torch.ops.load_library.__call__",
        "torch.ops.aten.save",
        "torch.ops.aten.save.default",
        "torch.ops.aten.from_file.default",
        "torch.ops.aten.add.__class__",
        "torch.ops.aten.add._op",
        "torch.ops.unheard_of.op.default",
        "_operator.methodcaller",
        "_operator.attrgetter",
        "_operator.call",
        "math.__loader__.load_module",
        "#extension:op",
    ],
)
def test_nothing_else_may_be_called(target: str) -> None:
    assert not _CALL.fullmatch(target)


@pytest.mark.parametrize(
    ("name", "good"),
    [
        ("p_model_first_weight", True),
        ("", True),
        ("layers.0.weight", True),
        ("x y", False),
        ("x;y", False),
        ("1x", False),
    ],
)
def test_names_are_names(name: str, good: bool) -> None:
    assert (_NAME.fullmatch(name) is not None) is good
