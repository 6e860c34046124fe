"""`trueloop judge RUN`: judge a recorded run again. No torch is loaded."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from trueloop.cli.deliver import Delivery
from trueloop.cli.options import Parser, add_report_options, report_options
from trueloop.doctor.allow import chosen_rules
from trueloop.doctor.judge_again import judge_again
from trueloop.errors import Misuse
from trueloop.usercode.settings import load_settings
from trueloop.usercode.source import stand_in

__all__ = ["judge"]


def judge(arguments: list[str]) -> int:
    parser = Parser(
        "judge", "[options] RUN", "Judge a run that `trueloop check --record RUN` has recorded, by the rules of today."
    )
    parser.add_argument("run", nargs="?", metavar="RUN", help="the folder that --record was given")
    add_report_options(parser)
    parsed = parser.parse_all(arguments)
    if parsed.run is None:
        raise Misuse(
            "Which run? Nothing was judged: type `trueloop judge RUN`, the folder that `trueloop check --record RUN` wrote."
        )
    options = report_options(parsed)
    stand_in(os.getcwd())
    settings = load_settings(Path.cwd())
    rules = chosen_rules(settings, options.select, options.ignore)
    delivery = Delivery(options, text_to=sys.stdout)
    verdict = judge_again(Path(parsed.run), rules, settings)
    delivery.deliver(verdict)
    return verdict.exit_code(options.fail_on)
