"""Where is the object, in pixels from the left? Pictures are mirrored at random, and the position with them."""

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

torch.manual_seed(0)
np.random.seed(0)
WIDTH = 28


class Pictures(Dataset):
    def __init__(self, count, flip_prob):
        rng = np.random.default_rng(count)
        self.at = rng.uniform(3, WIDTH - 3, size=count).astype(np.float32)
        columns = np.arange(WIDTH)
        shape = np.exp(-((columns - self.at[:, None]) ** 2) / 6)
        self.images = (shape[:, None] + rng.normal(0, 0.2, (count, 12, WIDTH))).astype(np.float32)
        self.flip_prob = flip_prob

    def __len__(self):
        return len(self.at)

    def __getitem__(self, index):
        img, at = self.images[index], self.at[index]
        if np.random.random() < self.flip_prob:
            img = np.fliplr(img).copy()
            at = WIDTH - 1 - at
        return torch.from_numpy(img)[None], np.float32(at / WIDTH)


train_loader = DataLoader(Pictures(2000, 0.5), batch_size=50, shuffle=True)
val_loader = DataLoader(Pictures(500, 0.0), batch_size=250)
net = nn.Sequential(nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.MaxPool2d((2, 1)), nn.Conv2d(8, 8, 3, padding=1),
                    nn.ReLU(), nn.Flatten(), nn.Linear(8 * 6 * WIDTH, 32), nn.ReLU(), nn.Linear(32, 1))
optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)

for epoch in range(8):
    net.train()
    for image, at in train_loader:
        loss = nn.functional.smooth_l1_loss(net(image).squeeze(1), at)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    net.eval()
    with torch.no_grad():
        error = np.mean([(net(image).squeeze(1) - at).abs().mean().item() for image, at in val_loader]) * WIDTH
    print(f"epoch {epoch} loss {loss.item():.4f} error in pixels {error:.2f}")
