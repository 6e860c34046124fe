import torch
from torch import nn
import torch.nn.functional as F


def make_scenes(n, size, gen):
    grid = torch.arange(size).float()
    cy = torch.randint(5, size - 5, (n, 1, 1), generator=gen)
    cx = torch.randint(5, size - 5, (n, 1, 1), generator=gen)
    r = torch.randint(3, 6, (n, 1, 1), generator=gen)
    inside = ((grid.view(1, -1, 1) - cy) ** 2 + (grid.view(1, 1, -1) - cx) ** 2) <= r ** 2
    image = inside.float() + 0.5 * torch.randn(n, size, size, generator=gen)
    return image.unsqueeze(1), inside.float().unsqueeze(1)


def focal(output, mask, gamma=2.0):
    ce = F.binary_cross_entropy_with_logits(output, mask, reduction="none")
    p = torch.sigmoid(output)
    p_true = p * mask + (1 - p) * (1 - mask)
    return ((1 - p_true) ** gamma * ce).mean()


class Segmenter(nn.Module):
    def __init__(self, width=12):
        super().__init__()
        self.down = nn.Sequential(nn.Conv2d(1, width, 3, padding=1), nn.ReLU(),
                                  nn.Conv2d(width, width, 3, stride=2, padding=1), nn.ReLU())
        self.up = nn.Sequential(nn.Upsample(scale_factor=2), nn.Conv2d(width, width, 3, padding=1), nn.ReLU(),
                                nn.Conv2d(width, 1, 1))

    def forward(self, x):
        return self.up(self.down(x))


class Trainer:
    def __init__(self, model, lr):
        self.model = model
        self.opt = torch.optim.Adam(model.parameters(), lr=lr)

    def fit(self, images, masks, epochs, batch):
        for epoch in range(epochs):
            self.model.train()
            total = 0.0
            order = torch.randperm(len(images))
            for idx in order.split(batch):
                loss = focal(self.model(images[idx]), masks[idx])
                self.opt.zero_grad()
                loss.backward()
                self.opt.step()
                total += loss.item() * len(idx)
            print(f"epoch {epoch} loss {total / len(images):.4f}")

    @torch.no_grad()
    def iou(self, images, masks):
        self.model.eval()
        pred = self.model(images) > 0.0
        truth = masks > 0.5
        return ((pred & truth).sum() / (pred | truth).sum().clamp(min=1)).item()


torch.manual_seed(3)
gen = torch.Generator().manual_seed(11)
train_x, train_y = make_scenes(480, 24, gen)
val_x, val_y = make_scenes(128, 24, gen)
trainer = Trainer(Segmenter(), lr=3e-3)
trainer.fit(train_x, train_y, epochs=6, batch=32)
print("validation IoU", round(trainer.iou(val_x, val_y), 3))
