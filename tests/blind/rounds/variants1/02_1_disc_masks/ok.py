import torch
from torch import nn
from torch.nn import functional as F
from collections import defaultdict


def discs(n, size=24):
    yy, xx = torch.meshgrid(torch.arange(size), torch.arange(size), indexing="ij")
    c = torch.randint(6, size - 6, (n, 2)).float()
    r = torch.randint(3, 7, (n, 1, 1)).float()
    d = ((yy - c[:, :1, None]) ** 2 + (xx - c[:, 1:, None]) ** 2).sqrt()
    mask = (d < r).float()[:, None]
    img = mask + 0.5 * torch.randn(n, 1, size, size)
    return img, mask


class Engine:
    def __init__(self, net, opt):
        self.net, self.opt = net, opt
        self.handlers = defaultdict(list)
        self.state = {"step": 0, "loss": None, "norm": 0.0}

    def on(self, event):
        def register(fn):
            self.handlers[event].append(fn)
            return fn
        return register

    def fire(self, event):
        for fn in self.handlers[event]:
            fn(self)

    def run(self, batches):
        self.net.train()
        for img, mask in batches:
            self.fire("batch_start")
            loss = F.binary_cross_entropy_with_logits(self.net(img), mask)
            loss.backward()
            self.state["loss"] = loss.item()
            self.fire("after_backward")
            self.opt.step()
            self.state["step"] += 1
            self.fire("batch_end")


torch.manual_seed(5)
net = nn.Sequential(nn.Conv2d(1, 12, 5, padding=2), nn.BatchNorm2d(12), nn.ReLU(),
                    nn.Conv2d(12, 12, 5, padding=2), nn.ReLU(), nn.Conv2d(12, 1, 1))
engine = Engine(net, torch.optim.Adam(net.parameters(), lr=5e-3))
img, mask = discs(640)
val_img, val_mask = discs(128)


@engine.on("batch_start")
def reset(e):
    e.opt.zero_grad()


@engine.on("batch_end")
def report(e):
    if e.state["step"] % 20 == 0:
        print(f"step {e.state['step']} loss {e.state['loss']:.4f}")


for epoch in range(4):
    order = torch.randperm(len(img)).split(32)
    engine.run((img[i], mask[i]) for i in order)
    net.eval()
    with torch.no_grad():
        hit = net(val_img) > 0
    inter = (hit & (val_mask > 0)).sum().item()
    union = (hit | (val_mask > 0)).sum().item()
    print(f"epoch {epoch} validation iou {inter / union:.3f}")
