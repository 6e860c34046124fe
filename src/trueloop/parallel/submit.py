"""A launch as a file to submit: for Slurm, Kubernetes, SkyPilot or torchrun. FILL_IN marks what to fill in."""

import json
import re
import shlex
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, final

from trueloop.errors import Misuse, did_you_mean
from trueloop.parallel.launch import NPROC_WORDS

__all__ = ["TARGETS", "Job", "written_for"]

PORT: Final = 29500  # torch's default port: a file must name one before a free one can be searched
LONGEST_NAME: Final = 40  # Kubernetes allows 63 characters, and adds the number of the pod and its own letters


@final
@dataclass(frozen=True, slots=True)
class Job:
    """What runs elsewhere. How many GPUs there are is unknown here."""

    command: tuple[str, ...]
    nproc: str
    nnodes: int = 1
    restarts: int = 0

    def __post_init__(self) -> None:
        if self.nproc not in NPROC_WORDS and not (self.nproc.isdecimal() and int(self.nproc)):
            known = ", ".join(NPROC_WORDS)
            raise Misuse(f"--nproc {self.nproc!r} is not 1 or more, or one of {known}. Nothing was written.")
        if self.nnodes < 1 or self.restarts < 0:
            raise Misuse("--nnodes is at least 1, and --restarts at least 0. Nothing was written.")

    @property
    def program(self) -> str:
        """What follows `trueloop launch ... --`."""
        return shlex.join(self.command[2:] if self.command[:2] == ("-m", "trueloop") else self.command)

    @property
    def name(self) -> str:
        """Small letters, digits and dashes: what Kubernetes takes."""
        words = [word for word in self.command if word not in ("-m", "trueloop")][:2]
        plain = re.sub(r"[^a-z0-9]+", "-", "-".join(words).lower().removesuffix(".py")).strip("-")
        return f"trueloop-{plain}"[:LONGEST_NAME].rstrip("-")

    @property
    def gpus(self) -> str | None:
        """On each node. None: it runs on CPUs."""
        if self.nproc == "cpu":
            return None
        return self.nproc if self.nproc.isdecimal() else "FILL_IN"

    def how_to_submit(self, target: str, file: str) -> str:
        todo = {"slurm": f"sbatch {file}", "kubernetes": f"kubectl apply -f {file}", "torchrun": f"bash {file}",
                "skypilot": f"sky jobs launch {file}"}[target]  # fmt: skip
        return f"Look for FILL_IN, then: {todo}"


def written_for(target: str, job: Job) -> str:
    if target not in TARGETS:
        known = ", ".join(TARGETS)
        hint = did_you_mean(target, TARGETS)
        raise Misuse(f"Unknown target --print {target}.{hint} Nothing was written. Known: {known}.")
    return TARGETS[target](job)


def _launch(job: Job, node: str, rendezvous: str) -> str:
    many = f" --nnodes {job.nnodes} --node-rank {node} --rendezvous {rendezvous}" if job.nnodes > 1 else ""
    restarts = f" --restarts {job.restarts}" if job.restarts else ""
    return f"trueloop launch{many} --nproc {job.nproc}{restarts} -- {job.program}"


def _slurm(job: Job) -> str:
    gpus = f"#SBATCH --gpus-per-node={job.gpus}" if job.gpus else "# (no GPUs: --nproc cpu)"
    if job.gpus == "FILL_IN":
        gpus = "##SBATCH --gpus-per-node=FILL_IN            # GPUs of a node; remove one # to ask for them"
    each = "exec " + _launch(job, '"$SLURM_NODEID"', '"$RENDEZVOUS"')
    return f"""\
#!/bin/bash
# {job.program} on {job.nnodes} node(s). Look for FILL_IN, then: sbatch THIS_FILE
# A line that begins with ##SBATCH is not read by Slurm: remove one # where your cluster needs it.
#SBATCH --job-name={job.name}
#SBATCH --nodes={job.nnodes}
#SBATCH --ntasks-per-node=1                   # one launcher a node; it starts the processes
{gpus}
##SBATCH --cpus-per-task=FILL_IN              # cores of a node: all processes of the node share them
##SBATCH --partition=FILL_IN
##SBATCH --account=FILL_IN
#SBATCH --time=24:00:00                       # FILL_IN: how long it may take
#SBATCH --signal=TERM@120                     # SIGTERM two minutes before the limit: saves, exits with 143
#SBATCH --requeue                             # after a node failure the job restarts and resumes the same run
#SBATCH --output=%x-%j.log

set -euo pipefail

# FILL_IN: make `trueloop` known on every node, as in
# source /shared/venv/bin/activate
# The folder must be one that all nodes see: checkpoints are written by the first process and read by all.
cd "${{SLURM_SUBMIT_DIR:-.}}"

# Names the launch: a requeued job has the same ID, so `train` resumes its run instead of starting a new one.
export TRUELOOP_LAUNCH="slurm-${{SLURM_JOB_ID}}"
mapfile -t nodes < <(scontrol show hostnames "$SLURM_JOB_NODELIST")
export RENDEZVOUS="${{nodes[0]}}:$((20000 + SLURM_JOB_ID % 40000))"

srun --kill-on-bad-exit=1 bash -c {shlex.quote(each)}
"""


def _service(job: Job) -> str:
    return f"""\
# {job.program} on {job.nnodes} pod(s). Look for FILL_IN, then: kubectl apply -f THIS_FILE
# A headless service gives each pod of the job a name; they meet at the first one.
apiVersion: v1
kind: Service
metadata:
  name: {job.name}
spec:
  clusterIP: None
  publishNotReadyAddresses: true  # they must find one another before any of them is ready
  selector:
    job-name: {job.name}  # Kubernetes gives this label to the pods of a job
  ports:
    - name: rendezvous
      port: {PORT}
---
"""


def _kubernetes(job: Job) -> str:
    name = job.name
    command = json.dumps("exec " + _launch(job, '"$JOB_COMPLETION_INDEX"', f"{name}-0.{name}:{PORT}"))
    limits = f"nvidia.com/gpu: {job.gpus}" if job.gpus else "cpu: FILL_IN"
    of = "GPUs of a pod" if job.gpus else "cores of a pod"
    return f"""\
{_service(job)}apiVersion: batch/v1
kind: Job
metadata:
  name: {name}
spec:
  completionMode: Indexed  # each pod knows its number
  completions: {job.nnodes}
  parallelism: {job.nnodes}
  backoffLimit: {job.nnodes * job.restarts}  # pods that may fail; a new one resumes the same run
  template:
    spec:
      subdomain: {name}
      restartPolicy: Never
      terminationGracePeriodSeconds: 150  # to save after SIGTERM
      containers:
        - name: train
          image: FILL_IN  # an image with trueloop in it
          workingDir: /shared
          command: ["/bin/sh", "-c"]
          args:
            - {command}
          env:
            - name: TRUELOOP_LAUNCH  # names the launch: a restarted pod resumes its run
              valueFrom:
                fieldRef:
                  fieldPath: metadata.labels['batch.kubernetes.io/controller-uid']
          ports:
            - containerPort: {PORT}
          resources:
            limits:
              {limits}  # {of}
          volumeMounts:
            - name: shared
              mountPath: /shared
            - name: memory
              mountPath: /dev/shm
      volumes:
        - name: shared  # runs and data; all pods must see it
          persistentVolumeClaim:
            claimName: FILL_IN  # a claim that several nodes may write (ReadWriteMany)
        - name: memory  # processes hand batches over in it; the usual 64 MB are few
          emptyDir:
            medium: Memory
"""


def _skypilot(job: Job) -> str:
    resources = "cpus: 8+  # FILL_IN: cores of a node"
    if job.gpus:
        count = "" if job.gpus == "FILL_IN" else f":{job.gpus}"
        resources = f"accelerators: FILL_IN{count}  # such as H100:8"
    launch = _launch(job, '"$SKYPILOT_NODE_RANK"', f'"$first:{PORT}"').replace("\n", "\n  ")
    return f"""\
# {job.program} on {job.nnodes} node(s). Look for FILL_IN, then: sky jobs launch THIS_FILE
name: {job.name}
num_nodes: {job.nnodes}
resources:
  {resources}
  job_recovery:  # lost nodes are always replaced; this counts programs that fail
    max_restarts_on_errors: {job.restarts}
workdir: .  # your code, copied to every node
volumes:
  /shared: FILL_IN  # a volume that all nodes may write (sky volumes apply): checkpoints are read by all processes
setup: |
  pip install trueloop
run: |
  set -euo pipefail
  mkdir -p /shared/runs
  ln -sfnT /shared/runs runs  # fails if your code has a folder `runs`: list it in .skyignore
  # Names the launch: a recovered job keeps its ID, so `train` resumes its run instead of starting a new one.
  export TRUELOOP_LAUNCH="skypilot-$SKYPILOT_TASK_ID"
  first=$(echo "$SKYPILOT_NODE_IPS" | head -n 1)
  exec {launch}
"""


def _torchrun(job: Job) -> str:
    words = [f"--nproc-per-node {job.nproc}", *([f"--max-restarts {job.restarts}"] if job.restarts else [])]
    meeting, fill = "--standalone", ""
    if job.nnodes > 1:
        address = f'--master-addr "$MASTER_ADDR" --master-port "${{MASTER_PORT:-{PORT}}}"'
        meeting = f'--nnodes {job.nnodes} --node-rank "$NODE_RANK" {address}'
        fill = f"""\
# FILL_IN, on every node: its own number, and the address of the first node.
: "${{NODE_RANK:?which node is this? NODE_RANK=0 on the first, up to {job.nnodes - 1}}}"
: "${{MASTER_ADDR:?where is the first node? MASTER_ADDR=its name or address}}"
"""
    return f"""\
#!/bin/bash
# {job.program} under plain torchrun, on {job.nnodes} node(s): bash THIS_FILE, on every node.
set -euo pipefail
{fill}
# FILL_IN if `python` is not the one that has trueloop: PYTHON=/shared/venv/bin/python
PYTHON="${{PYTHON:-python}}"
# Threads of each process: cores of the node / processes is a good number.
export OMP_NUM_THREADS="${{OMP_NUM_THREADS:-1}}"
# Names the launch: with --max-restarts, `train` resumes its run instead of starting a new one.
export TRUELOOP_LAUNCH="${{TRUELOOP_LAUNCH:-torchrun-$(date +%s)-$$}}"

exec "$PYTHON" -m torch.distributed.run {meeting} {" ".join(words)} {shlex.join(job.command)}
"""


TARGETS: Final[dict[str, Callable[[Job], str]]] = {
    "slurm": _slurm,
    "kubernetes": _kubernetes,
    "skypilot": _skypilot,
    "torchrun": _torchrun,
}
