import torch
import trueloop
from trueloop import Recipe, Splits

import job


class Rollouts(trueloop.Stream):
    def __init__(self):
        self.places = torch.zeros(job.ENVS, dtype=torch.long)

    def next(self, loop):
        batch, self.places = job.rollout(loop.model, self.places, loop.step)
        return batch

    def state_dict(self):
        return {"places": self.places}

    def load_state_dict(self, state):
        self.places = state["places"]


def step(loop, batch):
    loss = job.loss(loop.model, batch)
    loop.update(loss, "optimizer")
    return loss


recipe = Recipe(
    name="actor_critic", model=job.Policy, data=lambda request: Splits(Rollouts()), step=step,
    evaluate=lambda model: {"reward": job.reward(model)}, metric="reward", optimizer="adam", lr=1e-2, steps=50, evaluate_every=10,
    device="cpu", log_every=1, save_every=5, trackers=(),
)
