"""`trueloop probe RECIPE|RUN|SCRIPT [claims]`: prove simple claims about a training, one by one, and keep the
evidence."""

from __future__ import annotations

import argparse
import ast
import sys
import tempfile
from dataclasses import replace
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from trueloop.claims.catalogue import claims_named, names, sentences
from trueloop.cli.deliver import hand_over, writable
from trueloop.cli.failure import with_their_errors
from trueloop.cli.options import Parser
from trueloop.cli.train import settings_of
from trueloop.errors import Misuse, did_you_mean
from trueloop.recipes.catalogue import bundled
from trueloop.recipes.origin import origin_of, recipe_of
from trueloop.report import FINDINGS_FORMATS as FORMATS
from trueloop.report import Live, document_of, render
from trueloop.results.proof import Proofs, read_proofs, write_proofs

if TYPE_CHECKING:
    from trueloop.claims.subject import RecipeSubject, ScriptSubject

__all__ = ["is_a_recipe", "probe"]

USAGE: Final = "[options] RECIPE|RUN [claims]\n       trueloop probe [options] SCRIPT [claims] [-- its own arguments]\n       trueloop probe --list"
ABOUT: Final = (
    "Prove simple claims about a training, each with what was measured and, where it fails, the likely causes. Of a run (runs/NAME) the "
    "proofs are kept in its folder, for `trueloop ready`. A script is run in processes of its own, unmodified."
)
STEPS: Final = 200
"""Optimizer steps after which a run of a script is ended, unless --steps says otherwise: claims need several runs of
it."""


def probe(arguments: list[str]) -> int:
    options, words = _parsed(arguments)
    if options.list:
        width = max(map(len, names()))
        print("\n".join(f"{name:<{width}}  {sentence}" for name, sentence in sentences().items()))
        return 0
    target, claims, rest = _divided(words)
    return with_their_errors(lambda: _prove(options, target, claims, rest))


def _parsed(arguments: list[str]) -> tuple[argparse.Namespace, list[str]]:
    parser = Parser("probe", USAGE, ABOUT)
    parser.add_argument("--list", action="store_true", help="the claims, each in a sentence")
    parser.add_argument(
        "--set", metavar="NAME=VALUE", action="append", default=[], help="of a recipe: another value for a field"
    )
    parser.add_argument("--target", metavar="COLUMN", help="of `tabular TABLE`: the column to predict")
    parser.add_argument("--data", type=Path, metavar="DIR", help="of a recipe: the folder that holds the data")
    parser.add_argument(
        "--download",
        action="store_true",
        help="of a recipe: fetch the data from their public home if they are not here",
    )
    parser.add_argument(
        "--steps", metavar="N|all", type=_steps, default=STEPS, help=f"of a script: steps that a run may take ({STEPS})"
    )
    parser.add_argument("--format", metavar="NAME", type=_format, default="text", help=" | ".join(FORMATS))
    parser.add_argument("--output", metavar="FILE", type=Path, help="write the report there")
    parser.add_argument("--no-color", action="store_true", help="no colours; the variable NO_COLOR does the same")
    options, words = parser.split(arguments)
    if not words and not options.list:
        raise Misuse(
            "Of what? Nothing was run: type `trueloop probe digits`, `trueloop probe runs/NAME` or `trueloop probe train.py`."
        )
    return options, words


def _steps(text: str) -> int | None:
    if text == "all":
        return None
    if not text.isdecimal() or int(text) < 1:
        raise Misuse(f"--steps cannot be {text!r}. Nothing was run: write a number of optimizer steps, or all.")
    return int(text)


def _format(word: str) -> str:
    if word not in FORMATS:
        raise Misuse(
            f"There is no format {word!r}.{did_you_mean(word, FORMATS)} Nothing was run. There are: {', '.join(FORMATS)}."
        )
    return word


# -- what was asked for --


def _divided(words: list[str]) -> tuple[list[str], list[str], list[str]]:
    """The target (a word, or -m MODULE, or tabular TABLE), the claims, and what belongs to a script."""
    size = 2 if words[0] == "-m" or (words[0] == "tabular" and len(words) > 1) else 1
    target, rest = words[:size], words[size:]
    claims = []
    while rest and rest[0] in names():
        claims.append(rest.pop(0))
    if rest[:1] == ["--"]:
        return target, claims, rest[1:]
    near = get_close_matches(rest[0], names(), n=1, cutoff=0.7) if rest and not rest[0].startswith("-") else []
    if near:
        raise Misuse(
            f"There is no claim {rest[0]!r}. Did you mean {near[0]}? Nothing was run: a script's own words stand after `--`."
        )
    return target, claims, rest


def _prove(options: argparse.Namespace, target: list[str], claims: list[str], rest: list[str]) -> int:
    chosen = claims_named(claims)
    options.output = None if options.output is None else writable(options.output)
    run = Path(target[0]) if Path(target[0]).is_dir() else None
    if run is not None:
        read_proofs(run)  # a damaged file is refused before anything is proved, not after
    with tempfile.TemporaryDirectory(prefix="trueloop-probe-") as scratch:
        subject = _subject(options, target, rest, run, Path(scratch))
        from trueloop.claims.prove import prove
        from trueloop.claims.subject import RecipeSubject
        from trueloop.report.from_proof import proof_part

        as_text = options.format == "text" and options.output is None
        live = Live(sys.stdout, color=not options.no_color) if as_text else None
        tried = (
            chosen
            if claims or isinstance(subject, RecipeSubject)
            else [claim for claim in chosen if claim.supports_scripts()]
        )
        made = prove(subject, " ".join(target), tried, (lambda proof: live.show(proof_part(proof))) if live else None)
    made = replace(made, left_out=tuple(claim.name for claim in chosen if claim not in tried))
    _deliver(options, made, live)
    if run is not None:
        print(f"kept in {write_proofs(run, made)}", file=sys.stderr)
    return made.exit_code()


def _subject(
    options: argparse.Namespace, target: list[str], rest: list[str], run: Path | None, scratch: Path
) -> RecipeSubject | ScriptSubject:
    from trueloop.claims.subject import ScriptSubject

    word = target[0]
    if word == "-m" or (word.endswith(".py") and not is_a_recipe(Path(word))):
        if options.set or options.data or options.download:
            raise Misuse(f"{word} is a script: --set, --data and --download are for recipes. Nothing was run.")
        return ScriptSubject((*target, *rest), options.steps, scratch)
    if rest:
        raise Misuse(
            f"{rest[0]!r} is no claim.{did_you_mean(rest[0], names())} Nothing was run: `trueloop probe --list` shows the claims."
        )
    return _recipe_subject(options, target, run, scratch)


def _recipe_subject(options: argparse.Namespace, target: list[str], run: Path | None, scratch: Path) -> RecipeSubject:
    from trueloop.claims.subject import RecipeSubject
    from trueloop.recipe.overrides import apply_overrides
    from trueloop.recipe.recipe import DataRequest
    from trueloop.session.folder import read_about

    folder = None if options.data is None else options.data.absolute()
    if run is not None:
        about = read_about(run)
        origin = origin_of(run, about, "claims are tried on runs of `trueloop train RECIPE`.")
        told = about.get("data")
        folder = folder or (Path(told) if told else None)
    else:
        given = {"table": target[1]} if len(target) > 1 else {}
        _refuse_unknown(target[0])
        origin = {
            "recipe": target[0],
            "arguments": given | ({"target": options.target} if options.target else {}),
            "settings": {},
        }
    origin["settings"] = {**origin["settings"], **settings_of(options.set)}
    recipe = apply_overrides(recipe_of({**origin, "settings": {}}), origin["settings"])
    return RecipeSubject(recipe, DataRequest(folder, options.download, recipe.seed), _words(origin, folder), scratch)


def _refuse_unknown(word: str) -> None:
    if not word.endswith(".py") and word not in bundled():
        hint = did_you_mean(word, bundled())
        raise Misuse(
            f"{word!r} is no recipe, no run's folder and no script.{hint} Nothing was run. There are: {', '.join(bundled())}."
        )


def is_a_recipe(file: Path) -> bool:
    """Does a file of the user's offer a `recipe`? Nothing of it is run to find out."""
    if not file.is_file():
        raise Misuse(f"There is no file {file}. Nothing was run.")
    try:
        tree = ast.parse(file.read_bytes())
    except (SyntaxError, ValueError):
        return False  # Python itself says what is wrong, when it is run
    made = (
        name.id
        for node in tree.body
        if isinstance(node, ast.Assign)
        for name in node.targets
        if isinstance(name, ast.Name)
    )
    written = (node.name for node in tree.body if isinstance(node, ast.FunctionDef))
    annotated = (
        node.target.id for node in tree.body if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)
    )
    return "recipe" in {*made, *written, *annotated}


def _words(origin: dict[str, Any], data: Path | None) -> tuple[str, ...]:
    """What to type after `trueloop train` for the same recipe."""
    given = origin["arguments"]
    table = [given["table"]] if "table" in given else []
    target = ["--target", given["target"]] if "target" in given else []
    settings = [word for name, value in origin["settings"].items() for word in ("--set", f"{name}={value}")]
    return (origin["recipe"], *table, *target, *settings, *(["--data", str(data)] if data else []))


# -- what is shown --


def _deliver(options: argparse.Namespace, made: Proofs, live: Live | None) -> None:
    if live is not None:
        live.close(document_of(made))
        return
    hand_over(render(made, options.format), options.output)
