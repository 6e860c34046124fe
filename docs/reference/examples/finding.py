import trueloop
from trueloop import Finding, Severity

with trueloop.watch(run=False) as watched:
    pass  # a training loop

worst: list[Finding] = [finding for finding in watched.findings if finding.severity is Severity.ERROR]
for finding in worst:
    print(finding.code, finding.name, finding.place, finding.message, finding.fix)
assert worst == []
