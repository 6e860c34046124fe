import torch
from job import Net, splits, token_sum


def main() -> list[float]:
    (inputs, targets), _ = splits()
    torch.manual_seed(0)
    model = Net()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, weight_decay=0.0)
    losses = []
    for _ in range(6):
        for x, y in zip(inputs.split(32), targets.split(32)):
            optimizer.zero_grad()
            count, mean = (y != -100).sum(), 0.0
            for micro_x, micro_y in zip(x.chunk(4), y.chunk(4)):
                loss = token_sum(model(micro_x), micro_y)[0] / count
                loss.backward()
                mean += loss.item()
            optimizer.step()
            losses.append(mean)
    return losses
