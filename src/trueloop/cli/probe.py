"""`trueloop probe RECIPE|RUN|SCRIPT|OPERATION [CLAIM ...]`: test claims, and keep the evidence."""

from __future__ import annotations

import argparse
import sys
import tempfile
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from trueloop.claims.catalogue import claims_named, names, sentences
from trueloop.cli.check import program_of
from trueloop.cli.deliver import Delivery
from trueloop.cli.named_run import named_run, origin_of_run
from trueloop.cli.options import Parser, whole_number
from trueloop.cli.probe_op import add_op_options, probe_named
from trueloop.cli.recipe_options import add_recipe_options, is_recipe, recipe_arguments, settings_of, unknown_recipe
from trueloop.cli.subject_file import NAMED
from trueloop.errors import Misuse, did_you_mean
from trueloop.experiment.folder_copy import snapshot
from trueloop.op_claims.catalogue import OP_CLAIMS
from trueloop.optimizer_claims.catalogue import OPTIMIZER_CLAIMS
from trueloop.recipes.catalogue import bundled
from trueloop.recipes.origin import recipe_of
from trueloop.report import FINDINGS_FORMATS, Live, document_of
from trueloop.results.proof import Proof, read_proofs, write_proofs

if TYPE_CHECKING:
    from trueloop.claims.subject import RecipeSubject, ScriptSubject

__all__ = ["parser", "probe"]

SCRIPT: Final = "SCRIPT [CLAIM ...] [options] [-- arguments of the script]"
OP: Final = "FILE.py:NAME [CLAIM ...] [--against REFERENCE] [options]"
USAGE: Final = ("RECIPE|RUN [CLAIM ...] [options]", SCRIPT, OP, "--list")
ABOUT: Final = """Test simple claims about a training: what was measured and, if a claim fails, the likely causes. The
results for a run (runs/NAME) are kept in its folder, for `trueloop ready`. A script runs unmodified, each time in a new
process and in a new copy of its folder: your files are not modified. A path outside of it is used as it is.
Or about an operation (an autograd.Function, a custom op, a function that launches a kernel), with or without a
reference: values, gradients, memory, fake tensors, torch.compile. Or about an optimizer: its steps, state, param
groups, closures."""
STEPS: Final = 200  # Optimizer steps of a script, by default: claims need several runs of it


def parser() -> Parser:
    made = Parser("probe", USAGE, ABOUT)
    made.hint = " Arguments of a script stand after `--`."
    made.add_argument("--list", action="store_true", help="list the claims")
    steps, help = whole_number(also="all"), f"optimizer steps of a script ({STEPS})"
    made.add_argument("--steps", metavar="N|all", type=steps, default=STEPS, help=help)
    made.add_report_options(FINDINGS_FORMATS, quiet="print claims that fail only; nothing if none does")
    link = "link this folder, do not copy it (of a script)"
    made.add_argument("--link", metavar="DIR", type=Path, action="append", default=[], help=link)
    add_recipe_options(made, positional=False)
    made.add_argument("-m", metavar="MODULE", help="probe a module, like python -m")
    add_op_options(made)
    made.add_trust()
    return made


def probe(arguments: list[str]) -> int:
    options, words, rest = parser().parse_words(arguments)
    if options.list:
        claims_of = {"a training": sentences(), "an operation (FILE.py:NAME)": OP_CLAIMS.sentences()}
        claims_of["an optimizer (FILE.py:NAME)"] = OPTIMIZER_CLAIMS.sentences()
        width = max(len(name) for listed in claims_of.values() for name in listed)
        for about, listed in claims_of.items():
            print(f"About {about}:")
            print("\n".join(f"  {name:<{width}}  {sentence}" for name, sentence in listed.items()))
        return 0
    if words and NAMED.fullmatch(words[0]):
        return probe_named(options, words[0], words[1:])
    if options.against or options.inputs or options.gradient_of:
        typed = "type `trueloop probe FILE.py:NAME --against torch.relu`"
        raise Misuse(f"--against, --inputs and --gradient-of are for an operation. Nothing was run: {typed}.")
    target, claims = _divided([*(["-m", options.m] if options.m else []), *words])
    delivery = Delivery(options)
    chosen = claims_named(claims)
    run = named_run(target[0])
    if run is not None:
        read_proofs(run)  # a damaged file is refused before anything is measured, not after
    with tempfile.TemporaryDirectory(prefix="trueloop-probe-") as scratch, ExitStack() as copies:
        subject = _subject(options, target, rest, run, Path(scratch), copies)
        from trueloop.claims.prove import prove
        from trueloop.claims.subject import RecipeSubject
        from trueloop.report.from_proof import proof_part

        live = Live(sys.stdout, color=delivery.color) if delivery.in_terminal else None

        def show(proof: Proof) -> None:
            if live is not None and not (delivery.quiet and proof.result != "fails"):
                live.show(proof_part(proof))

        for_script = not (claims or isinstance(subject, RecipeSubject))
        tried = [claim for claim in chosen if claim.supports_scripts()] if for_script else chosen
        result = prove(subject, " ".join(target), tried, show)
    result = replace(result, left_out=tuple(claim.name for claim in chosen if claim not in tried))
    if live is None:
        delivery.deliver(result)
    elif not delivery.quiet or result.exit_code():
        live.close(document_of(result))
    if run is not None:
        kept = write_proofs(run, result)
        if not delivery.quiet:
            print(f"kept in {kept}", file=sys.stderr)
    return result.exit_code()


# -- what was named --


def _divided(words: list[str]) -> tuple[list[str], list[str]]:
    """The target (a word, -m MODULE, or tabular TABLE) and the claims."""
    if not words:
        typed = "`trueloop probe digits`, `trueloop probe runs/NAME` or `trueloop probe train.py`"
        raise Misuse(f"Probe what? Nothing was run: type {typed}.")
    size = 2 if words[0] == "-m" or (words[0] == "tabular" and len(words) > 1) else 1
    for word in words[size:]:
        if word not in names():
            hint = did_you_mean(word, names())
            more = "`trueloop probe --list` lists the claims; arguments of a script stand after `--`"
            raise Misuse(f"There is no claim {word!r}.{hint} Nothing was run: {more}.")
    return words[:size], words[size:]


def _subject(
    options: argparse.Namespace, target: list[str], rest: list[str], run: Path | None, scratch: Path, copies: ExitStack
) -> RecipeSubject | ScriptSubject:
    from trueloop.claims.subject import ScriptSubject

    word = target[0]
    if word == "-m" or (word.endswith(".py") and not is_recipe(Path(word))):
        if options.set or options.data or options.download:
            raise Misuse(f"{word} is a script: --set, --data and --download are for recipes. Nothing was run.")
        program = program_of([*target, *rest], "probe")
        folder = copies.enter_context(snapshot(Path(program.path), options.link))
        return ScriptSubject((*target, *rest), options.steps, scratch, folder)
    if options.link:
        raise Misuse(f"{word} is not a script: --link is for the folder of a script. Nothing was run.")
    if rest:
        raise Misuse(f"{word} is not a script, so it takes no arguments after `--`. Nothing was run.")
    return _recipe_subject(options, target, run, scratch)


def _recipe_subject(options: argparse.Namespace, target: list[str], run: Path | None, scratch: Path) -> RecipeSubject:
    from trueloop.claims.subject import RecipeSubject
    from trueloop.recipe.recipe import DataRequest

    folder: Path | None = options.data
    if run is not None:
        origin, data = origin_of_run(run, "claims are tested on runs of `trueloop train RECIPE`.")
        folder = folder or data
    else:
        if not target[0].endswith(".py") and target[0] not in bundled():
            raise unknown_recipe(target[0], "a recipe, a run or a script")
        arguments = recipe_arguments(target[1] if len(target) > 1 else None, options.target)
        origin = {"recipe": target[0], "arguments": arguments, "settings": {}}
    origin["settings"] = {**origin["settings"], **settings_of(options.set)}
    recipe = recipe_of(origin)
    return RecipeSubject(recipe, DataRequest(folder, options.download, recipe.seed), _words(origin, folder), scratch)


def _words(origin: dict[str, Any], data: Path | None) -> tuple[str, ...]:
    """What to type after `trueloop train` for the same recipe."""
    given = origin["arguments"]
    table = [given["table"]] if "table" in given else []
    target = ["--target", given["target"]] if "target" in given else []
    settings = [word for name, value in origin["settings"].items() for word in ("--set", f"{name}={value}")]
    return (origin["recipe"], *table, *target, *settings, *(["--data", str(data)] if data else []))
