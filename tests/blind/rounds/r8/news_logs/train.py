"""Off-policy learning of an article chooser from logged, weighted clicks."""
import os
import sys
import numpy as np
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset, random_split

ARMS = 5
MIN_PROPENSITY = 1e-3


def read_log(path):
    table = np.loadtxt(path, delimiter=",", skiprows=1, dtype=np.float32)
    context, arm, propensity, click = table[:, :-3], table[:, -3], table[:, -2], table[:, -1]
    return TensorDataset(torch.from_numpy(context.copy()), torch.from_numpy(arm.astype(np.int64)),
                         torch.from_numpy(propensity.copy()), torch.from_numpy(click.copy()))


class Chooser(nn.Module):
    def __init__(self, n_in, hidden=64):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(n_in, hidden), nn.ReLU(), nn.Linear(hidden, ARMS))

    def forward(self, context):
        return torch.log_softmax(self.net(context), dim=1)


def ips_value(log_policy, arm, propensity, click):
    """Inverse propensity estimate of the click rate of the policy."""
    ratio = log_policy.gather(1, arm[:, None]).squeeze(1).exp() / propensity.clamp(min=MIN_PROPENSITY)
    return (ratio * click).mean()


@torch.no_grad()
def surveyed_rate(model, context, rate):
    model.eval()
    return rate.gather(1, model(context).argmax(1, keepdim=True)).mean().item()


def main(folder):
    torch.manual_seed(4)
    log = read_log(os.path.join(folder, "log.csv"))
    train, val = random_split(log, [3200, 800], generator=torch.Generator().manual_seed(4))
    survey = np.load(os.path.join(folder, "survey.npz"))
    context, rate = torch.from_numpy(survey["context"]), torch.from_numpy(survey["rate"])
    loader = DataLoader(train, batch_size=200, shuffle=True)
    val_batch = [t[val.indices] for t in log.tensors]
    print(f"logged click rate {log.tensors[3].mean():.3f}; uniform {rate.mean():.3f}, best {rate.max(1).values.mean():.3f}")

    model = Chooser(context.shape[1])
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    for epoch in range(1, 21):
        model.train()
        total = 0.0
        for x, arm, propensity, click in loader:
            log_policy = model(x)
            entropy = -(log_policy.exp() * log_policy).sum(1).mean()
            loss = -ips_value(log_policy, arm, propensity, click) - 0.02 * entropy
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item()
        if epoch % 4 == 0:
            model.eval()
            with torch.no_grad():
                estimate = ips_value(model(val_batch[0]), *val_batch[1:]).item()
            print(f"epoch {epoch}  loss {total / len(loader):.4f}  estimated click rate on held-out log {estimate:.4f}")
    print(f"click rate of the learned chooser {surveyed_rate(model, context, rate):.4f}")


if __name__ == "__main__":
    main(sys.argv[1])
