"""One call of an operation beside its reference."""

from trueloop.op_claims.difference import Difference, difference
from trueloop.op_claims.op_subject import NotTaken, OpSubject
from trueloop.op_claims.sample import Sample

__all__ = ["compared_at_edge"]


def compared_at_edge(subject: OpSubject, sample: Sample) -> Difference | None:
    """At the edge of what it takes, it may refuse by an error of its own; any other error is a difference."""
    expected = subject.results(sample.copied(), subject.reference)
    try:
        got = subject.results(sample.copied())
    except NotTaken as error:
        if error.refused:
            raise
        return Difference(f"it raises {error}")
    return difference(got, expected, subject.truth(sample.copied()), edges=True)
