"""`trueloop ui [FOLDER]`: one local page that shows all runs of a folder, live. No torch is imported."""

import sys
import webbrowser
from pathlib import Path
from typing import Final

from trueloop.cli.deliver import writable, write_file
from trueloop.cli.options import Parser, offer, whole_number
from trueloop.errors import MissingExtra, Misuse, did_you_mean
from trueloop.report.editors import EDITORS
from trueloop.session.folder import find_run

__all__ = ["parser", "ui"]

ABOUT: Final = """Show the runs of a folder on a local page, live: tables, curves, comparisons, findings.

It only reads, it listens on this machine only (127.0.0.1), and it fetches nothing from elsewhere. From another machine:
`ssh -L 8770:127.0.0.1:8770 HOST`, and there `trueloop ui --port 8770`. Ctrl-C ends it; runs continue."""


def parser() -> Parser:
    made = Parser("ui", ("[options] [FOLDER]", "--export FILE.html RUN ..."), ABOUT)
    add = made.add_argument
    add("folders", nargs="*", type=Path, metavar="FOLDER", help="the folder of runs (default: runs), or one run")
    add("--port", type=whole_number(0, 65535), default=0, metavar="N", help="the port (default: 0, any free one)")
    help = "opens lines: vscode (default), cursor, zed, pycharm ... none"
    offer(add("--editor", metavar="NAME", default="vscode", help=help), EDITORS)
    add("--export", type=Path, metavar="FILE", help="write these runs as one page that opens without a server; ends")
    add("--open", action="store_true", help="open the page in the browser")
    return made


def ui(arguments: list[str]) -> int:
    options = parser().parse_all(arguments)
    if options.export is not None:
        return _export(options.export, options.folders)
    if len(options.folders) > 1:
        raise Misuse("Name one folder of runs. Nothing was started: `--export FILE.html RUN ...` takes several runs.")
    folder: Path = options.folders[0] if options.folders else Path("runs")
    if not folder.is_dir():
        cure = "`trueloop train digits` starts a run in ./runs" if not options.folders else "name a folder of runs"
        raise Misuse(f"There is no folder {folder}. Nothing was started: {cure}.")
    try:
        from trueloop.ui.library import Library
        from trueloop.ui.server import listen, plotly_file, serve
    except ModuleNotFoundError as error:
        raise MissingExtra(f"The page needs the package {error.name}: pip install 'trueloop[ui]'") from None
    plotly_file()
    if options.editor not in EDITORS:
        near = did_you_mean(options.editor, EDITORS)
        raise Misuse(f"--editor {options.editor} is unknown.{near} Nothing was started: one of {', '.join(EDITORS)}.")
    one = (folder / "run.json").is_file()
    library = Library(folder.resolve().parent, folder.resolve().name) if one else Library(folder)
    library.editor = options.editor
    try:
        listener = listen(options.port)
    except OSError as error:
        raise Misuse(
            f"Port {options.port} cannot be used ({error.strerror}). Nothing was started: omit --port."
        ) from None
    address = f"http://127.0.0.1:{listener.getsockname()[1]}/"
    print(f"{address}  {folder}; Ctrl-C ends it", flush=True)
    if options.open and not webbrowser.open(address):
        print("trueloop: no browser was found; open the address above.", file=sys.stderr)
    serve(library, listener)
    return 0


def _export(file: Path, words: list[Path]) -> int:
    if not words:
        typed = f"`trueloop ui --export {file} runs/NAME`"
        raise Misuse(f"Which runs? Nothing was written: type {typed}; `trueloop runs` lists them.")
    if file.suffix != ".html":
        raise Misuse(f"--export {file} is not a page. Nothing was written: name a file that ends in .html.")
    file = writable(file, "--export")
    runs = [find_run(str(word), Path("runs"), "exported") for word in words]
    try:
        from trueloop.ui.export_page import export_page
    except ModuleNotFoundError as error:
        raise MissingExtra(f"The page needs the package {error.name}: pip install 'trueloop[ui]'") from None
    content = export_page(runs).encode()
    write_file(file, content)
    print(
        f"{file}  {len(runs)} run{'s' if len(runs) > 1 else ''}, {len(content) / 1e6:.1f} MB; opens without a network"
    )
    return 0
