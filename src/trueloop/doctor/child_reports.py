"""The verdicts of the processes that a script started, merged into the one of the script."""

from collections.abc import Sequence
from dataclasses import replace

from trueloop.doctor.children import Child
from trueloop.doctor.cross_rank_rules import CrossRankRules
from trueloop.doctor.ranks import merge_verdicts
from trueloop.finding import Finding
from trueloop.results.check import Verdict, Watched

__all__ = ["merge_children"]


def merge_children(own: Verdict, children: Sequence[Child], failures: Sequence[str], rules: CrossRankRules) -> Verdict:
    """The script's own verdict, with what the processes that trained have found; how it ended stays the script's."""
    own = replace(own, failures=(*own.failures, *(f"in a process of the script:\n{each}" for each in failures)))
    if not children:
        return own
    parts = [own] if own.watched.steps or own.watched.backwards else []
    parts += [child.verdict for child in children if child.group is None]
    parts += [_of_ranks(members, rules) for members in _groups([child for child in children if child.group])]
    merged = parts[0] if len(parts) == 1 else _of_processes(parts)
    crash = own.crash or next((part.crash for part in parts if part.crash is not None), None)
    return replace(
        merged,
        watched=replace(merged.watched, script=own.watched.script),
        outcome=own.outcome,
        crash=crash if own.outcome.exit_code else None,
        failures=merged.failures if parts[0] is own else (*own.failures, *merged.failures),
        facts=own.facts,
    )


# -- ranks of one training --


def _groups(children: Sequence[Child]) -> list[list[Child]]:
    """The members of each process group, by rank. A rank that comes again belongs to another group."""
    groups: dict[object, list[list[Child]]] = {}
    for child in children:
        assert child.group is not None
        rank, *key = child.group
        found = groups.setdefault((child.parent, *key), [])
        place = next((group for group in found if all(other.group[0] != rank for other in group if other.group)), None)
        if place is None:
            found.append([child])
        else:
            place.append(child)
    return [sorted(group, key=_rank) for found in groups.values() for group in found]


def _of_ranks(members: Sequence[Child], rules: CrossRankRules) -> Verdict:
    found = {_rank(child): child.verdict for child in members}
    first = members[0].verdict
    facts = [fact for verdict in found.values() for fact in verdict.facts]
    size = members[0].group[1] if members[0].group else 1
    missing = dict.fromkeys(sorted(set(range(size)) - set(found)), "it ended before its report was written")
    if missing or _mixed(members):
        return merge_verdicts(first, found, missing)
    return merge_verdicts(first, found, {}, rules.check(facts))


def _rank(child: Child) -> int:
    return 0 if child.group is None else child.group[0]


def _mixed(members: Sequence[Child]) -> bool:
    """May these be of several groups? Those of one group run at the same time."""
    return max(child.began for child in members) > min(child.ended for child in members)


# -- trainings of their own --


def _of_processes(parts: Sequence[Verdict]) -> Verdict:
    """Trainings that have nothing to do with each other: their findings, and the sum of what was watched."""
    findings: dict[object, Finding] = {}
    for part in parts:
        for finding in part.findings:
            cause = (finding.code, finding.place and (finding.place.path, finding.place.line))
            known = findings.get(cause)
            findings[cause] = finding if known is None else replace(known, count=known.count + finding.count)
    idle = set.intersection(*({one.code for one in part.not_applicable} for part in parts))
    longest = max(parts, key=lambda part: part.watched.steps)
    unjudged = tuple(one for one in longest.not_applicable if one.code in idle)
    total = longest.watched.rules + len(longest.not_applicable)
    return replace(
        longest,
        findings=tuple(sorted(findings.values(), key=lambda finding: -finding.severity)),
        watched=replace(_sum([part.watched for part in parts], longest.watched), rules=total - len(unjudged)),
        not_applicable=unjudged,
        allowed=sum(part.allowed for part in parts),
        failures=tuple(failure for part in parts for failure in part.failures),
        notes=tuple(dict.fromkeys(note for part in parts for note in part.notes)),
        facts=(),
    )


def _sum(each: Sequence[Watched], longest: Watched) -> Watched:
    return replace(
        longest,
        steps=sum(one.steps for one in each),
        backwards=sum(one.backwards for one in each),
        batches=sum(one.batches for one in each),
        epochs=sum(one.epochs for one in each),
        models=tuple(dict.fromkeys(name for one in each for name in one.models)),
        optimizers=tuple(dict.fromkeys(name for one in each for name in one.optimizers)),
        unwatched_steps=sum(one.unwatched_steps for one in each),
    )
