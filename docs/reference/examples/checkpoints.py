import torch

from trueloop import Checkpoints

model = torch.nn.Linear(2, 1)
checkpoints = Checkpoints("checkpoints", keep=2, model=model)
checkpoints.save(step=10)
with torch.no_grad():
    model.weight.zero_()
assert checkpoints.resume() == 10  # the newest valid one
assert model.weight.any()
