import numpy as np
import torch

r = np.random.default_rng(2)
V, D, TOPICS = 600, 32, 60
topic = np.arange(V) % TOPICS
centre = r.normal(size=(TOPICS, D))
emb = torch.tensor(centre[topic] + 0.4 * r.normal(size=(V, D)), dtype=torch.float32)
by_topic = [np.where(topic == t)[0] for t in range(TOPICS)]


def text(ts):
    return [int(r.choice(by_topic[t])) for t in r.choice(ts, size=6)] + [int(x) for x in r.integers(0, V, 2)]


def draw(n):
    q, c, g = [], [], []
    for _ in range(n):
        ts = r.choice(TOPICS, size=3, replace=False)
        gold = int(r.integers(6))
        q.append(text(ts))
        c.append([text(ts if k == gold else r.choice(TOPICS, size=3, replace=False)) for k in range(6)])
        g.append(gold)
    return dict(question=np.array(q, dtype=np.int16), candidates=np.array(c, dtype=np.int16), gold=np.array(g, dtype=np.int8))


train, val = draw(800), draw(300)
for side, prefix in (("ok", ""), ("bug", "module.")):
    np.savez_compressed(f"{side}/train.npz", **train)
    np.savez_compressed(f"{side}/val.npz", **val)
    torch.save({"n_tokens": V, "state_dict": {prefix + "encoder.weight": emb}}, f"{side}/encoder.pt")
