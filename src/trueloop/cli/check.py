"""`trueloop check [options] SCRIPT ...`: run it unmodified, and report what is silently wrong with its training."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, NoReturn

from trueloop.cli.baseline import NO_BASELINE, Baseline, BaselineWriter, read_baseline
from trueloop.cli.deliver import SUFFIXES, Delivery
from trueloop.cli.options import Parser, share, whole_number
from trueloop.doctor.allow import chosen_rules
from trueloop.errors import CannotSave, Misuse
from trueloop.report import FINDINGS_FORMATS
from trueloop.results.check import ExitCode, counted
from trueloop.usercode.settings import load_settings
from trueloop.usercode.source import set_base_folder

if TYPE_CHECKING:
    from trueloop.doctor.launch import Program
    from trueloop.finding import Finding, Severity
    from trueloop.results.check import Verdict
    from trueloop.session.check_run import CheckRun
    from trueloop.usercode.settings import Settings

__all__ = [
    "add_rule_choice",
    "add_rule_options",
    "baseline_of",
    "check",
    "deliver_verdict",
    "fail_on",
    "parser",
    "program_of",
]
__all__ += ["refuse_conflicts", "take_settings", "writer_of"]

USAGE: Final = ("[options] SCRIPT [arguments of the script]", "[options] -m MODULE [arguments of the module]")
ABOUT: Final = """Run a training script, unmodified, and report its silent bugs.

Options of trueloop stand before SCRIPT. Everything after SCRIPT goes to the script."""
SEVERITIES: Final = ("error", "warning", "advice", "never")


def parser() -> Parser:
    made = Parser("check", USAGE, ABOUT)
    made.add_argument("-m", metavar="MODULE", help="run a module, like python -m")
    made.add_argument("--steps", metavar="N", type=whole_number(), help="end the run after N optimizer steps")
    made.add_argument(
        "--budget",
        metavar="SHARE",
        type=share(whole=True),
        help="share of time that checking may add: 5%%, 0.05; 100%% checks every step (default: the first 1,000 steps, "
        "5,000 without a GPU, then 5%%)",
    )
    made.add_argument("--record", metavar="DIR", type=Path, help="record the run, for `trueloop recheck DIR`")
    add_run_options(made)
    made.add_argument("--fail-fast", action="store_true", help="end the run at the first error")
    made.add_argument(
        "--try", dest="try_fixes", action="store_true", help="then run the script with each fix, in a copy"
    )
    made.add_argument("--seeds", metavar="N", type=whole_number(), help="with --try: runs of each version (1)")
    made.add_argument(
        "--changed",
        metavar="REF",
        nargs="?",
        const="HEAD",
        help="do not run the script if its code is the same as in this commit: --changed=origin/main (HEAD)",
    )
    made.add_argument(
        "--add-allow", action="store_true", help="write `# trueloop: allow[...]` at the findings, and show the diff"
    )
    made.add_hang_after()
    add_rule_options(made)
    return made


def add_run_options(parser: Parser) -> None:
    """Where the run is kept."""
    parser.add_argument("--name", metavar="NAME", help="name of the run (default: that of the script)")
    parser.add_argument("--runs", metavar="FOLDER", type=Path, help="the folder of runs (default: runs)")
    parser.add_argument("--no-run", action="store_true", help="keep no run folder: only the report")


def add_rule_choice(parser: Parser) -> None:
    """Which rules."""
    for name, help in (("--select", "run only these rules: GRD,LOS101"), ("--ignore", "leave these rules out")):
        parser.add_argument(name, metavar="RULES", type=_rules, action="extend", default=[], help=help)
    rules = "RULES are codes, starts of codes, or names, with commas between them; `trueloop explain --all` lists them."
    parser.epilog = f"{rules} [tool.trueloop] in pyproject.toml holds defaults."


def add_rule_options(parser: Parser) -> None:
    """Which rules, and how findings are shown; `recheck` has them too."""
    add_rule_choice(parser)
    parser.add_fail_on(SEVERITIES, "error", "exit with 1 from here on: error (default) | warning | advice | never")
    parser.add_report_options(FINDINGS_FORMATS, quiet="print findings and errors only; nothing if there are none")
    parser.add_argument("-v", "--verbose", action="store_true", help="show evidence, source lines and patches too")
    add = parser.add_argument
    add("--baseline", metavar="FILE", type=Path, help="findings that this file lists are counted, and do not fail")
    add("--write-baseline", metavar="FILE", type=Path, help="list the findings in this file, and do not fail")
    parser.add_argument("--diff", action="store_true", help="print only a patch with the fixes, for `patch -p0`")


def refuse_conflicts(options: argparse.Namespace) -> None:
    if options.diff and options.format not in (None, "text"):
        raise Misuse(f"--diff prints a patch, --format {options.format} a report: choose one. Nothing was run.")
    if options.quiet and options.verbose:
        raise Misuse("--quiet and --verbose exclude each other: choose one. Nothing was run.")


def take_settings(command: Parser, settings: Settings) -> Callable[[argparse.Namespace], None]:
    """Options of [tool.trueloop] become defaults. Call the result with the parsed options: a format, -q and -v of the
    settings give way to any option that says how findings are shown."""
    read = command.settings(settings)
    shown = {name: read.pop(name) for name in ("format", "quiet", "verbose") if name in read}
    command.set_defaults(**read)

    def complete(options: argparse.Namespace) -> None:
        by_suffix = any(Path(file).suffix in SUFFIXES for file in options.output)
        if options.format is None and not options.diff and not by_suffix:
            options.format = shown.get("format")
        if not options.quiet and not options.verbose:
            options.quiet, options.verbose = shown.get("quiet", False), shown.get("verbose", False)

    return complete


def check(arguments: list[str]) -> int:
    command, settings = parser(), load_settings(Path.cwd())
    complete = take_settings(command, settings)
    options, target = command.split(arguments)
    complete(options)
    if not target:
        raise Misuse("Which script? Nothing was run: type `trueloop check train.py`, with options before it.")
    refuse_conflicts(options)
    _refuse_try(options)
    set_base_folder(os.getcwd())
    # misspelled rules and damaged files are refused before torch is imported
    rules = chosen_rules(settings, options.select, options.ignore)
    baseline = baseline_of(options)
    delivery = Delivery(options, text_to=sys.stderr)
    skipped = None if options.changed is None else _unchanged(target, options.changed)
    if skipped is None:
        _run(options, target, settings, delivery, baseline, {rule.code for rule in rules})
    delivery.deliver(skipped, healthy=True)
    return ExitCode.CLEAN


def _unchanged(target: list[str], ref: str) -> Verdict | None:
    from trueloop.cli.changed import unchanged  # only here: it asks git

    return unchanged(target, ref, lambda words: program_of(words).path)


def _run(
    options: argparse.Namespace,
    target: list[str],
    settings: Settings,
    delivery: Delivery,
    baseline: Baseline,
    codes: set[str],
) -> NoReturn:
    from trueloop.doctor.examine import examine
    from trueloop.doctor.traceback import exit_process, register_exit_handler, show
    from trueloop.doctor.watch import Watch

    program = program_of(target)
    writer = writer_of(options, program.shown, codes)
    run = _open_run(options, program, settings)
    if options.try_fixes and program.notebook is not None:
        raise Misuse("--try needs a script, and fixes of a notebook cannot be applied. Nothing was run: drop --try.")
    watch = Watch(
        select=tuple(options.select),
        ignore=tuple(options.ignore),
        budget=options.budget,
        last_step=options.steps,
        record=options.record,
        settings=settings,
        script=program.shown,
        on_error=_error_printer(delivery, options.fail_fast, baseline),
        hang_after=options.hang_after,
        on_hang=_hang_reporter(delivery, options, run, baseline),
        run=run,
    )
    delivery.take_stdout()
    register_exit_handler()
    with _fixes(program, target, options) as tried:
        with nullcontext() if run is None else run.console():
            verdict, error = examine(program, watch)
            if error is not None:
                show(error)
        everything = verdict if run is None else replace(verdict, run_folder=run.shown)
        verdict = baseline.without_known(everything)
        if tried is not None and not delivery.in_terminal:
            verdict = replace(verdict, notes=(*verdict.notes, *tried(verdict)))
        if not verdict.reported_elsewhere:
            deliver_verdict(delivery, verdict)
        if tried is not None and delivery.in_terminal:
            print(*tried(verdict), sep="\n", file=sys.stderr)
        if writer is not None and not verdict.reported_elsewhere:
            print(f"trueloop: {writer.write(everything)}.", file=sys.stderr)
        verdict = _add_allow(verdict) if options.add_allow else verdict
        _conclude(run, verdict, options)
    exit_process(error, verdict.exit_code(fail_on(options)))


def _add_allow(verdict: Verdict) -> Verdict:
    """Writes allow comments at the findings, and shows the diff; the findings that are left may still fail."""
    from trueloop.usercode.add_allow import with_comments
    from trueloop.usercode.rewrite_file import rewrite_file
    from trueloop.usercode.source import shown_path, unified

    files, left = with_comments(verdict.findings)
    for path, (before, after) in files.items():
        if why := rewrite_file(path, before, after):
            raise CannotSave(f"{shown_path(path)} could not be written ({why}): its findings are not allowed.")
        print(unified(path, before, after), end="", file=sys.stderr)
    allowed = len(verdict.findings) - len(left)
    rest = f"; {counted(len(left), 'finding')} without a line of yours" if left else ""
    print(f"trueloop: {counted(allowed, 'finding')} allowed by comments{rest}.", file=sys.stderr)
    return replace(verdict, findings=tuple(left), allowed=verdict.allowed + allowed)


def baseline_of(options: argparse.Namespace) -> Baseline:
    return NO_BASELINE if options.baseline is None else read_baseline(options.baseline)


def writer_of(options: argparse.Namespace, script: str, codes: set[str]) -> BaselineWriter | None:
    """`codes`: of the rules that are checked."""
    return None if options.write_baseline is None else BaselineWriter(options.write_baseline, script, codes)


def fail_on(options: argparse.Namespace) -> Severity | None:
    """From which severity on a finding fails the command; None: never."""
    severity: Severity | None = None if options.write_baseline is not None else options.fail_on
    return severity


def _open_run(options: argparse.Namespace, program: Program, settings: Settings) -> CheckRun | None:
    """The run folder, made by the first rank; None where none is kept, and one sentence if it cannot be made."""
    named = options.name is not None
    if options.no_run and (named or options.runs is not None):
        raise Misuse("--no-run keeps no run folder: drop it, or drop --name and --runs. Nothing was run.")
    if named and (Path(options.name).name != options.name or options.name.startswith(".")):
        raise Misuse(f"--name cannot be {options.name!r}: a folder gets this name. Nothing was run.")
    folder = settings.runs if options.runs is None else str(options.runs)
    if options.no_run or folder is None or os.environ.get("RANK", "0") != "0":
        return None
    from trueloop.session.check_run import CheckRun, name_of_script, say

    name = options.name or name_of_script(program.shown)
    run, why = CheckRun.create(Path(folder), name, program.shown, program.arguments, named=named)
    if why:
        say(why)
    return run


def _conclude(run: CheckRun | None, verdict: Verdict, options: argparse.Namespace) -> None:
    if run is None:
        return
    from trueloop.session.check_run import say

    run.conclude(verdict, verdict.exit_code(fail_on(options)))
    if failure := run.failure():
        say(failure)


def _refuse_try(options: argparse.Namespace) -> None:
    if options.seeds is not None and not options.try_fixes:
        raise Misuse("--seeds needs --try. Nothing was run: add --try, or drop it.")
    if options.try_fixes and options.diff:
        raise Misuse("--diff prints a patch, --try reports what it does: choose one. Nothing was run.")
    if options.add_allow and (options.diff or options.write_baseline is not None):
        raise Misuse("--add-allow accepts findings by comments: drop --diff and --write-baseline. Nothing was run.")
    if options.add_allow and "RANK" in os.environ:
        raise Misuse("--add-allow runs a script in one process. Nothing was run: start it without torchrun.")
    if options.try_fixes and "RANK" in os.environ:
        raise Misuse("--try runs a script in one process. Nothing was run: drop --try, or start it without torchrun.")


@contextmanager
def _fixes(
    program: Program, target: list[str], options: argparse.Namespace
) -> Iterator[Callable[[Verdict], list[str]] | None]:
    """Tries the fixes of a verdict; None without --try. The folder is copied before the script runs."""
    if not options.try_fixes:
        yield None
        return
    from trueloop.experiment.fixes import try_fixes
    from trueloop.experiment.folder_copy import snapshot

    with snapshot(Path(program.path)) as taken:
        yield lambda verdict: try_fixes(verdict, taken, target, options.seeds or 1, options.steps, quiet=options.quiet)


def deliver_verdict(delivery: Delivery, verdict: Verdict) -> None:
    """Besides the report: what --diff leaves out, and where trueloop itself failed, on stderr."""
    healthy = not (verdict.findings or verdict.failures or verdict.notes or verdict.outcome.exit_code)
    delivery.deliver(verdict, healthy=healthy)
    if delivery.format == "diff" and not delivery.to_file:
        from trueloop.report.patch import remark

        print(f"trueloop: {remark(verdict)}.", file=sys.stderr)
    if verdict.failures and not delivery.in_terminal:
        print(verdict.broken(), *verdict.failures, sep="\n", file=sys.stderr)


def program_of(target: list[str], verb: str = "check") -> Program:
    """What was named, found; nothing of it has run."""
    from trueloop.doctor.launch import find_module, find_script

    if not target[0].startswith("-m"):
        return find_script(target[0], target[1:])
    words = target[1:] if target[0] == "-m" else [target[0][2:], *target[1:]]
    if not words:
        raise Misuse(f"-m needs the name of a module. Nothing was run: type `trueloop {verb} -m mypackage.train`.")
    return find_module(words[0], words[1:])


def _error_printer(delivery: Delivery, fail_fast: bool, baseline: Baseline) -> Callable[[Finding], bool]:
    """Announces the first error while the run continues: the report may be hours away. True ends the run."""
    from trueloop.doctor.ranks import is_first
    from trueloop.report.evidence import where
    from trueloop.rules.catalogue import find_rule

    announced = not delivery.in_terminal or delivery.quiet or not is_first()

    def announce(finding: Finding) -> bool:
        nonlocal announced
        if baseline.may_know(finding):
            return False
        # A finding that another rule may explain is not announced: the report may name the cause instead.
        if not announced and not find_rule(finding.code).explained_by:
            announced = True
            place = f" at {where(finding.place)}" if finding.place else ""
            line = f"trueloop: {finding.code} {finding.name}{place}, step {finding.first_step:,}"
            print(f"{line}; the report follows at the end", file=sys.stderr)
        return fail_fast

    return announce


def _hang_reporter(
    delivery: Delivery, options: argparse.Namespace, run: CheckRun | None, baseline: Baseline
) -> Callable[[Verdict], NoReturn]:
    """Delivers the report when the ranks hang, and ends this process: its main thread is blocked in a collective."""
    from trueloop.doctor.ranks import mark_reported

    def end(verdict: Verdict) -> NoReturn:
        verdict = baseline.without_known(verdict)
        if not verdict.reported_elsewhere:
            deliver_verdict(delivery, verdict)
            mark_reported()
        _conclude(run, verdict, options)
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(verdict.exit_code(fail_on(options)))

    return end


def _rules(text: str) -> list[str]:
    words = [word.strip() for word in text.split(",")]
    if not all(words):
        raise argparse.ArgumentTypeError(f"cannot be {text!r}: expected codes or names with commas, as in GRD,LOS101")
    return words
