from job import Net, inputs, labels

from trueloop import Hook, Recipe, Splits, Tensors


class Unfreeze(Hook):
    def begin(self, loop):
        loop.model.blocks.requires_grad_(False)

    def epoch_ended(self, loop):
        if loop.epoch <= 3:
            loop.model.blocks[3 - loop.epoch].requires_grad_(True)


class StopWhenFlat(Hook):
    """Ends the run when two evaluations in a row (after step 20) gain less than 1 % of the best loss."""

    def __init__(self):
        self.best, self.flat = float("inf"), 0

    def evaluated(self, loop, values):
        self.flat = 0 if values["loss"] < 0.99 * self.best else self.flat + 1
        self.best = min(self.best, values["loss"])
        if self.flat >= 2 and loop.step > 20:
            loop.end_training("The validation loss is flat.")

    def state_dict(self):
        return {"best": self.best, "flat": self.flat}

    def load_state_dict(self, state):
        self.best, self.flat = state["best"], state["flat"]


recipe = Recipe(
    name="unfreeze", model=Net, data=lambda request: Splits(Tensors(inputs[:240], labels[:240]), Tensors(inputs[240:], labels[240:])),
    hooks=(Unfreeze(), StopWhenFlat()), task="multiclass", optimizer="adam", order="sequential", batch=48, epochs=12, lr=0.02,
    log_every=1, save_every=5, trackers=(), device="cpu",
)
