import torch
from torch import nn

import trueloop

model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
run: trueloop.Session
with trueloop.session("mine", steps=5, model=model, optimizer=optimizer, trackers=(), hooks=()) as run:
    for _ in run.steps():
        loss = model(torch.randn(8, 4)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        run.log(loss=loss)
assert run.step == 5
