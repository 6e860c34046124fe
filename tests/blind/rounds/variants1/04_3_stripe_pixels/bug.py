import torch
from torch import nn
from torch.nn import functional as F


def stripes(n, gen, size=16):
    """Images with a bright horizontal or vertical band; label by pixel: 0 none, 1 horizontal, 2 vertical."""
    img = 0.6 * torch.randn(n, 1, size, size, generator=gen)
    lab = torch.zeros(n, size, size, dtype=torch.long)
    at = torch.randint(0, size - 2, (n,), generator=gen).tolist()
    flip = (torch.rand(n, generator=gen) < 0.5).tolist()
    for k in range(n):
        band = slice(at[k], at[k] + 2)
        if flip[k]:
            img[k, 0, band] += 1.2
            lab[k, band] = 1
        else:
            img[k, 0, :, band] += 1.2
            lab[k, :, band] = 2
    return img, lab


def build():
    return nn.Sequential(
        nn.Conv2d(1, 16, 5, padding=2), nn.ReLU(),
        nn.Conv2d(16, 16, 5, padding=2), nn.GroupNorm(4, 16), nn.ReLU(),
        nn.Conv2d(16, 3, 3, padding=1))


def micro_gradients(net, params, img, lab):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = F.cross_entropy(net(img).float(), lab)
    return loss.item(), torch.autograd.grad(loss, params)


def accumulate(net, params, img, lab, parts):
    for p in params:
        p.grad = torch.zeros_like(p)
    total = 0.0
    for i, l in zip(img.chunk(parts), lab.chunk(parts)):
        value, grads = micro_gradients(net, params, i, l)
        for p, g in zip(params, grads):
            p.grad = g / parts
        total += value / parts
    return total


def main():
    torch.manual_seed(9)
    gen = torch.Generator().manual_seed(10)
    img, lab = stripes(640, gen)
    v_img, v_lab = stripes(160, gen)
    net = build()
    params = [p for p in net.parameters() if p.requires_grad]
    opt = torch.optim.SGD(params, lr=0.2, momentum=0.9, nesterov=True)
    for epoch in range(6):
        net.train()
        values = []
        for idx in torch.randperm(640, generator=gen).split(32):
            values.append(accumulate(net, params, img[idx], lab[idx], parts=4))
            opt.step()
        net.eval()
        with torch.no_grad():
            guess = net(v_img).argmax(1)
        on = v_lab > 0
        print(f"epoch {epoch} loss {sum(values) / len(values):.4f} "
              f"band recall {(guess[on] == v_lab[on]).float().mean():.3f} pixel acc {(guess == v_lab).float().mean():.3f}")


main()
