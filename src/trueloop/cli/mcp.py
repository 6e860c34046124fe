"""`trueloop mcp`: a server of the Model Context Protocol over stdin and stdout, for coding agents."""

from collections.abc import Awaitable, Callable
from functools import partial, wraps
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Final

from trueloop import __version__
from trueloop.cli.options import Parser
from trueloop.dropins.mcp_tools import TOOLS, Answer
from trueloop.errors import MissingExtra
from trueloop.results.check import ExitCode

__all__ = ["mcp", "parser", "server"]

ABOUT: Final = """Offer check, explain, try, fix, probe, profile and compare as tools to a coding agent, by the Model
Context Protocol over stdin and stdout. The agent starts this command itself:

  {"mcpServers": {"trueloop": {"command": "trueloop", "args": ["mcp"]}}}

Each call runs a command in a process of its own, within a time limit. Needs `pip install 'trueloop[mcp]'`."""
INSTRUCTIONS: Final = """Finds the PyTorch training bugs that do not crash. Begin with `check` on the training script
(steps=200). For each finding change its line as the fix says, then check again; `explain` has the reasons. `try` shows
whether a change helps, against the noise over seeds. These tools run the user's script."""


def parser() -> Parser:
    return Parser("mcp", "", ABOUT)


def mcp(arguments: list[str]) -> int:
    parser().parse_all(arguments)
    server().run("stdio")
    return ExitCode.CLEAN


def server() -> Any:
    """Of the official SDK, with all tools."""
    if find_spec("mcp") is None:
        raise MissingExtra("`trueloop mcp` needs the package mcp: pip install 'trueloop[mcp]'")
    made = import_module("mcp.server").MCPServer(
        "trueloop", version=__version__, instructions=INSTRUCTIONS, log_level="WARNING"
    )
    for name, tool in TOOLS.items():
        made.tool(name=name)(_in_thread(tool))
    return made


def _in_thread(tool: Callable[..., Answer]) -> Callable[..., Awaitable[Answer]]:
    """The server keeps answering while a command runs."""

    @wraps(tool)
    async def call(*args: Any, **kwargs: Any) -> Answer:
        answer: Answer = await import_module("anyio.to_thread").run_sync(partial(tool, *args, **kwargs))
        return answer

    return call
