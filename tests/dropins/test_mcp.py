"""`trueloop mcp`: the tools, and the server as the SDK's own client sees it."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from trueloop.cli.mcp import server
from trueloop.dropins.mcp_tools import TOOLS, run_command
from trueloop.errors import MissingExtra

BROKEN = """
import torch
from torch import nn
torch.manual_seed(0)
model = nn.Linear(4, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
inputs = torch.randn(6, 4)
print("the script prints")
for _ in range(8):
    loss = nn.functional.cross_entropy(model(inputs), inputs[:, 0].gt(0).long())
    loss.backward()
    optimizer.step()
"""


def _asked(target: Any, name: str, arguments: dict[str, Any]) -> tuple[list[Any], Any]:
    """The tools, and the answer of one, by the SDK's client."""

    async def work() -> tuple[list[Any], Any]:
        async with import_module("mcp").Client(target) as client:
            listed = await client.list_tools()
            return listed.tools, await client.call_tool(name, arguments)

    tools, answer = import_module("anyio").run(work)
    return tools, answer


def test_the_client_sees_every_tool_with_its_description_and_schema() -> None:
    tools, answer = _asked(server(), "explain", {"rule": "GRD101"})
    assert {tool.name for tool in tools} == set(TOOLS)
    for tool in tools:
        assert tool.description
        assert tool.output_schema["properties"].keys() == {"command", "exit_code", "meaning", "report", "output"}
    needed = {tool.name: tool.input_schema.get("required", []) for tool in tools}
    assert needed["check"] == ["script"]
    assert needed["try"] == ["script", "changes"]
    assert not answer.is_error
    assert answer.structured_content["exit_code"] == 0
    assert "gradients-never-cleared" in answer.structured_content["output"]


def test_a_file_is_written_only_if_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[list[str]] = []
    monkeypatch.setattr("trueloop.dropins.mcp_tools.run_command", lambda words, *_, **__: ran.append(words))
    TOOLS["fix"]("train.py", unsafe=True)
    TOOLS["fix"]("train.py", ["--epochs", "1"], write=True, steps=20)
    assert ran == [["fix", "--unsafe", "--diff", "train.py"], ["fix", "--steps", "20", "train.py", "--epochs", "1"]]


@pytest.mark.long
def test_a_script_is_checked_over_stdio(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(BROKEN, encoding="utf-8")
    words = import_module("mcp").StdioServerParameters(command=sys.executable, args=["-m", "trueloop", "mcp"])
    target = import_module("mcp").stdio_client(words)
    _, answer = _asked(target, "check", {"script": "train.py", "folder": str(tmp_path), "steps": 8})
    content = answer.structured_content
    assert content["command"] == "trueloop check --steps 8 train.py"
    assert content["exit_code"] == 1
    finding = content["report"]["findings"][0]
    assert (finding["code"], finding["path"], finding["line"]) == ("GRD101", "train.py", 11)
    assert "the script prints" in content["output"]


def test_a_command_that_is_wrong_is_an_answer_not_a_crash(tmp_path: Path) -> None:
    answer = run_command(["compare", "no-such-run", "nor-this"], str(tmp_path), 60)
    assert answer["exit_code"] == 4
    assert answer["meaning"] == "the command is wrong; nothing was run"
    assert "no-such-run" in answer["output"]
    assert answer["report"] is None


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    answer = TOOLS["compare"](["a", "b"], folder=str(tmp_path / "gone"))
    assert answer["exit_code"] == 4
    assert "gone" in answer["meaning"]


def test_the_time_limit_ends_the_command_and_its_children(tmp_path: Path) -> None:
    answer = run_command(["explain", "--all"], str(tmp_path), 0.0, json_report=False)
    assert answer["exit_code"] is None
    assert "limit of 0 seconds" in answer["meaning"]


def test_without_the_package_the_message_is_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trueloop.cli.mcp.find_spec", lambda _: None)
    with pytest.raises(MissingExtra, match=r"pip install 'trueloop\[mcp\]'"):
        server()
