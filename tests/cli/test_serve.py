"""`trueloop serve` and `trueloop load`, as they are typed, with a real exported model."""

from __future__ import annotations

import json
import shutil
import socket
import sys
from pathlib import Path

import numpy
import pytest

from tests.export.made import run_here, subject
from tests.serve.made import Served, process, until_ready
from trueloop.cli.main import main
from trueloop.cli.serve import not_a_run
from trueloop.errors import Misuse
from trueloop.export.catalogue import find_exporter
from trueloop.export.export_model import export_model

triton = pytest.importorskip("tritonclient.grpc")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small model for ONNX Runtime, which starts without torch."""
    place = tmp_path_factory.mktemp("served") / "shades"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("trueloop.export.verify.run_in_subprocess", run_here)
        export_model(subject(), find_exporter("onnx"), place)
    return place


def test_an_exported_model_is_served_until_it_is_told_to_end(made: Path) -> None:
    with process([sys.executable, "-m", "trueloop", "serve", str(made), "--port", "0", "--log"]) as started:
        assert started.stdout is not None
        first = started.stdout.readline()
        assert first.startswith("shades as onnx at http://127.0.0.1:")
        limits = "batches    up to 32 samples, the first waits 5 ms; queue of 256; requests up to 10,000,000 bytes\n"
        assert started.stdout.readline() == limits
        server = Served(int(first.partition("127.0.0.1:")[2].split()[0]), started)
        until_ready(server)
        status, told = server.json({"input": [[[9] * 4] * 3]})
        assert status == 200
        assert told["predictions"][0]["class"] in ("dark", "grey", "light")
        assert server.end() == 0
    assert any(line.startswith("POST '/predict' 200 ") for line in server.said)
    assert server.said[-1] == "stopped"


def test_several_models_have_names_and_processes(made: Path) -> None:
    words = [f"a:1={made}", f"a:2={made}", f"b={made}", "--port", "0", "--workers", "1", "--grpc", "0"]
    with process([sys.executable, "-m", "trueloop", "serve", *words]) as started:
        assert started.stdout is not None
        lines = [started.stdout.readline() for _ in range(6)]
        assert lines[0].startswith("a version 1 as onnx at http://127.0.0.1:")
        assert "(POST /v2/models/a/versions/1/infer)" in lines[0]
        assert lines[1].startswith("a version 2 as onnx at http://127.0.0.1:")
        assert "POST /predict," in lines[1]
        assert lines[2].startswith("b as onnx at http://127.0.0.1:")
        assert "POST /predict?model=b," in lines[2]
        assert lines[4].startswith("gRPC       127.0.0.1:")
        assert lines[5] == "workers    1 process for each model\n"
        server = Served(int(lines[0].partition("127.0.0.1:")[2].split()[0]), started)
        until_ready(server)
        for name in ("a", "b"):
            status, told = server.ask(json.dumps({"input": [[[9] * 4] * 3]}).encode(), path=f"/predict?model={name}")
            assert (status, list(told)) == (200, ["predictions"])
        tensor = triton.InferInput("input", [1, 1, 3, 4], "UINT8")
        tensor.set_data_from_numpy(numpy.zeros((1, 1, 3, 4), "uint8"))
        with triton.InferenceServerClient(lines[4].split()[1]) as client:
            assert client.infer("b", [tensor]).as_numpy("output").shape == (1, 3)
        assert server.end() == 0


@pytest.mark.parametrize("typed", ["a b=MADE", "=MADE", "a=", "a:=MADE", "a:0=MADE", "a:1.2=MADE", ":1=MADE"])
def test_a_name_that_cannot_be_in_an_address_is_refused(typed: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serve", typed]) == 4
    assert f"{typed!r} is not NAME=ARTIFACT" in capsys.readouterr().err


def test_load_compares_every_answer_with_the_model_s_own(made: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["load", str(made), "--clients", "8", "--requests", "200"]) == 0
    said = capfd.readouterr().out
    assert "shades as onnx: 200 requests, 8 clients" in said
    assert said.count("statuses  200 x 200; wrong answers 0; failures 0") == 2
    assert "batching answers " in said
    assert " in 3 rounds)" in said


def test_load_reports_in_every_format(made: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    files = [tmp_path / f"load.{suffix}" for suffix in ("json", "html", "md")]
    outputs = [word for file in files for word in ("--output", str(file))]
    asked = ["load", str(made), "--clients", "4", "--requests", "40", "--rounds", "1"]
    assert main([*asked, "--garbage", "10%", *outputs]) == 0
    assert capfd.readouterr().out == ""
    report = json.loads(files[0].read_text(encoding="utf-8"))
    assert [server["name"] for server in report["servers"]] == ["with batching", "without batching"]
    assert all(server["wrong"] == 0 and server["statuses"]["200"] > 0 for server in report["servers"])
    assert report["batching_gain"] > 0
    assert "malformed" in files[1].read_text(encoding="utf-8")
    assert "## with batching" in files[2].read_text(encoding="utf-8")


def test_load_states_the_limit_and_ends_with_1_where_it_is_missed(
    made: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    asked = ["load", str(made), "--clients", "4", "--requests", "60", "--with-batching"]
    assert main([*asked, "--latency", "20s"]) == 0
    assert "; limit 20000 ms: kept\n" in capfd.readouterr().out
    assert main([*asked, "--p99", "1us"]) == 1
    said = capfd.readouterr().out
    assert "; limit 0.001 ms: missed\n" in said
    assert "statuses  200 x 60; wrong answers 0; failures 0" in said


def test_load_ends_with_1_where_batching_gains_less_than_was_asked_for(
    made: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert main(["load", str(made), "--clients", "4", "--requests", "40", "--rounds", "1", "--gain", "1000"]) == 1
    assert "times as many requests; --gain 1000: missed" in capfd.readouterr().out


def test_a_limit_is_told_by_who_serves_and_known_to_who_asks(made: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with process([sys.executable, "-m", "trueloop", "serve", str(made), "--port", "0", "--latency", "20s"]) as started:
        assert started.stdout is not None
        lines = [started.stdout.readline() for _ in range(3)]
        assert lines[2] == "latency    answers within 20000 ms, or 429 at once\n"
        server = Served(int(lines[0].partition("127.0.0.1:")[2].split()[0]), started)
        until_ready(server)
        assert server.get("/model")[1]["latency_ms"] == 20_000
        assert main(["load", f"http://127.0.0.1:{server.port}", "--clients", "4", "--requests", "40"]) == 0
        assert server.end() == 0
    assert "; limit 20000 ms: kept" in capfd.readouterr().out


def test_a_limit_that_cannot_be_kept_is_refused_before_anybody_asks(made: Path) -> None:
    words = ["--port", "0", "--latency", "2us", "--wait", "1us"]
    with process([sys.executable, "-m", "trueloop", "serve", str(made), *words]) as started:
        said = started.communicate(timeout=60)[0]
    assert started.returncode == 4
    assert "--latency 0.002ms is impossible: one sample takes " in said


def test_load_says_that_nobody_is_there(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as door:
        port = door.getsockname()[1]
    assert main(["load", f"http://127.0.0.1:{port}"]) == 4
    assert "cannot be reached" in capsys.readouterr().err


@pytest.mark.parametrize("option", ["--port", "--grpc"])
def test_a_port_that_is_taken_is_a_sentence(made: Path, capsys: pytest.CaptureFixture[str], option: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as door:
        port = door.getsockname()[1]
        assert main(["serve", str(made), "--port", "0", option, str(port)]) == 4
    said = f"Cannot listen on 127.0.0.1:{port} (Address already in use). Nothing was served: choose another {option}"
    assert said in capsys.readouterr().err


def test_ray_without_its_package_names_the_extra(
    made: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delitem(sys.modules, "trueloop.serve.ray_deployment", raising=False)
    monkeypatch.setitem(sys.modules, "ray", None)
    assert main(["serve", str(made), "--port", "0", "--ray"]) == 3
    assert "--ray needs the package ray: pip install 'trueloop[serve,ray]'" in capsys.readouterr().err
    assert main(["serve", str(made), "--ray", "--grpc", "0"]) == 4
    assert "--grpc, --log and --samples are not for --ray" in capsys.readouterr().err


@pytest.mark.long
def test_ray_serves_the_same_routes(made: Path) -> None:
    pytest.importorskip("ray")
    words = [sys.executable, "-m", "trueloop", "serve", str(made), "--port", "0", "--ray", "--workers", "2"]
    with process(words, TRUELOOP_API_KEY="seven", RAY_USAGE_STATS_ENABLED="0") as started:
        assert started.stdout is not None
        first = started.stdout.readline()
        assert "(2 replicas; POST /predict" in first
        for line in started.stdout:
            if line == "ready\n":
                break
        server = Served(int(first.partition("127.0.0.1:")[2].split()[0]), started)
        body = json.dumps({"input": [[[9] * 4] * 3]}).encode()
        for _ in range(20):
            status, told = server.ask(body, x_api_key="seven")
            assert status == 200
            assert told["predictions"][0]["class"] in ("dark", "grey", "light")
        assert server.ask(body)[0] == 401
        assert server.ask(b"{", x_api_key="seven")[0] == 400
        assert server.get("/v2/models/shades", x_api_key="seven")[1]["name"] == "shades"
        assert server.end() == 0
    assert server.said[-1] == "stopped"


def test_grpc_without_its_packages_names_the_extra(
    made: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delitem(sys.modules, "trueloop.serve.grpc_server", raising=False)
    monkeypatch.setitem(sys.modules, "grpc", None)
    assert main(["serve", str(made), "--port", "0", "--grpc", "0"]) == 3
    assert "gRPC needs the package grpc: pip install 'trueloop[serve,grpc]'" in capsys.readouterr().err


@pytest.mark.parametrize("verb", ["serve", "load"])
def test_a_package_that_is_missing_is_named_with_how_to_get_it(
    made: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], verb: str
) -> None:
    for name in [name for name in sys.modules if name.startswith("trueloop.serve.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    assert main([verb, str(made)]) == 3
    assert "Serving needs the package uvicorn: pip install 'trueloop[serve]'" in capsys.readouterr().err


def copied(made: Path, place: Path) -> Path:
    shutil.copytree(made, place)
    return place


def test_a_damaged_model_is_not_served(made: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    damaged = copied(made, tmp_path / "damaged")
    data = bytearray((damaged / "model.onnx").read_bytes())
    data[len(data) // 2] ^= 1
    (damaged / "model.onnx").write_bytes(data)
    for verb in ("serve", "load"):
        assert main([verb, str(damaged)]) == 4
        said = capsys.readouterr().err
        assert "is damaged: its hash is not the one in artifact.json. Nothing was run." in said
        assert len(said.splitlines()) == 1


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (("format", 99), "has format 99; this trueloop reads format 1"),
        (
            ("runtime", {"package": "onnxruntime", "version": "99.0", "match": "major", "machine": ""}),
            "was made for onnxruntime 99.0",
        ),
        (
            ("runtime", {"package": "onnxruntime", "version": "1.0", "match": "major", "machine": "vax"}),
            "is machine code for vax",
        ),
    ],
    ids=["a later format", "another version", "another machine"],
)
def test_an_artifact_for_something_else_is_not_served(
    made: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], change: tuple[str, object], why: str
) -> None:
    from trueloop.checkpoint.store import seal_json, unseal_json

    other = copied(made, tmp_path / "other")
    told = unseal_json((other / "artifact.json").read_bytes(), "")
    (other / "artifact.json").write_bytes(seal_json({**told, change[0]: change[1]}))
    assert main(["serve", str(other)]) == 4
    said = capsys.readouterr().err
    assert why in said
    assert len(said.splitlines()) == 1


def test_a_model_that_only_looks_whole_ends_the_server_with_a_sentence(made: Path, tmp_path: Path) -> None:
    import hashlib

    from trueloop.checkpoint.store import seal_json, unseal_json

    other = copied(made, tmp_path / "other")
    (other / "model.onnx").write_bytes(b"rubbish")
    told = unseal_json((other / "artifact.json").read_bytes(), "")
    entry = {"bytes": 7, "sha256": hashlib.sha256(b"rubbish").hexdigest()}
    (other / "artifact.json").write_bytes(seal_json({**told, "files": {"model.onnx": entry}}))
    with process([sys.executable, "-m", "trueloop", "serve", str(other), "--port", "0"]) as started:
        said = started.communicate(timeout=60)[0]
        assert started.returncode == 4
    assert "cannot be opened" in said
    assert "Traceback" not in said


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ([], "Which artifact?"),
        (["nowhere"], "nowhere is not an artifact"),
        (["MADE", "--batch", "0"], "--batch cannot be '0'"),
        (["MADE", "--wait", "soon"], "--wait cannot be 'soon': expected a time such as 45ms"),
        (["MADE", "--max-body", "much"], "--max-body cannot be 'much': expected a size"),
        (["MADE", "--queue", "4"], "--queue 4 is smaller than --batch 32"),
        (["MADE", "--latency", "never"], "--latency cannot be 'never': expected a time"),
        (["MADE", "--latency", "4ms"], "--wait 5ms must be shorter than --latency 4ms"),
        (["MADE", "--api-key-file", "nowhere"], "--api-key-file nowhere cannot be read"),
        (["MADE", "--port", "99999"], "--port cannot be '99999': expected a whole number from 0 to 65535"),
        (["MADE", "--host", "no.such.host.invalid"], "Cannot listen on"),
        (["MADE", "--write", "triton2", "x"], "Did you mean triton?"),
    ],
    ids=lambda value: " ".join(value[:3]) if isinstance(value, list) else "",
)
def test_a_command_that_is_wrong_is_refused(
    made: Path, capsys: pytest.CaptureFixture[str], words: list[str], why: str
) -> None:
    assert main(["serve", *(str(made) if word == "MADE" else word for word in words)]) == 4
    assert why in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ([], "Load what?"),
        (["a", "--clients", "none"], "--clients cannot be 'none': expected a whole number, 1 or more"),
        (["a", "--garbage", "200%"], "--garbage cannot be '200%'"),
        (["a", "--p99", "soon"], "--p99 cannot be 'soon': expected a time"),
        (["a", "--gain", "much"], "'much'"),
        (["http://"], "is not a server address"),
        (["a"], "a is not an artifact"),
    ],
    ids=["nothing", "clients", "garbage", "p99", "gain", "address", "artifact"],
)
def test_a_load_that_is_wrong_is_refused(capsys: pytest.CaptureFixture[str], words: list[str], why: str) -> None:
    assert main(["load", *words]) == 4
    assert why in capsys.readouterr().err


def test_a_run_is_no_artifact_and_its_own_are_named(
    made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    run = Path("runs", "shades")
    run.mkdir(parents=True)
    (run / "run.json").write_text("{}")
    for named in (run, Path("shades")):
        with pytest.raises(Misuse) as refused:
            not_a_run(named, "serve")
        how = f"type `trueloop export {named} --to onnx`, then `trueloop serve runs/shades/export/onnx`."
        assert str(refused.value) == f"{named} is a run that was not exported. Nothing was run: {how}"
    copied(made, run / "export" / "onnx")
    copied(made, run / "export" / "pt2")
    for verb in ("serve", "load"):
        with pytest.raises(
            Misuse,
            match=f"type `trueloop {verb} runs/shades/export/onnx` or `trueloop {verb} runs/shades/export/pt2`",
        ):
            not_a_run(run, verb)
    assert not_a_run(run / "export" / "pt2", "serve") == run / "export" / "pt2"
    assert not_a_run(Path("nowhere"), "serve") == Path("nowhere")


def test_an_empty_key_is_no_key(made: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "key").write_text(" \n")
    assert main(["serve", str(made), "--api-key-file", str(tmp_path / "key")]) == 4
    assert "is empty" in capsys.readouterr().err


def test_an_open_door_without_a_key_is_told(made: Path, tmp_path: Path) -> None:
    (tmp_path / "key").write_text("seven\n")
    for more, warned in (([], True), (["--api-key-file", str(tmp_path / "key")], False)):
        with process(
            [sys.executable, "-m", "trueloop", "serve", str(made), "--port", "0", "--host", "0.0.0.0", *more]
        ) as started:
            assert started.stdout is not None
            lines = [started.stdout.readline() for _ in range(3)]
        assert any("no API key is set" in line for line in lines) is warned


def test_files_for_other_servers_are_written(made: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serve", str(made), "--write", "triton", str(tmp_path / "models"), "--batch", "4"]) == 0
    assert main(["serve", str(made), "--write", "docker", str(tmp_path / "image")]) == 0
    for what in ("kserve", "kubernetes"):
        assert main(["serve", str(made), "--write", what, str(tmp_path / what), "--grace", "40s"]) == 0
        assert "terminationGracePeriodSeconds: 45" in (tmp_path / what / f"{what}.yaml").read_text()
    said = capsys.readouterr().out
    assert said.count("written    ") == 11
    assert "max_batch_size: 4" in (tmp_path / "models" / "shades" / "config.pbtxt").read_text()
    told = json.loads((tmp_path / "image" / "artifact" / "artifact.json").read_text())
    assert told
