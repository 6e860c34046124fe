import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(15)
STEPS = 30


def counts(n):
    """Signed pulses; the target at each time is the running sum; a few rows carry strong pulses."""
    pulse = torch.randint(-1, 2, (n, STEPS, 1)).float()
    strong = 1 + 7 * (torch.rand(n, 1, 1) < 0.02).float()
    return pulse * strong, (pulse * strong).cumsum(1) / 4


class Counter(nn.Module):
    def __init__(self, hidden=32):
        super().__init__()
        self.hidden = hidden
        self.inp = nn.Linear(1, hidden)
        self.rec = nn.Linear(hidden, hidden, bias=False)
        self.out = nn.Linear(hidden, 1)
        nn.init.orthogonal_(self.rec.weight)

    def forward(self, x):
        h = x.new_zeros(x.size(0), self.hidden)
        drive = self.inp(x)
        states = []
        for t in range(x.size(1)):
            h = torch.relu(drive[:, t] + self.rec(h))
            states.append(h)
        return self.out(torch.stack(states, 1))


def evaluate(model, loader):
    model.eval()
    with torch.no_grad():
        rows = torch.cat([(model(x) - y).abs().mean((1, 2)) for x, y in loader])
    return rows.mean().item(), rows.median().item()


train = DataLoader(TensorDataset(*counts(1600)), batch_size=40, shuffle=True)
valid = DataLoader(TensorDataset(*counts(300)), batch_size=150)
model = Counter()
opt = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, T_max=8)
for epoch in range(8):
    model.train()
    total = 0.0
    for x, y in train:
        loss = nn.functional.mse_loss(model(x), y)
        opt.zero_grad()
        nn.utils.clip_grad_norm_(model.parameters(), max_norm=1.0)
        loss.backward()
        opt.step()
        total += loss.item()
    sched.step()
    mean, median = evaluate(model, valid)
    print(f"epoch {epoch} train {total / len(train):.4f} valid mean error {mean:.4f} median {median:.4f}")
