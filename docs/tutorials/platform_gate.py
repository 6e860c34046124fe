"""The platform team's gate. `make tutorials` runs this and writes platform_gate.md."""

from tests.site.tutorial import Tutorial

tutorial = Tutorial("The platform team's gate")

tutorial.say("""
Many people submit training jobs to one cluster, and a job with a silent bug costs as much as a correct one. Therefore
each job first runs a few steps under `trueloop check`, and the exit code decides whether it is accepted.
""")

tutorial.file(
    "job.py",
    """
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
x = torch.randn(2000, 20)
y = (x @ torch.randn(20, 1) + 0.1 * torch.randn(2000, 1)).squeeze(1)
loader = DataLoader(TensorDataset(x, y), batch_size=50, shuffle=True)

model = nn.Sequential(nn.Linear(20, 64), nn.ReLU(), nn.Linear(64, 1))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
history = []
for epoch in range(100):
    for inputs, target in loader:
        loss = nn.functional.mse_loss(model(inputs).squeeze(1), target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        history.append(loss)
print(f"final loss {loss.item():.4f}")
""",
)

tutorial.say("""
## The exit code

`--steps 100` ends the run after 100 optimizer steps. `--no-run` keeps no run folder.
""")

tutorial.run("trueloop check --no-run --steps 100 job.py; echo exit code $?", shows=["GRD110", "exit code 0"])

tutorial.say("""
There is a warning, but the exit code is 0: by default only errors fail. A gate can be stricter.
""")

tutorial.run(
    "trueloop check --no-run --quiet --steps 100 --fail-on warning job.py; echo exit code $?",
    shows=["GRD110", "exit code 1"],
)

tutorial.say("""
`--fail-on advice` is even stricter; `--fail-on never` only reports. A wrong command ends with exit code 4, and nothing
is run. [All exit codes](../exit-codes.md).
""")

tutorial.run("trueloop check --fail-on warnings job.py; echo exit code $?", shows=["exit code 4"])

tutorial.say("""
## Reports for programs

`--output` writes the report to files: JSON for your own programs, SARIF for the code host. The JSON report has one
entry for each finding, with its file and line, the measured numbers and the fix.
""")

tutorial.run("trueloop check --no-run --steps 100 --output gate.json job.py")
tutorial.run("trueloop check --no-run --steps 100 --format sarif --output gate.sarif job.py")

tutorial.file(
    "read_gate.py",
    """
import json

report = json.load(open("gate.json"))
for finding in report["findings"]:
    print(finding["severity"], finding["code"], finding["name"], f"{finding['path']}:{finding['line']}")

sarif = json.load(open("gate.sarif"))
for result in sarif["runs"][0]["results"]:
    where = result["locations"][0]["physicalLocation"]
    print(result["level"], result["ruleId"], where["artifactLocation"]["uri"], where["region"]["startLine"])
""",
)

tutorial.run("python read_gate.py", shows=["GRD110", "job.py"])

tutorial.say("""
On GitHub, `--format github` prints annotations that appear on the lines of the pull request:
""")

tutorial.run("trueloop check --no-run --steps 100 --format github job.py", shows=["::warning"])

tutorial.say("""
## Accepted findings and team settings

If a script keeps its losses on purpose, a comment on the line accepts the finding. The comment is reviewed like any
other code.
""")

tutorial.run(
    "sed -i 's/history.append(loss)/history.append(loss)  # trueloop: allow[graph-never-freed]/' job.py",
)
tutorial.run(
    "trueloop check --no-run --quiet --steps 100 --fail-on warning job.py; echo exit code $?", shows=["exit code 0"]
)

tutorial.say("""
Settings for all jobs are in `pyproject.toml`: rules that are off, and rules that are errors in this repository.
""")

tutorial.file(
    "pyproject.toml",
    """
[tool.trueloop]
ignore = ["SPD"]
severity = { "graph-never-freed" = "error" }
runs = false
""",
)

tutorial.run("sed -i 's/  # trueloop: allow.*//' job.py")
tutorial.run("trueloop check --quiet --steps 100 job.py; echo exit code $?", shows=["error GRD110", "exit code 1"])

tutorial.say("""
The page [In CI](../ci.md) has the complete gate as a workflow.
""")
