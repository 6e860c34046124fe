from job import Net, parts, splits, weight
from trueloop import Recipe


def loss(output, batch, state):
    label, value = parts(output, batch.targets)
    return label + weight(state.epoch) * value, {"label": label, "value": value, "weight": weight(state.epoch)}


recipe = Recipe(
    name="multitask", model=Net, data=lambda request: splits(), loss=loss,
    metrics={"accuracy": lambda output, targets: (output["label"].argmax(1) == targets["label"]).float()}, metric="accuracy",
    epochs=5, batch=32, lr=1e-2, order="sequential", save_every=5, log_every=1, trackers=(), device="cpu",
)
