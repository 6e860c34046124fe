import os
import numpy as np

rng = np.random.default_rng(23)
ARMS, DIM, GROUPS = 5, 3, 2
readers = rng.normal(size=(ARMS, GROUPS, DIM)) * 1.2
rough = readers + rng.normal(size=readers.shape) * 0.25


def affinity(x, centers):
    return -((x[:, None, None, :] - centers) ** 2).sum(-1).min(-1)


def rates(x):
    score = np.exp(2.0 * affinity(x, readers))
    return 0.05 + 0.85 * score / score.sum(1, keepdims=True)


x = rng.normal(size=(4000, DIM)).round(3)
eps = 0.15
favourite = affinity(x, rough).argmax(1)
prob = np.full((len(x), ARMS), eps / ARMS)
prob[np.arange(len(x)), favourite] += 1 - eps
arm = np.array([rng.choice(ARMS, p=p) for p in prob])
p_arm = prob[np.arange(len(x)), arm]
click = (rng.random(len(x)) < rates(x)[np.arange(len(x)), arm]).astype(int)
xt = rng.normal(size=(800, DIM)).round(3)
for folder, digits in (("ok", 4), ("bug", 1)):
    os.makedirs(folder, exist_ok=True)
    with open(f"{folder}/log.csv", "w") as fh:
        fh.write(",".join(f"f{i}" for i in range(DIM)) + ",arm,propensity,click\n")
        for i in range(len(x)):
            fh.write(",".join(f"{v:.3f}" for v in x[i]) + f",{arm[i]},{p_arm[i]:.{digits}f},{click[i]}\n")
    np.savez_compressed(f"{folder}/survey.npz", context=np.float32(xt), rate=np.float32(rates(xt)))
