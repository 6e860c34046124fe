import numpy as np
import pandas as pd
import torch
import torch.nn as nn

CONF = {"rounds": 30, "per_round": 120, "arms": 5, "eps": 0.15, "epochs": 3, "lr": 3e-3, "seed": 23}


class Shop:
    """Visitors see one of five offers; margin depends on visitor and offer."""

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)

    def visitors(self, n):
        age = self.rng.normal(0, 1, n)
        basket = 0.5 * age + self.rng.normal(0, 0.9, n)
        loyal = (self.rng.random(n) < 0.4).astype(float)
        evening = self.rng.uniform(-1, 1, n)
        return np.stack([age, basket, loyal, evening], 1)

    @staticmethod
    def margin(x):
        age, basket, loyal, evening = x.T
        return np.stack([0.5 + 0.0 * age, 0.9 * age + 0.3, -0.9 * age + 0.2 * loyal, 0.8 * basket * evening + 0.4,
                         1.2 * loyal - 0.5 * basket], 1)

    def sell(self, x, arm):
        return self.margin(x)[np.arange(len(x)), arm] + self.rng.normal(0, 0.4, len(x))


class ArmValues(nn.Module):
    def __init__(self, d, arms, width=48):
        super().__init__()
        self.shared = nn.Sequential(nn.Linear(d, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU())
        self.heads = nn.Linear(width, arms)

    def forward(self, x):
        return self.heads(self.shared(x))


class Agent:
    def __init__(self, d, conf):
        self.conf = conf
        self.net = ArmValues(d, conf["arms"])
        self.opt = torch.optim.Adam(self.net.parameters(), lr=conf["lr"])
        self.rng = np.random.default_rng(conf["seed"])
        self.log = pd.DataFrame()

    def choose(self, x, explore=True):
        with torch.no_grad():
            arm = self.net(torch.tensor(x, dtype=torch.float32)).argmax(1).numpy().copy()
        if explore:
            flip = self.rng.random(len(x)) < self.conf["eps"]
            arm[flip] = self.rng.integers(0, self.conf["arms"], flip.sum())
        return arm

    def remember(self, x, arm, reward):
        frame = pd.DataFrame(x, columns=["age", "basket", "loyal", "evening"]).assign(arm=arm, reward=reward)
        self.log = pd.concat([self.log, frame], ignore_index=True)

    def learn(self):
        x = torch.tensor(self.log.iloc[:, :4].to_numpy(), dtype=torch.float32)
        arm = torch.tensor(self.log["arm"].to_numpy())
        reward = torch.tensor(self.log["reward"].to_numpy(), dtype=torch.float32)
        for _ in range(self.conf["epochs"]):
            for idx in torch.randperm(len(x)).split(128):
                value = self.net(x[idx])
                chosen = torch.nn.functional.one_hot(arm[idx], self.conf["arms"])
                error = (value - reward[idx, None]) * chosen
                loss = error.pow(2).sum(1).mean()
                self.opt.zero_grad()
                loss.backward()
                self.opt.step()
        return loss.item()


def main():
    torch.manual_seed(CONF["seed"])
    shop, agent = Shop(CONF["seed"]), Agent(4, CONF)
    for r in range(CONF["rounds"]):
        x = shop.visitors(CONF["per_round"])
        arm = agent.choose(x)
        reward = shop.sell(x, arm)
        agent.remember(x, arm, reward)
        loss = agent.learn()
        if r % 6 == 0:
            print(f"round {r:2d} mean margin {reward.mean():.3f} loss {loss:.4f}")
    fresh = Shop(999).visitors(4000)
    m = Shop.margin(fresh)
    regret = (m.max(1) - m[np.arange(len(m)), agent.choose(fresh, explore=False)]).mean()
    print(f"random regret {(m.max(1) - m.mean(1)).mean():.3f}; regret per visitor: {regret:.4f}")


if __name__ == "__main__":
    main()
