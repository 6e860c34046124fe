"""Which lead shows the ectopic beat first? Six-lead recordings, stored as (record, time, lead)."""
import numpy as np
import torch
from torch import nn
from torch.utils.data import Dataset, DataLoader

LEADS, STEPS = 6, 64


class Recordings(Dataset):
    def __init__(self, n, seed):
        rng = np.random.default_rng(seed)
        self.site = rng.integers(0, LEADS, n)
        t = np.arange(STEPS)
        sig = rng.normal(0, 0.3, (n, STEPS, LEADS))
        for i, s in enumerate(self.site):
            at = rng.uniform(12, 50)
            for lead in range(LEADS):
                dist = min((lead - s) % LEADS, (s - lead) % LEADS)
                sig[i, :, lead] += (1.6 - 0.4 * dist) * np.exp(-((t - at - 1.5 * dist) / 2.0) ** 2)
        self.sig = sig.astype(np.float32)

    def __len__(self):
        return len(self.site)

    def __getitem__(self, i):
        return torch.from_numpy(self.sig[i]), int(self.site[i])


class LeadCNN(nn.Module):
    def __init__(self, ch=24):
        super().__init__()
        self.c1 = nn.Conv1d(LEADS, ch, 5, padding=2)
        self.c2 = nn.Conv1d(ch, ch, 5, padding=2)
        self.fc = nn.Linear(ch, LEADS)

    def forward(self, rec):
        b, t, c = rec.shape
        x = rec.permute(0, 2, 1)
        x = torch.relu(self.c1(x))
        x = torch.relu(self.c2(x))
        return self.fc(x.amax(dim=2))


def epoch_pass(net, loader, crit, opt=None):
    net.train(opt is not None)
    loss_sum = right = seen = 0
    with torch.set_grad_enabled(opt is not None):
        for rec, site in loader:
            scores = net(rec)
            loss = crit(scores, site)
            if opt is not None:
                opt.zero_grad()
                loss.backward()
                opt.step()
            loss_sum += loss.item() * len(site)
            right += (scores.argmax(1) == site).sum().item()
            seen += len(site)
    return loss_sum / seen, right / seen


if __name__ == "__main__":
    torch.manual_seed(0)
    train_dl = DataLoader(Recordings(600, 1), batch_size=50, shuffle=True)
    test_dl = DataLoader(Recordings(400, 2), batch_size=100)
    net = LeadCNN()
    opt = torch.optim.AdamW(net.parameters(), lr=3e-3)
    crit = nn.CrossEntropyLoss()
    for ep in range(6):
        tr = epoch_pass(net, train_dl, crit, opt)
        te = epoch_pass(net, test_dl, crit)
        print(f"ep {ep}: train {tr[0]:.3f}/{tr[1]:.3f}  test {te[0]:.3f}/{te[1]:.3f}")
    print(f"test accuracy {te[1]:.3f}")
