import os
import numpy as np

rng = np.random.default_rng(6)
IDS, SHOTS, DIM = 70, 18, 32
mix1, mix2 = rng.normal(size=(28, 64)) / 5, rng.normal(size=(64, DIM)) / 6
person = rng.normal(size=(IDS, 8))
x, y = [], []
for i in range(IDS):
    for _ in range(SHOTS):
        pose = rng.normal(size=20) * 0.9
        x.append(np.tanh(np.concatenate([person[i] + rng.normal(0, 0.15, 8), pose]) @ mix1) @ mix2)
        y.append(i)
x = np.float16(x)
for folder, margin in (("ok", 0.3), ("bug", 17)):
    os.makedirs(folder, exist_ok=True)
    np.savez_compressed(f"{folder}/faces.npz", descriptor=x, person=np.int16(y))
    with open(f"{folder}/train.cfg", "w") as fh:
        fh.write(f"[loss]\nscale = 16\nmargin = {margin}\n\n[optim]\nlr = 0.002\nweight_decay = 0.0005\n"
                 "batch_size = 64\nepochs = 20\n\n[model]\nhidden = 128\nembedding = 32\n")
