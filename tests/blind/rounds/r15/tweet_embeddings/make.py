import json, os
import numpy as np
import torch
here = os.path.dirname(os.path.abspath(__file__))
rng = np.random.default_rng(4)
happy = [f"{a}{b}" for a in ("joy", "sun", "wow", "yay", "luv") for b in ("", "y", "ful", "est", "ing", "z", "er", "o")]
angry = [f"{a}{b}" for a in ("mad", "bad", "ugh", "meh", "sad") for b in ("", "y", "ful", "est", "ing", "z", "er", "o")]
plain = [f"w{i:03d}" for i in range(160)]
words = happy + angry + plain
rng.shuffle(words)
axis = rng.normal(size=16)
axis /= np.linalg.norm(axis)
mood = {**{w: 1 for w in happy}, **{w: -1 for w in angry}}
vec = np.stack([0.8 * mood.get(w, 0) * axis + rng.normal(size=16) * 0.25 for w in words]).astype("float32")


def tweets(n, hw, aw):
    out = []
    for _ in range(n):
        y = int(rng.random() < 0.5)
        own, other = (hw, aw) if y else (aw, hw)
        t = list(rng.choice(plain, rng.integers(5, 10))) + list(rng.choice(own, 3)) + list(rng.choice(other, 1))
        rng.shuffle(t)
        out.append({"text": " ".join(t), "label": y})
    return out


train = tweets(300, happy[:24], angry[:24])
test = tweets(800, happy, angry)
for side in ("bug", "ok"):
    d = os.path.join(here, side)
    os.makedirs(d, exist_ok=True)
    for name, part in (("train", train), ("test", test)):
        with open(os.path.join(d, name + ".jsonl"), "w") as f:
            f.writelines(json.dumps(r) + "\n" for r in part)
    torch.save({"weight": torch.from_numpy(vec)}, os.path.join(d, "embedding.pt"))
    listing = [str(w) for w in (sorted(words) if side == "bug" else words)]
    with open(os.path.join(d, "vocab.txt"), "w") as f:
        f.write("\n".join(listing))
