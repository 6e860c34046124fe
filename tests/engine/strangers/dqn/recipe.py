import copy

import torch
import trueloop
from trueloop import Recipe, Splits

import job


class Replay(trueloop.Stream):
    def __init__(self):
        self.places, self.buffer = torch.zeros(job.ENVS, dtype=torch.long), torch.zeros(0, 5)

    def next(self, loop):
        rows, self.places = job.act(loop.models["q"], self.places, loop.step)
        self.buffer = torch.cat([self.buffer, rows])[-job.CAPACITY :]
        return {"rows": job.sample(self.buffer, loop.step)}

    def state_dict(self):
        return {"places": self.places, "buffer": self.buffer}

    def load_state_dict(self, state):
        self.places, self.buffer = state["places"], state["buffer"]


def models():
    q = job.network()
    return {"q": q, "target": copy.deepcopy(q).requires_grad_(False)}


def step(loop, batch):
    if loop.step % 10 == 0:
        loop.models["target"].load_state_dict(loop.models["q"].state_dict())
    loss = job.loss(loop.models["q"], loop.models["target"], batch["rows"])
    loop.update(loss, "optimizer")
    return loss


recipe = Recipe(
    name="dqn", model=models, data=lambda request: Splits(Replay()), step=step, evaluate=lambda models: {"reward": job.reward(models["q"])}, metric="reward",
    optimizer="adam", lr=1e-2, steps=60, evaluate_every=10, device="cpu", log_every=1, save_every=5, trackers=(),
)
