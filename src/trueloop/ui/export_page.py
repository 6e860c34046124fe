"""`trueloop ui --export page.html RUN ...`: the same pages and data as one file, which opens without a server.

Modules become data addresses in the import map, plotly.js is inlined, and the answers that pages ask for are kept in
one JSON element. The content security policy of the file forbids every request.
"""

import base64
import json
from collections.abc import Iterator, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from trueloop.errors import Misuse, TrueloopError
from trueloop.report.page import full_page
from trueloop.results.plain import as_plain
from trueloop.rules.catalogue import all_rules
from trueloop.ui.library import Library
from trueloop.ui.page import Query
from trueloop.ui.page_list import PAGES
from trueloop.ui.run_rows import id_of
from trueloop.ui.server import BODY, SHEETS, STATIC, plotly_file

__all__ = ["MOST_RUNS", "answers_of", "export_page"]

MOST_RUNS: Final = 60
PAIRS_UP_TO: Final = 5
"""Of so many runs each pair can be compared in the file; of more only all together."""
AXES: Final = ("step", "seconds", "samples")
POLICY: Final = (
    "default-src 'none'; script-src 'unsafe-inline' data:; style-src 'unsafe-inline'; img-src data: blob:; "
    "base-uri 'none'; form-action 'none'"
)

Asked = list[tuple[str, str]]


def export_page(runs: Sequence[Path]) -> str:
    """Runs of one folder. Raises Misuse."""
    folders = {run.resolve().parent for run in runs}
    if len(folders) != 1 or len(runs) > MOST_RUNS:
        raise Misuse(f"Name 1 to {MOST_RUNS} runs of one folder. Nothing was written.")
    library = Library(folders.pop())
    library.editor = "none"  # paths of this machine mean nothing elsewhere
    names = sorted(dict.fromkeys(run.resolve().name for run in runs))
    kept = json.dumps(as_plain(answers_of(library, names)), separators=(",", ":")).replace("<", "\\u003c")
    styles = "\n".join(file.read_text(encoding="utf-8") for file in SHEETS)
    code = plotly_file().read_text(encoding="utf-8").replace("</script", "<\\/script")
    title = ", ".join(names)[:80].replace("&", "&amp;").replace("<", "&lt;")
    head = f"""<meta http-equiv="content-security-policy" content="{POLICY}">
<style>{styles}</style>
<script type="application/json" id="trueloop-data">{kept}</script>
<script type="importmap">{_modules()}</script>
<script>{code}</script>
<script type="module">import "ui/app.js";</script>"""
    return full_page(title, head, BODY).encode("utf-8", "backslashreplace").decode()


def _modules() -> str:
    """Our modules by name, each as a data address."""
    addresses = {
        f"ui/{file.relative_to(STATIC).as_posix()}": "data:text/javascript;base64,"
        + base64.b64encode(file.read_bytes()).decode()
        for file in sorted(STATIC.rglob("*.js"))
    }
    return json.dumps({"imports": addresses})


def answers_of(library: Library, names: Sequence[str]) -> dict[str, Any]:
    """Address, as `static/api.js` writes it -> answer."""
    functions = {page.name: page.data for page in PAGES}
    answers: dict[str, Any] = {}

    def ask(page: str, asked: Asked, shown: Asked | None = None) -> Any:
        """`shown`: what the page asks for, where that is not what the data are asked for."""
        try:
            answer = functions[page](library, Query(asked))
        except TrueloopError as error:
            answer = {"error": str(error)[:2000]}
        answers[_address(page, asked if shown is None else shown)] = answer
        return answer

    one = id_of(names[0]) if len(names) == 1 else None
    pages = [{"name": page.name, "title": page.title, "place": page.place} for page in PAGES]
    hidden = {"runs", "compare"} if one is not None else set()
    answers["pages?"] = {"pages": [page for page in pages if page["name"] not in hidden], "folder": "", "only": one}
    runs = ask("runs", [("run", name) for name in names], [])
    runs |= {"folder": "", "complete": True}
    for name in names:
        _ask_run(ask, name)
    for several in _sets(names):
        _ask_comparison(ask, [("run", name) for name in several])
    lists = ask("learn", [])
    lists |= {"labs": [], "groups": []}  # a lab needs a machine that measures
    for rule in all_rules():
        ask("learn", [("rule", rule.code)])
    return answers


def _ask_run(ask: Any, name: str) -> None:
    run: Asked = [("run", name)]
    for page in ("run", "source", "profile", "ship"):
        ask(page, run)
    for axis in AXES:
        ask("curves", [*run, ("x", axis)])
    for statistic, _ in ask("layers", run).get("statistics", []):
        ask("layers", [*run, ("statistic", statistic)])
    for level in ("model", "layer", "operation"):
        for phase in ask("step", [*run, ("level", level)]).get("phases", []):
            ask("step", [*run, ("level", level), ("phase", phase)])


def _sets(names: Sequence[str]) -> Iterator[Sequence[str]]:
    if len(names) > 1:
        yield names
    if 2 < len(names) <= PAIRS_UP_TO:
        yield from combinations(names, 2)


def _ask_comparison(ask: Any, runs: Asked) -> None:
    for series in ask("compare", runs).get("series", []):
        for axis in AXES:
            ask("bands", [*runs, ("series", series), ("x", axis)])


def _address(page: str, asked: Asked) -> str:
    """As encodeURIComponent writes it."""
    words = ((name, id_of(value) if name == "run" else quote(value, safe="'()*!~-._")) for name, value in asked)
    return f"{page}?{'&'.join(f'{name}={value}' for name, value in words)}"
