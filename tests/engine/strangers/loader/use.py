import torch
from job import collate, loaders, rows

import trueloop

loaded = trueloop.load("loader", device="cpu")
inputs, targets = collate(rows[240:])
scores = loaded.predict(inputs)
print("own accuracy", (scores.argmax(1) == targets).float().mean().item())
print("evaluate", loaded.evaluate())
print("evaluate valid", loaded.evaluate("valid"))
print("evaluate train", loaded.evaluate("train"))
print("predict a loader", torch.equal(loaded.predict(loaders()[1]), scores))
print("evaluate a loader", loaded.evaluate(loaders()[1]))
print("evaluate a list of (inputs, target)", loaded.evaluate(list(zip(inputs, targets))))
print("loss by hand", torch.nn.functional.cross_entropy(scores, targets).item())
print("last", trueloop.load("loader", checkpoint="last", device="cpu").evaluate("valid"))
