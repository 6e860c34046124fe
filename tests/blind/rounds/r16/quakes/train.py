import sys
import os
import numpy as np
import torch
from torch import nn
from torch.utils.data import TensorDataset, DataLoader

root = sys.argv[1]
torch.manual_seed(0)


def load(split):
    waves = np.load(os.path.join(root, f"{split}_waves.npy"))
    with open(os.path.join(root, f"{split}_kinds.txt")) as fh:
        kinds = [line.strip() for line in fh if line.strip()]
    assert len(kinds) == len(waves)
    return torch.from_numpy(waves), kinds


train_x, train_k = load("train")
test_x, test_k = load("test")
names = sorted(set(train_k))
to_id = {k: i for i, k in enumerate(names)}
train_y = torch.tensor([to_id[k] for k in train_k])
test_y = torch.tensor([to_id[k] for k in test_k])


class WaveNet(nn.Module):
    def __init__(self, n_out):
        super().__init__()
        self.conv = nn.Sequential(
            nn.Conv1d(1, 12, 7, stride=2), nn.ReLU(),
            nn.Conv1d(12, 16, 5, stride=2), nn.ReLU(),
        )
        self.fc = nn.Linear(16, n_out)

    def forward(self, w):
        return self.fc(self.conv(w.unsqueeze(1)).amax(2))


net = WaveNet(len(names))
optimizer = torch.optim.Adam(net.parameters(), lr=5e-3)
loader = DataLoader(TensorDataset(train_x, train_y), batch_size=45, shuffle=True)
for epoch in range(8):
    net.train()
    s = 0.0
    for w, y in loader:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(net(w), y)
        loss.backward()
        optimizer.step()
        s += loss.item()
    net.eval()
    with torch.no_grad():
        acc = (net(test_x).argmax(1) == test_y).float().mean().item()
    print(f"epoch {epoch + 1} loss {s / len(loader):.3f} test accuracy {acc:.3f}")
