import numpy as np
import torch
import torch.nn as nn

rs = np.random.RandomState(7)
S = 24
yy, xx = np.mgrid[0:S, 0:S]


def leaf(kind):
    im = np.zeros((S, S, 3))
    im[:] = rs.uniform(0.35, 0.6, 3) * np.array([1.0, 0.95, 0.85])
    a, b = rs.uniform(8, 11), rs.uniform(5.5, 8)
    th = rs.uniform(0, np.pi)
    u = (xx - 11.5) * np.cos(th) + (yy - 11.5) * np.sin(th)
    v = -(xx - 11.5) * np.sin(th) + (yy - 11.5) * np.cos(th)
    inside = (u / a) ** 2 + (v / b) ** 2 < 1
    green = np.array([rs.uniform(.15, .35), rs.uniform(.4, .65), rs.uniform(.1, .25)])
    im[inside] = green
    im[inside & (np.abs(v) < 0.7)] = green * 1.25

    def spots(n, r, col, ring=None):
        for _ in range(n):
            ys, xs = np.nonzero(inside)
            i = rs.randint(len(ys))
            d = np.hypot(yy - ys[i], xx - xs[i])
            if ring is not None:
                im[inside & (d < r + 1.1)] = ring
            im[inside & (d < r)] = col

    brown, orange, white, yellow, dark = (np.array(c) for c in (
        (.40, .28, .13), (.72, .42, .10), (.80, .82, .76), (.70, .70, .20), (.16, .14, .10)))
    if kind == 1:
        spots(rs.randint(6, 12), 1.0, orange)
    elif kind == 2:
        spots(rs.randint(1, 3), rs.uniform(3.0, 4.5), brown)
    elif kind == 3:
        m = inside & (rs.rand(S, S) < .3)
        im[m] = .5 * im[m] + .5 * white
    elif kind == 4:
        c = rs.randint(0, 3)
        m = inside & (((xx + c) // 3 + (yy + c) // 3) % 2 == 0)
        im[m] = .55 * im[m] + .45 * yellow
    elif kind == 5:
        spots(rs.randint(2, 5), 1.3, dark, ring=yellow)
    elif kind == 6:
        m = inside & ((u / a) ** 2 + (v / b) ** 2 > .55)
        im[m] = brown
    elif kind == 7:
        m = inside & (np.abs((u + 30) % 4) < 1.3)
        im[m] = .5 * im[m] + .5 * yellow
    im = im * rs.uniform(.7, 1.25) + rs.normal(0, .055, im.shape)
    return (im.clip(0, 1) * 255).astype(np.uint8)


def many(n, kinds):
    k = np.array([kinds[i % len(kinds)] for i in range(n)])
    rs.shuffle(k)
    return np.stack([leaf(j) for j in k]), np.array([kinds.index(j) for j in k])


big_x, big_y = many(3000, [0, 1, 2, 3, 4, 5, 6, 7])
names = ["healthy", "rust", "mildew", "mosaic", "ringspot", "stripe"]
kinds = [0, 1, 3, 4, 5, 7]
tr_x, tr_y = many(96, kinds)
te_x, te_y = many(480, kinds)

torch.manual_seed(1)
body = nn.Sequential()
cin = 3
for i, c in enumerate((16, 24, 32)):
    body.add_module("conv%d" % i, nn.Conv2d(cin, c, 3, padding=1))
    body.add_module("bn%d" % i, nn.BatchNorm2d(c))
    body.add_module("act%d" % i, nn.ReLU())
    body.add_module("pool%d" % i, nn.MaxPool2d(2))
    cin = c
tail = nn.Linear(32, 8)
opt = torch.optim.AdamW(list(body.parameters()) + list(tail.parameters()), 4e-3, weight_decay=1e-3)
bx = torch.from_numpy(big_x).permute(0, 3, 1, 2).float().div(255).sub(.45).div(.2)
by = torch.from_numpy(big_y)
for ep in range(4):
    for ix in torch.randperm(len(bx)).split(64):
        o = tail(body(bx[ix]).mean((2, 3)))
        l = nn.functional.cross_entropy(o, by[ix])
        opt.zero_grad()
        l.backward()
        opt.step()
    print("pretrain", ep, l.item())

for side in ("bug", "ok"):
    pre = "module.encoder." if side == "bug" else "backbone."
    sd = {pre + k: v.clone() for k, v in body.state_dict().items()}
    sd["fc.weight"], sd["fc.bias"] = tail.weight.detach().clone(), tail.bias.detach().clone()
    torch.save({"epoch": 4, "state_dict": sd}, f"{side}/plantnet_small.pt")
    np.savez(f"{side}/photos_train.npz", images=tr_x, labels=tr_y)
    np.savez(f"{side}/photos_test.npz", images=te_x, labels=te_y)
    open(f"{side}/classes.txt", "w").write("\n".join(names) + "\n")
