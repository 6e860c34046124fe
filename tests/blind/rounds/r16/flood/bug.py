"""Water mask from small satellite chips (2 bands) with flip augmentation."""
import numpy as np
import torch
import torch.nn as nn

SIZE = 20


def chips(n, rng):
    yy, xx = np.mgrid[0:SIZE, 0:SIZE]
    img = np.zeros((n, 2, SIZE, SIZE), np.float32)
    msk = np.zeros((n, 1, SIZE, SIZE), np.float32)
    for i in range(n):
        cx, cy = rng.uniform(3, SIZE - 3, 2)
        rx, ry = rng.uniform(3, 7, 2)
        water = (((xx - cx) / rx) ** 2 + ((yy - cy) / ry) ** 2 < 1).astype(np.float32)
        img[i, 0] = 0.6 - 0.4 * water
        img[i, 1] = 0.3 + 0.3 * water
        msk[i, 0] = water
    img += rng.normal(0, 0.15, img.shape)
    return torch.from_numpy(img), torch.from_numpy(msk)


def augment(img, msk, rng):
    def flips(t):
        if rng.random() < 0.5:
            t = t.flip(-1)
        if rng.random() < 0.5:
            t = t.flip(-2)
        return t

    return flips(img), flips(msk)


def augment_batch(imgs, msks, rng):
    pairs = [augment(i, m, rng) for i, m in zip(imgs, msks)]
    return torch.stack([p[0] for p in pairs]), torch.stack([p[1] for p in pairs])


def iou(logits, msk):
    p, m = logits > 0, msk > 0.5
    inter = (p & m).sum((1, 2, 3)).float()
    union = (p | m).sum((1, 2, 3)).float()
    return (inter / union.clamp(min=1)).mean().item()


def main():
    torch.manual_seed(6)
    rng = np.random.default_rng(6)
    xtr, mtr = chips(300, rng)
    xte, mte = chips(120, rng)
    net = nn.Sequential(
        nn.Conv2d(2, 12, 3, padding=1), nn.ReLU(),
        nn.Conv2d(12, 12, 3, padding=1), nn.ReLU(),
        nn.Conv2d(12, 1, 1),
    )
    opt = torch.optim.Adam(net.parameters(), lr=1e-2)
    lossf = nn.BCEWithLogitsLoss()
    for ep in range(8):
        order = torch.randperm(len(xtr))
        for sel in order.split(20):
            xb, mb = augment_batch(xtr[sel], mtr[sel], rng)
            loss = lossf(net(xb), mb)
            opt.zero_grad()
            loss.backward()
            opt.step()
        if ep % 2 == 1:
            with torch.no_grad():
                print(f"epoch {ep + 1} loss {loss.item():.3f} test IoU {iou(net(xte), mte):.3f}")


if __name__ == "__main__":
    main()
