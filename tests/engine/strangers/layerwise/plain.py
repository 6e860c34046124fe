import torch
import torch.nn.functional as F
from job import Net, decays, depth, splits


def main() -> list[float]:
    (inputs, labels), _ = splits()
    torch.manual_seed(0)
    model = Net()
    optimizer = torch.optim.AdamW(
        {"params": [p], "lr": 1e-2 * 0.7 ** depth(name), "weight_decay": 0.1 if decays(name) else 0.0} for name, p in model.named_parameters()
    )
    losses = []
    for _ in range(5):
        for x, y in zip(inputs.split(32), labels.split(32)):
            loss = F.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
    return losses
