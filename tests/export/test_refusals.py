"""What is refused before anything of it runs: descriptions that say too little, archives that are broken or say things
twice."""

from __future__ import annotations

import io
import json
import warnings
import zipfile
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.export.made import artifact, verification
from trueloop.checkpoint.store import seal_json, unseal_json
from trueloop.errors import BadArtifact, CannotSave, Misuse
from trueloop.export.folder import CARD, read_artifact, staged_folder, verify_files
from trueloop.export.graph_schema import NotAllowed, allowed_graph, allowed_payload, is_arithmetic
from trueloop.export.safety import _check_sample, safe_graph, safe_script
from trueloop.results.artifact import FILE

# -- descriptions --


def placed(place: Path, **fields: Any) -> Path:
    with staged_folder(place) as folder:
        (folder.aside / "model.onnx").write_bytes(b"weights")
        folder.seal(artifact(verification=verification(), **fields))
        folder.publish()
    return place


def resealed(place: Path, change: Callable[[Any], object]) -> Path:
    """By somebody who can."""
    told = unseal_json((place / FILE).read_bytes(), "")
    change(told)
    (place / FILE).write_bytes(seal_json(told))
    return place


@pytest.mark.parametrize("word", ["package", "version", "match", "machine"])
@pytest.mark.parametrize("value", [None, 3])
def test_a_runtime_that_is_not_named_in_full_is_refused(tmp_path: Path, word: str, value: Any) -> None:
    def change(told: Any) -> None:
        told["runtime"][word] = value
        if value is None:
            del told["runtime"][word]

    with pytest.raises(BadArtifact, match="Nothing was run"):
        read_artifact(resealed(placed(tmp_path / "out"), change))


@pytest.mark.parametrize("entry", [{}, {"bytes": 7}, {"sha256": "00"}, None, "seven", {"bytes": "7", "sha256": "00"}])
def test_a_file_that_is_not_described_is_refused(tmp_path: Path, entry: Any) -> None:
    place = resealed(placed(tmp_path / "out"), lambda told: told["files"].update({"model.onnx": entry}))
    with pytest.raises(BadArtifact, match="Nothing was run"):
        verify_files(read_artifact(place))


@pytest.mark.parametrize("name", ["", "..", ".hidden", "a/b", "a\\b", "/model", "a b"])
def test_names_that_are_no_plain_files_are_refused(tmp_path: Path, name: str) -> None:
    place = resealed(placed(tmp_path / "out"), lambda told: told["files"].update({name: {"bytes": 0, "sha256": ""}}))
    with pytest.raises(BadArtifact, match="does not list plain file names"):
        read_artifact(place)


@pytest.mark.parametrize("content", [b"", b"[]", b"null", b"{", b'"sha256"', b"\xff\xfe", b'{"sha256": 3}'])
def test_what_is_no_sealed_json_is_damaged(tmp_path: Path, content: bytes) -> None:
    placed(tmp_path / "out")
    (tmp_path / "out" / FILE).write_bytes(content)
    with pytest.raises(BadArtifact, match=r"is damaged: .*Export the run again"):
        read_artifact(tmp_path / "out")


def test_a_description_that_is_a_folder_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / FILE).mkdir()
    with pytest.raises(BadArtifact, match=r"cannot be read \(Is a directory\)\. Nothing was run"):
        read_artifact(tmp_path)


def test_every_file_is_verified_not_only_the_model(tmp_path: Path) -> None:
    place = placed(tmp_path / "out")
    (place / "weights.data").write_bytes(b"12")
    resealed(place, lambda told: told["files"].update({"weights.data": {"bytes": 3, "sha256": "00"}}))
    with pytest.raises(BadArtifact, match=r"weights\.data is damaged: 2 bytes instead of 3"):
        verify_files(read_artifact(place))


# -- writing --


def test_without_a_card_there_is_none(tmp_path: Path) -> None:
    assert not (placed(tmp_path / "out") / CARD).exists()


def test_an_empty_folder_may_be_written_into_and_a_file_may_not(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    assert read_artifact(placed(tmp_path / "empty")).name == "shades"
    (tmp_path / "file").write_text("mine", encoding="utf-8")
    with pytest.raises(Misuse, match="exists and is not an artifact"), staged_folder(tmp_path / "file"):
        pytest.fail("never inside")
    assert (tmp_path / "file").read_text(encoding="utf-8") == "mine"


def test_what_a_killed_export_left_is_in_nobodys_way(tmp_path: Path) -> None:
    place = placed(tmp_path / "out")
    (tmp_path / ".replaced-out").mkdir()
    (tmp_path / ".replaced-out" / "old").write_text("half", encoding="utf-8")
    placed(place, name="later")
    assert read_artifact(place).name == "later"
    assert [each.name for each in tmp_path.iterdir()] == ["out"]


def test_a_place_that_cannot_be_taken_is_told_in_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> Path:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "rename", refuse)
    with (
        pytest.raises(CannotSave, match=r"could not be written \(Permission denied\)"),
        staged_folder(tmp_path / "out") as folder,
    ):
        folder.publish()
    assert list(tmp_path.iterdir()) == []


# -- archives --

GRAPH = {
    "graph_module": {"graph": {"nodes": [{"target": "torch.ops.aten.add.Tensor", "name": "add"}]}},
    "guards_code": [],
}


def archive(place: Path, *parts: tuple[str, bytes], method: int = zipfile.ZIP_STORED) -> Path:
    with warnings.catch_warnings(), zipfile.ZipFile(place, "w", method) as made:
        warnings.simplefilter("ignore")  # of a name that is there twice
        for name, data in parts:
            made.writestr(f"model/{name}", data)
    return place


def graph(**changes: Any) -> bytes:
    return json.dumps({**GRAPH, **changes}).encode()


EVIL = graph(guards_code=["__import__('os').system('true')"])


def test_a_plain_graph_is_trusted(tmp_path: Path) -> None:
    safe_graph(
        archive(tmp_path / "a", ("models/model.json", graph()), ("data/weights/weight_0", b"\x00"), ("version", b"1"))
    )


@pytest.mark.parametrize("order", [(EVIL, graph()), (graph(), EVIL)])
def test_a_file_that_is_there_twice_is_refused(tmp_path: Path, order: tuple[bytes, bytes]) -> None:
    """Two readers may each take another one: what was looked at would not be what is loaded."""
    file = archive(tmp_path / "a", *(("models/model.json", data) for data in order))
    with pytest.raises(BadArtifact, match="not safe to load"):
        safe_graph(file)


def test_code_that_is_there_twice_is_refused(tmp_path: Path) -> None:
    file = archive(tmp_path / "a", ("code/a.py", b'torch.save(x, "/etc/passwd")'), ("code/a.py", b"return x"))
    with pytest.raises(BadArtifact, match="not safe to load"):
        safe_script(file)


RUBBISH: list[bytes] = [
    b"[]",
    b"{}",
    b"null",
    b'{"config": []}',
    b'{"config": {"a": 3}}',
    b'{"config": {"a": {}}}',
    b'{"config": {"a": {"use_pickle": false, "path_name": 3}}}',
    b"[" * 100_000,
    b"\xff",
]


@pytest.mark.parametrize("data", RUBBISH, ids=range(len(RUBBISH)))
def test_settings_that_are_rubbish_are_refused_in_a_sentence(tmp_path: Path, data: bytes) -> None:
    with pytest.raises(BadArtifact, match=r"Nothing was run|nothing in it was executed"):
        safe_graph(archive(tmp_path / "a", ("data/weights/model_weights_config.json", data)))


@pytest.mark.parametrize("look", [safe_graph, safe_script], ids=["graph", "script"])
@pytest.mark.parametrize("at", [0.2, 0.5, 0.8])
def test_an_archive_whose_bytes_were_changed_is_refused_in_a_sentence(
    tmp_path: Path, look: Callable[[Path], io.BytesIO], at: float
) -> None:
    name = "models/model.json" if look is safe_graph else "code/a.py"
    file = archive(tmp_path / "a", (name, graph() * 50), method=zipfile.ZIP_DEFLATED)
    data = bytearray(file.read_bytes())
    with zipfile.ZipFile(file) as made:
        begins, size = made.infolist()[0].header_offset + 30 + len(f"model/{name}"), made.infolist()[0].compress_size
    for place in range(begins + int(size * at), begins + size):
        data[place] = 0xFF
    file.write_bytes(data)
    with pytest.raises(BadArtifact, match="Nothing was run"):
        look(file)


@pytest.mark.parametrize("look", [safe_graph, safe_script], ids=["graph", "script"])
def test_an_archive_that_is_locked_is_refused_in_a_sentence(tmp_path: Path, look: Callable[[Path], io.BytesIO]) -> None:
    name = "models/model.json" if look is safe_graph else "code/a.py"
    file = archive(tmp_path / "a", (name, graph()))
    data = bytearray(file.read_bytes())
    for mark, at in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        data[data.index(mark) + at] |= 1  # "encrypted"
    file.write_bytes(data)
    with pytest.raises(BadArtifact, match="Nothing was run"):
        look(file)


@pytest.mark.parametrize("look", [safe_graph, safe_script], ids=["graph", "script"])
def test_a_file_that_is_not_there_is_refused_in_a_sentence(tmp_path: Path, look: Callable[[Path], io.BytesIO]) -> None:
    with pytest.raises(BadArtifact, match="No such file"):
        look(tmp_path / "nothing")


@pytest.mark.parametrize(
    "name",
    ["../models/model.json", "a/../models/model.json", "models/../x", "data/weights/weight_x", "models/a.b.json"],
)
def test_names_that_lead_elsewhere_are_no_part_of_a_graph(tmp_path: Path, name: str) -> None:
    with pytest.raises(BadArtifact, match="is not part of an exported graph"):
        safe_graph(archive(tmp_path / "a", (name, graph())))


# -- what a graph says --


@pytest.mark.parametrize(
    "text",
    [
        "s0 + 1",
        "Eq(Mod(s0, 8), 0)",
        "Max(1, s0)*FloorDiv(s1, 2)",
        "L['x'].size()[0] >= 2",
        "Symbol('s0', integer=True, positive=True)",
        "2 <= s0 and s0 <= 64",
        "not s0",
        "(1, 2)",
        "-s0",
        "u.stride()[1]",
    ],
)
def test_arithmetic_of_sizes_is_let_through(text: str) -> None:
    assert is_arithmetic(text)


@pytest.mark.parametrize(
    "text",
    [
        "__import__('os')",
        "exec('1')",
        "eval('1')",
        "open('x')",
        "x.__class__",
        "x.format(1)",
        "().__class__.__bases__",
        "f'{x}'",
        "[x for x in y]",
        "lambda: 1",
        "(x := 1)",
        "Symbol('s0; import os')",
        "size(1)",
        "x.size.y",
        "x()()",
        "x[0]()",
        "a; b",
        "import os",
        "",
        "{1: 2}",
        "x if y else z",
        "*x",
        "await x",
        "_a__b",
    ],
)
def test_what_is_more_than_arithmetic_is_not(text: str) -> None:
    assert not is_arithmetic(text)


@given(st.text(max_size=30))
def test_any_text_is_arithmetic_or_not_and_nothing_happens(text: str) -> None:
    assert is_arithmetic(text) in (True, False)


@pytest.mark.parametrize(
    ("target", "trusted"),
    [
        ("torch.ops.aten.add.Tensor", True),
        ("torch.ops.aten.save", False),
        ("torch.ops.aten.save_thing.default", True),
        ("torch.ops.aten.from_file.default", False),
        ("torch.ops.mylib.run.default", False),
        ("torch.ops.aten.add.Tensor.more", False),
        ("_operator.getitem", True),
        ("_operator.call", False),
        ("operator.add", False),
        ("torch.sym_max", True),
        ("torch.load", False),
        ("math.ceil", True),
        ("math.factorial", False),
        ("builtins.eval", False),
        ("", False),
    ],
)
def test_only_what_computes_is_called(target: str, trusted: bool) -> None:
    assert refusal({"graph": {"nodes": [{"target": target}]}}) == ("" if trusted else f"calls {target}")


def refusal(graph_module: dict[str, Any]) -> str:
    try:
        allowed_graph({"graph_module": graph_module})
    except NotAllowed as error:
        return str(error)
    return ""


def test_source_lines_are_left_out() -> None:
    node = {"target": "torch.ops.aten.add.Tensor", "metadata": {"stack_trace": "File x; import os", "target": "x"}}
    cleaned = allowed_graph({"graph_module": {"graph": {"nodes": [node]}}})
    assert cleaned["graph_module"]["graph"]["nodes"] == [{"target": "torch.ops.aten.add.Tensor", "metadata": {}}]


def test_names_that_are_no_names_are_reported_and_cut_short() -> None:
    call = {"signature": {"forward_arg_names": ["images", "x y"]}}
    assert refusal({"module_call_graph": [call]}) == "holds the invalid name x y"
    assert refusal({"graph": {"tensor_values": {"a b": {}}}}) == "holds the invalid name a b"
    assert refusal({"graph": {"a b": 1}}) == "holds the unknown field 'a b'"
    assert len(refusal({"graph": {"nodes": [{"name": "x " * 500}]}})) < 120


@pytest.mark.parametrize(
    "tree",
    [
        {"type": "collections.defaultdict", "context": "[]", "children_spec": []},
        {"type": "os.system", "context": "null", "children_spec": []},
        {"type": "builtins.dict", "context": '{"a": 1}', "children_spec": []},
        {
            "type": "builtins.tuple",
            "context": "null",
            "children_spec": [{"type": "x", "context": "null", "children_spec": []}],
        },
        {"type": "builtins.tuple", "context": "null"},
        {"type": None, "context": "os", "children_spec": []},
        [],
    ],
)
def test_outputs_are_tuples_lists_and_dicts(tree: Any) -> None:
    call = {"signature": {"out_spec": json.dumps([1, tree])}}
    assert refusal({"module_call_graph": [call]}).startswith("builds outputs of the type [1, ")


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("as_int", "3"),
        ("as_bool", 1),
        ("as_float", "1e3 or x"),
        ("as_ints", [1, "2"]),
        ("as_string", "a\nb"),
        ("as_tensor", []),
    ],
)
def test_a_value_of_another_type_is_refused(field: str, value: Any) -> None:
    assert refusal({"graph": {"outputs": [{field: value}]}}).startswith("holds ")


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        ({"use_pickle": False, "path_name": "weight_12"}, ""),
        ({"use_pickle": True, "path_name": "weight_12"}, "holds pickled objects"),
        ({"use_pickle": False, "path_name": "opaque_obj_1"}, "names the file opaque_obj_1"),
        ({"use_pickle": False, "path_name": "weight_1/../x"}, "names the file weight_1/../x"),
    ],
)
def test_only_numbers_are_weights(entry: dict[str, Any], said: str) -> None:
    with pytest.raises(NotAllowed, match=said) if said else nullcontext():
        allowed_payload({"config": {"a": entry}})


def test_samples_are_tensors_or_nothing(tmp_path: Path) -> None:
    torch.save((torch.ones(2), {"x": torch.zeros(1)}), tmp_path / "a")
    _check_sample((tmp_path / "a").read_bytes())
    _check_sample(b"")
    with pytest.raises(NotAllowed, match="holds more than tensors"):
        _check_sample(b"rubbish")
