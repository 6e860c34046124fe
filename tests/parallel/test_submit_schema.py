"""Files to submit by a schema: ours, of the fields that we write, always; the published one of Kubernetes, where a
checkout of it is at hand (`make reports MIRROR=folder`), and SkyPilot's own reader, in its own environment. Slurm
publishes none: its options are listed here."""

from __future__ import annotations

import json
import os
import re
import subprocess
from copy import deepcopy
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from tests.ecosystem.checkout import NotMirrored, check_out
from trueloop.parallel.submit import Job, written_for

JOBS = [
    Job(("-m", "trueloop", "train", "digits"), "gpu"),
    Job(("-m", "trueloop", "train", "my file.py", "--set", "lr=1"), "8", nnodes=4, restarts=3),
    Job(("script.py", "--words", 'a "b" $c'), "cpu", nnodes=2),
]
PUBLISHED = {
    "Service": ("api/openapi-spec/v3/api__v1_openapi.json", "io.k8s.api.core.v1.Service"),
    "Job": ("api/openapi-spec/v3/apis__batch__v1_openapi.json", "io.k8s.api.batch.v1.Job"),
}
NAME = {"type": "string", "pattern": "^[a-z]([-a-z0-9]{0,61}[a-z0-9])?$"}
COUNT = {"type": "integer", "minimum": 1}
QUANTITY = {"type": ["integer", "string"]}
TEXT = {"type": "string", "minLength": 1}


def exactly(**fields: Any) -> dict[str, Any]:
    """An object with these fields, all of them, and no other."""
    return {"type": "object", "properties": fields, "required": list(fields), "additionalProperties": False}


def each(item: dict[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": item, "minItems": 1}


VARIABLE = exactly(name=TEXT, valueFrom=exactly(fieldRef=exactly(fieldPath=TEXT)))
CONTAINER = exactly(
    name=NAME,
    image=TEXT,
    workingDir=TEXT,
    command=each(TEXT),
    args=each(TEXT),
    env=each(VARIABLE),
    ports=each(exactly(containerPort=COUNT)),
    resources=exactly(limits={"type": "object", "additionalProperties": QUANTITY, "minProperties": 1}),
    volumeMounts=each(exactly(name=NAME, mountPath=TEXT)),
)
VOLUME = {
    "oneOf": [
        exactly(name=NAME, persistentVolumeClaim=exactly(claimName=TEXT)),
        exactly(name=NAME, emptyDir=exactly(medium={"const": "Memory"})),
    ]
}
POD = exactly(
    subdomain=NAME,
    restartPolicy={"enum": ["Never", "OnFailure"]},
    terminationGracePeriodSeconds=COUNT,
    containers=each(CONTAINER),
    volumes=each(VOLUME),
)
WORK = exactly(
    completionMode={"const": "Indexed"},
    completions=COUNT,
    parallelism=COUNT,
    backoffLimit={"type": "integer", "minimum": 0},
    template=exactly(spec=POD),
)
MEETING = exactly(
    clusterIP={"const": "None"},
    publishNotReadyAddresses={"type": "boolean"},
    selector={"type": "object", "additionalProperties": TEXT},
    ports=each(exactly(name=NAME, port=COUNT)),
)
OURS = {
    "Job": exactly(apiVersion={"const": "batch/v1"}, kind=TEXT, metadata=exactly(name=NAME), spec=WORK),
    "Service": exactly(apiVersion={"const": "v1"}, kind=TEXT, metadata=exactly(name=NAME), spec=MEETING),
}


def documents(job: Job) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all(written_for("kubernetes", job)))


@pytest.mark.parametrize("job", JOBS, ids=lambda job: job.name)
def test_every_field_is_one_that_we_know_with_the_right_type(job: Job) -> None:
    made = documents(job)
    assert [each["kind"] for each in made] == ["Service", "Job"]
    for document in made:
        jsonschema.validate(document, OURS[document["kind"]])


def test_the_schema_sees_a_misspelled_field_and_a_wrong_type() -> None:
    work = documents(JOBS[1])[1]
    misspelled, text = deepcopy(work), deepcopy(work)
    misspelled["spec"]["backOffLimit"] = misspelled["spec"].pop("backoffLimit")
    text["spec"]["completions"] = "4"
    for wrong in (misspelled, text):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(wrong, OURS["Job"])


# -- Slurm --

SBATCH = {
    "job-name": r"[a-z0-9-]+",
    "nodes": r"[1-9]\d*",
    "ntasks-per-node": r"[1-9]\d*",
    "gpus-per-node": r"[1-9]\d*",
    "cpus-per-task": r"[1-9]\d*",
    "partition": r"\w+",
    "account": r"\w+",
    "time": r"\d+:\d\d:\d\d",
    "signal": r"(B:)?[A-Z0-9]+@\d+",
    "requeue": "",
    "output": r"[\w%./-]+",
}
"""Options of sbatch that we write -> their values."""


@pytest.mark.parametrize("job", JOBS, ids=lambda job: job.name)
def test_every_directive_is_an_option_of_sbatch_with_a_value_that_it_takes(job: Job) -> None:
    lines = written_for("slurm", job).splitlines()
    directives = [line for line in lines if re.match("#{1,2}SBATCH ", line)]
    assert len(directives) >= 10
    for line in directives:
        option, _, value = line.partition(" --")[2].split()[0].partition("=")
        assert option in SBATCH, line
        later = line.startswith("##") and value == "FILL_IN"
        assert later or re.fullmatch(SBATCH[option], value), line
    first_command = next(number for number, line in enumerate(lines) if line and not line.startswith("#"))
    assert all(lines.index(line) < first_command for line in directives), "sbatch reads none after the first command"


# -- SkyPilot --

TASK = exactly(
    name=NAME,
    num_nodes=COUNT,
    resources={"anyOf": [exactly(cpus=TEXT, job_recovery={}), exactly(accelerators=TEXT, job_recovery={})]},
    workdir=TEXT,
    volumes={"type": "object", "additionalProperties": TEXT, "minProperties": 1},
    setup=TEXT,
    run=TEXT,
)
SKYPILOT = Path(__file__).parent.parent.parent / ".venv-skypilot" / "bin" / "python"
READS = """
import sys, sky
task = sky.Task.from_yaml(sys.argv[1])
print(task.name, task.num_nodes, len(task.resources))
"""


@pytest.mark.parametrize("job", JOBS, ids=lambda job: job.name)
def test_a_task_of_skypilot_has_fields_that_we_know(job: Job) -> None:
    task = yaml.safe_load(written_for("skypilot", job))
    jsonschema.validate(task, TASK)
    assert task["resources"]["job_recovery"] == {"max_restarts_on_errors": job.restarts}


@pytest.mark.parametrize("job", JOBS, ids=lambda job: job.name)
def test_skypilot_starts_one_launcher_a_node_with_the_words_as_they_were(job: Job, tmp_path: Path) -> None:
    """Its `run` is executed, with a launcher that prints its words."""
    (tmp_path / "trueloop").write_text("#!/bin/bash\nreadlink runs; printf '%s\\n' \"$@\"\n", encoding="utf-8")
    (tmp_path / "trueloop").chmod(0o755)
    environment = {
        "PATH": f"{tmp_path}:/usr/bin:/bin",
        "SKYPILOT_NODE_RANK": "1",
        "SKYPILOT_TASK_ID": "sky-1",
        "SKYPILOT_NODE_IPS": "10.0.0.1\n10.0.0.2",
    }
    script = yaml.safe_load(written_for("skypilot", job))["run"].replace("/shared", str(tmp_path / "shared"))
    done = subprocess.run(
        ["bash"], input=script, env=environment, cwd=tmp_path, text=True, capture_output=True, check=True, timeout=60
    )
    folder, *words = done.stdout.splitlines()
    assert folder == str(tmp_path / "shared" / "runs")
    assert words[words.index("--") + 1 :] == list(job.command[2:] if job.command[0] == "-m" else job.command)
    if job.nnodes > 1:
        assert words[words.index("--node-rank") + 1] == "1"
        assert words[words.index("--rendezvous") + 1] == "10.0.0.1:29500"


@pytest.mark.long
@pytest.mark.parametrize("job", JOBS, ids=lambda job: job.name)
def test_skypilot_reads_the_task(job: Job, tmp_path: Path) -> None:
    if not SKYPILOT.is_file():
        pytest.skip("SkyPilot is not installed: `make reports`")
    (tmp_path / "task.yaml").write_text(written_for("skypilot", job), encoding="utf-8")
    environment = {**os.environ, "HOME": str(tmp_path), "SKYPILOT_DISABLE_USAGE_COLLECTION": "1"}
    environment.pop("PYTHONPATH", None)
    done = subprocess.run(
        [str(SKYPILOT), "-c", READS, "task.yaml"],
        cwd=tmp_path, env=environment, text=True, capture_output=True, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == [job.name, str(job.nnodes), "1"]


# -- the published schema --


def strict(schema: Any) -> Any:
    """Kubernetes drops unknown fields with a warning; here they are errors."""
    if isinstance(schema, list):
        return [strict(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    closed = {name: strict(value) for name, value in schema.items()}
    if isinstance(schema.get("properties"), dict) and "additionalProperties" not in schema:
        closed["additionalProperties"] = False
    return closed


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    mirror = os.environ.get("TRUELOOP_MIRROR", "")
    if not mirror:
        pytest.skip("no published schema: `make reports MIRROR=folder` reads it from kubernetes/kubernetes")
    into = tmp_path_factory.mktemp("schema")
    found = {}
    for kind, (file, name) in PUBLISHED.items():
        try:
            check_out(Path(mirror), "kubernetes/kubernetes", "HEAD", file, into)
        except NotMirrored as missing:
            pytest.skip(str(missing))
        components = json.loads((into / file).read_text(encoding="utf-8"))["components"]
        found[kind] = {"$ref": f"#/components/schemas/{name}", "components": strict(components)}
    return found


@pytest.mark.long
@pytest.mark.parametrize("job", JOBS, ids=lambda job: job.name)
def test_the_files_keep_to_the_published_schema_of_kubernetes(published: dict[str, Any], job: Job) -> None:
    for document in documents(job):
        jsonschema.validate(document, published[document["kind"]])


@pytest.mark.long
def test_the_published_schema_sees_a_misspelled_field(published: dict[str, Any]) -> None:
    work = documents(JOBS[0])[1]
    work["spec"]["template"]["spec"]["subDomain"] = work["spec"]["template"]["spec"].pop("subdomain")
    with pytest.raises(jsonschema.ValidationError, match="subDomain"):
        jsonschema.validate(work, published["Job"])
