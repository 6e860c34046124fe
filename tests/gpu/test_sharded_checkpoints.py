"""On a real CUDA device: weights in parts are copied while the training goes on, written in pieces, and read back to
the same bits."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(
        not torch.cuda.is_available(), reason="needs a CUDA device: run `make gpu-test` on a machine that has one"
    ),
]

SCRIPT = """\
import json, sys
from pathlib import Path
import torch
import torch.distributed as dist
from torch import nn
from torch._C._distributed_c10d import FileStore
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from trueloop.checkpoint.contents import read_contents
from trueloop.checkpoint.plan import name_of
from trueloop.checkpoint.saver import Saver
from trueloop.checkpoint.sharded_contents import ShardedLayout
from trueloop.checkpoint.store import Folder
from trueloop.parallel.peers import find_peers

folder = Path(sys.argv[1])
torch.cuda.set_device(0)
torch.use_deterministic_algorithms(True)
dist.init_process_group("nccl", store=FileStore(str(folder / "meeting"), 1), rank=0, world_size=1)
device = torch.device("cuda", 0)

def made():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 3)).to(device)
    mesh = init_device_mesh("cuda", (1,))
    fully_shard(model[0], mesh=mesh)
    fully_shard(model, mesh=mesh)
    return model, torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)

def losses(model, optimizer, steps, seed):
    draws, told = torch.Generator(device).manual_seed(seed), []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = model(torch.randn(32, 64, generator=draws, device=device)).square().mean()
        loss.backward()
        optimizer.step()
        told.append(loss.detach())
    return [loss.item() for loss in told]

form, store = ShardedLayout(find_peers(device)), Folder(folder / "checkpoints")
model, optimizer = made()
losses(model, optimizer, 5, 1)
saver = Saver(store, 2, any_failed=form.any_failed)
saver.save(form.snapshot({"step": 5, "best_step": None}, {"model": model}, optimizer, {"state": {"step": 5}}))
after = losses(model, optimizer, 5, 2)
saver.finish()
again, other = made()
reading = form.read(store, name_of(5))
reading.fill_model("model", again)
reading.fill_optimizer(other)
whole = read_contents(store, name_of(5))
on_device = all(value.device.type == "cuda" for state in other.state.values() for value in state.values())
shape = list(whole.weights["model"]["0.weight"].shape)
print(json.dumps({"after": after, "again": losses(again, other, 5, 2), "on_device": on_device, "shape": shape}))
dist.destroy_process_group()
"""


def test_weights_in_parts_on_the_device_come_back_to_the_same_bits(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT, encoding="utf-8")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "CUBLAS_WORKSPACE_CONFIG": ":4096:8"}
    done = subprocess.run(
        [sys.executable, str(script), str(tmp_path)], capture_output=True, text=True, env=environment, timeout=300
    )
    assert done.returncode == 0, done.stderr[-3000:]
    told = json.loads(done.stdout.strip().splitlines()[-1])
    assert told["again"] == told["after"]
    assert told["on_device"], "a fused optimizer wants its state where its weights are"
    assert told["shape"] == [256, 64]
