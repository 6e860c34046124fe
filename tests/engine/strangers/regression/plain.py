import torch
import torch.nn.functional as F
from job import net, splits


def main(hidden: int = 48) -> list[float]:
    (inputs, values), _ = splits()
    torch.manual_seed(0)
    model = net(hidden)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, weight_decay=0.0)
    losses = []
    for _ in range(5):
        for x, y in zip(inputs.split(32), values.split(32)):
            loss = F.mse_loss(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
    return losses
