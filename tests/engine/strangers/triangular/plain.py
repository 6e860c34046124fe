import torch
import torch.nn.functional as F
from job import net, splits, triangular


def main() -> list[float]:
    (inputs, labels), _ = splits()
    torch.manual_seed(0)
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.2, momentum=0.9)
    share = lambda step: triangular(0, 32) * (step + 1) / 8 if step < 8 else triangular(step - 8, 32)  # noqa: E731
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, share)
    losses = []
    for _ in range(5):
        for x, y in zip(inputs.split(32), labels.split(32)):
            loss = F.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
            losses.append(loss.item())
    return losses
