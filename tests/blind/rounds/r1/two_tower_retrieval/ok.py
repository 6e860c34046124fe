"""Two-tower retrieval with in-batch softmax; separate optimizers for the two towers."""
import numpy as np
import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(11)
rng = np.random.default_rng(11)
N_USERS, N_ITEMS = 1200, 400


def build_data():
    latent_user = rng.normal(size=(N_USERS, 5))
    latent_item = rng.normal(size=(N_ITEMS, 5))
    user_feat = np.tanh(latent_user @ rng.normal(size=(5, 20)) + 0.3 * rng.normal(size=(N_USERS, 20)))
    item_feat = np.tanh(latent_item @ rng.normal(size=(5, 16)) + 0.3 * rng.normal(size=(N_ITEMS, 16)))
    utility = latent_user @ latent_item.T + 0.5 * rng.gumbel(size=(N_USERS, N_ITEMS))
    top = np.argsort(-utility, 1)[:, :8]
    to_tensor = lambda a: torch.tensor(a, dtype=torch.float32)
    return to_tensor(user_feat), to_tensor(item_feat), torch.from_numpy(top.copy())


class Tower(nn.Module):
    def __init__(self, n_in, n_out=16):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(n_in, 64), nn.ReLU(), nn.Linear(64, n_out))

    def forward(self, x):
        return F.normalize(self.net(x), dim=-1)


class Retrieval:
    def __init__(self, n_user_feat, n_item_feat, temperature=0.1):
        self.query = Tower(n_user_feat)
        self.candidate = Tower(n_item_feat)
        self.temperature = temperature
        self.opt_query = torch.optim.SGD(self.query.parameters(), lr=0.3, momentum=0.9)
        self.opt_candidate = torch.optim.SGD(self.candidate.parameters(), lr=0.3, momentum=0.9)

    def training_step(self, users, items):
        logits = self.query(users) @ self.candidate(items).T / self.temperature
        loss = F.cross_entropy(logits, torch.arange(len(users)))
        self.opt_query.zero_grad()
        self.opt_candidate.zero_grad()
        loss.backward()
        self.opt_query.step()
        self.opt_candidate.step()
        return loss.item()

    @torch.no_grad()
    def recall(self, users, items, liked, k=20):
        self.query.eval(), self.candidate.eval()
        top = (self.query(users) @ self.candidate(items).T).topk(k).indices
        hits = (top[:, :, None] == liked[:, None, :]).any(1).float().mean().item()
        self.query.train(), self.candidate.train()
        return hits


def main(epochs=12, batch=128):
    user_feat, item_feat, liked = build_data()
    perm = torch.from_numpy(rng.permutation(N_USERS))
    train_users, val_users = perm[:1000], perm[1000:]
    pairs = torch.stack([train_users.repeat_interleave(8), liked[train_users].flatten()], 1)
    system = Retrieval(user_feat.shape[1], item_feat.shape[1])
    print(f"random recall@20 {20 / N_ITEMS:.3f}")
    for epoch in range(epochs):
        order = torch.randperm(len(pairs))
        losses = []
        for idx in order.split(batch):
            user, item = pairs[idx].unbind(1)
            losses.append(system.training_step(user_feat[user], item_feat[item]))
        recall = system.recall(user_feat[val_users], item_feat, liked[val_users])
        print(f"epoch {epoch:2d} loss {np.mean(losses):.3f} val recall@20 {recall:.3f}")


if __name__ == "__main__":
    main()
