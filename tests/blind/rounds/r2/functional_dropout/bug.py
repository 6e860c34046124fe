import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset, random_split


class AccentNet(nn.Module):
    def __init__(self, n_mels=24, hidden=64, n_accents=6, p=0.6):
        super().__init__()
        self.conv = nn.Conv1d(n_mels, hidden, 5, padding=2)
        self.fc1 = nn.Linear(hidden, hidden)
        self.fc2 = nn.Linear(hidden, n_accents)
        self.p = p

    def forward(self, mel):
        h = F.relu(self.conv(mel)).mean(-1)
        h = F.dropout(h, self.p)
        h = F.relu(self.fc1(h))
        h = F.dropout(h, self.p)
        return self.fc2(h)


def make_dataset(n=1800, n_mels=24, frames=30):
    gen = torch.Generator().manual_seed(77)
    accents = torch.randint(6, (n,), generator=gen)
    formants = torch.randn(6, n_mels, generator=gen) * 0.22
    rhythm = torch.sin(torch.arange(frames)[None] * (0.3 + 0.15 * torch.arange(6)[:, None].float()))
    mel = formants[accents][:, :, None] + 0.5 * rhythm[accents][:, None, :]
    mel = mel + 1.5 * torch.randn(n, n_mels, frames, generator=gen) + 0.3 * torch.randn(n, n_mels, 1, generator=gen)
    return TensorDataset(mel, accents)


def evaluate(model, loader):
    model.eval()
    loss, correct, n = 0.0, 0, 0
    with torch.no_grad():
        for mel, accent in loader:
            logits = model(mel)
            loss += F.cross_entropy(logits, accent, reduction="sum").item()
            correct += (logits.argmax(1) == accent).sum().item()
            n += len(accent)
    return loss / n, correct / n


if __name__ == "__main__":
    torch.manual_seed(77)
    train_set, val_set = random_split(make_dataset(), [1500, 300], generator=torch.Generator().manual_seed(1))
    train_loader = DataLoader(train_set, batch_size=50, shuffle=True)
    val_loader = DataLoader(val_set, batch_size=100)
    model = AccentNet()
    opt = torch.optim.Adam(model.parameters(), lr=3e-3)
    sched = torch.optim.lr_scheduler.StepLR(opt, step_size=5, gamma=0.3)
    for epoch in range(8):
        model.train()
        for mel, accent in train_loader:
            loss = F.cross_entropy(model(mel), accent)
            opt.zero_grad()
            loss.backward()
            opt.step()
        sched.step()
        val_loss, val_acc = evaluate(model, val_loader)
        print(f"epoch {epoch} last loss {loss.item():.3f} val loss {val_loss:.3f} acc {val_acc:.3f}")
