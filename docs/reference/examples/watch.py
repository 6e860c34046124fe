import torch

import trueloop

model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
w: trueloop.Watch
with trueloop.watch(run=False) as w:
    for _ in range(5):
        loss = model(torch.randn(8, 4)).square().mean()
        loss.backward()  # nothing clears the gradients
        optimizer.step()
assert "gradients-never-cleared" in [finding.name for finding in w.findings]
