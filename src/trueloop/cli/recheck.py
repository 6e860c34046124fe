"""`trueloop recheck RUN`: check a recorded run again with today's rules. No torch is imported."""

import os
import sys
from pathlib import Path

from trueloop.cli.check import (
    add_rule_options,
    baseline_of,
    deliver_verdict,
    fail_on,
    refuse_conflicts,
    take_settings,
    writer_of,
)
from trueloop.cli.deliver import Delivery
from trueloop.cli.options import Parser
from trueloop.doctor.allow import chosen_rules
from trueloop.doctor.recheck import check_recorded_run
from trueloop.errors import Misuse
from trueloop.usercode.settings import load_settings
from trueloop.usercode.source import set_base_folder

__all__ = ["parser", "recheck"]


def parser() -> Parser:
    about = "Check a run that `trueloop check --record RUN` recorded again, with today's rules, without the script."
    made = Parser("recheck", "[options] RUN", about)
    made.add_argument("run", nargs="?", metavar="RUN", help="the folder given to --record")
    add_rule_options(made)
    return made


def recheck(arguments: list[str]) -> int:
    command, settings = parser(), load_settings(Path.cwd())
    complete = take_settings(command, settings)
    options = command.parse_all(arguments)
    complete(options)
    if options.run is None:
        raise Misuse("Which run? Nothing was run: type `trueloop recheck RUN`, the folder of `check --record RUN`.")
    refuse_conflicts(options)
    set_base_folder(os.getcwd())
    rules = chosen_rules(settings, options.select, options.ignore)
    delivery = Delivery(options)
    baseline = baseline_of(options)
    everything = check_recorded_run(Path(options.run), rules, settings)
    verdict = baseline.without_known(everything)
    writer = writer_of(options, everything.watched.script, {rule.code for rule in rules})
    deliver_verdict(delivery, verdict)
    if writer is not None:
        print(f"trueloop: {writer.write(everything)}.", file=sys.stderr)
    return verdict.exit_code(fail_on(options))
