import os
import json, shutil, sys
from pathlib import Path
import torch
sys.argv = ["x"]
from train import CharGRU, encode, sequences
import torch.nn.functional as F

text = Path(os.environ["TRUELOOP_DATA"] + "/tinyshakespeare/input.txt").read_text()
vocab = sorted(set(text))
torch.manual_seed(0)
stoi = {c: i for i, c in enumerate(vocab)}
x = sequences(encode(text[:450_000], stoi), 49)
m = CharGRU(len(vocab)); opt = torch.optim.Adam(m.parameters(), lr=4e-3)
step = 0
while step < 500:
    for idx in torch.randperm(len(x)).split(64):
        b = x[idx]; loss = F.cross_entropy(m(b[:, :-1]).flatten(0, 1), b[:, 1:].flatten())
        opt.zero_grad(); loss.backward(); torch.nn.utils.clip_grad_norm_(m.parameters(), 1.0); opt.step(); step += 1
        if step % 100 == 0: print("pretrain", step, loss.item())
        if step == 500: break
seen = []
for c in text:
    if c not in seen: seen.append(c)
for d, v in (("ok", vocab), ("bug", seen)):
    Path(d).mkdir(exist_ok=True)
    torch.save(m.state_dict(), f"{d}/base_model.pt")
    (Path(d) / "vocab.json").write_text(json.dumps(v))
    (Path(d) / "scene.txt").write_text(text[900_000:962_000])
