import copy
from dataclasses import dataclass

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


@dataclass
class PumpConfig:
    numTrain: int = 120
    numVal: int = 300
    numTest: int = 800
    history: int = 16          # five-minute sensor readings
    hidden: int = 160
    learningRate: float = 3e-3
    batchSize: int = 20
    maxEpochs: int = 200
    seed: int = 21


def simulateWindows(n, history, gen):
    """Sensor history plus bolus, basal, carbs, hour -> glucose half an hour ahead (mmol/l)."""
    level = gen.uniform(5.0, 12.0, n)
    slope = gen.normal(0, 0.09, n)
    t = np.arange(-history + 1, 1)
    glucose = level[:, None] + slope[:, None] * t + gen.normal(0, 0.45, (n, history))
    bolus = gen.gamma(1.2, 1.3, n)
    basal = gen.normal(0.9, 0.25, n)
    carbs = gen.gamma(1.1, 18.0, n)
    hour = gen.uniform(0, 24, n)
    sens = 0.55 + 0.2 * np.sin(2 * np.pi * hour / 24)
    target = level + 6 * slope + 0.045 * carbs - sens * bolus - 0.8 * (basal - 0.9)
    target = target + gen.normal(0, 1.8, n)
    clock = np.stack([np.sin(2 * np.pi * hour / 24), np.cos(2 * np.pi * hour / 24)], 1)
    feats = np.concatenate([glucose, np.stack([bolus, basal, carbs], 1), clock], 1)
    return feats.astype(np.float32), target.astype(np.float32)


class GlucoseNet(nn.Module):
    def __init__(self, nIn, hidden):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(nIn, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU(),
                                  nn.Linear(hidden, 1))

    def forward(self, x):
        return self.body(x).squeeze(1)


class Trainer:
    def __init__(self, cfg, model, trainLoader, valData):
        self.cfg, self.model = cfg, model
        self.trainLoader, self.valData = trainLoader, valData
        self.optimizer = torch.optim.Adam(model.parameters(), lr=cfg.learningRate)
        self.lossFn = nn.MSELoss()
        self.bestLoss, self.bestEpoch, self.bestWeights = float("inf"), -1, None

    def trainOneEpoch(self):
        self.model.train()
        losses = []
        for x, y in self.trainLoader:
            self.optimizer.zero_grad()
            loss = self.lossFn(self.model(x), y)
            loss.backward()
            self.optimizer.step()
            losses.append(loss.item())
        return float(np.mean(losses))

    @torch.no_grad()
    def evaluate(self, data):
        self.model.eval()
        x, y = data
        pred = self.model(x)
        return self.lossFn(pred, y).item(), (pred - y).abs().mean().item()

    def fit(self):
        for epoch in range(1, self.cfg.maxEpochs + 1):
            trainLoss = self.trainOneEpoch()
            valLoss, valMae = self.evaluate(self.valData)
            if valLoss < self.bestLoss:
                self.bestLoss, self.bestEpoch = valLoss, epoch
                self.bestWeights = copy.deepcopy(self.model.state_dict())
            if epoch % 20 == 0:
                print(f"[{epoch:3d}] train mse {trainLoss:.3f}  val mse {valLoss:.3f}  val mae {valMae:.3f}")
        self.model.load_state_dict(self.bestWeights)
        print(f"restored weights of epoch {self.bestEpoch} (val mse {self.bestLoss:.3f})")


def main():
    cfg = PumpConfig()
    torch.manual_seed(cfg.seed)
    gen = np.random.default_rng(cfg.seed)
    raw = [simulateWindows(n, cfg.history, gen) for n in (cfg.numTrain, cfg.numVal, cfg.numTest)]
    mean, std = raw[0][0].mean(0), raw[0][0].std(0)
    train, val, test = [(torch.from_numpy((x - mean) / std), torch.from_numpy(y)) for x, y in raw]
    loader = DataLoader(TensorDataset(*train), batch_size=cfg.batchSize, shuffle=True)
    trainer = Trainer(cfg, GlucoseNet(train[0].shape[1], cfg.hidden), loader, val)
    trainer.fit()
    testMse, testMae = trainer.evaluate(test)
    print(f"test mse {testMse:.3f}  test mae {testMae:.3f} mmol/l")


if __name__ == "__main__":
    main()
