import torch

from trueloop import accumulate

model = torch.nn.Linear(3, 1)
batches = [(torch.randn(4, 3), torch.randn(4, 1)) for _ in range(5)]
windows = 0
for window in accumulate(batches, every=2):  # 2, 2 and 1 batches
    for x, y in window:
        (torch.nn.functional.mse_loss(model(x), y, reduction="sum") / window.targets).backward()
    windows += 1
assert windows == 3
