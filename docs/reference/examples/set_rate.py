import torch

from trueloop import Schedule, set_rate

optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.0)
schedule = Schedule("linear", lr=0.1, total=10)
set_rate(optimizer, schedule(5))
assert optimizer.param_groups[0]["lr"] == schedule(5)
