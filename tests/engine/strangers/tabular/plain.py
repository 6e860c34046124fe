import torch
import torch.nn.functional as F
from job import net, splits


def main() -> list[float]:
    (inputs, labels), (valid_inputs, valid_labels) = splits()
    torch.manual_seed(0)
    model = net()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, weight_decay=0.0)
    losses = []
    for _ in range(5):
        for x, y in zip(inputs.split(32), labels.split(32)):
            loss = F.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
    return losses
