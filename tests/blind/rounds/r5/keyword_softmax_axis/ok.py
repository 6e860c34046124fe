import numpy as np
import torch
from torch import nn

KEYWORDS = ["yes", "no", "stop", "go", "up"]
FRAMES, MELS = 40, 16


def utterances(n, rng):
    labels = rng.integers(0, len(KEYWORDS), n)
    feats = rng.normal(0, 1.0, (n, FRAMES, MELS)).astype(np.float32)
    for i, k in enumerate(labels):
        start, length = rng.integers(3, 15), rng.integers(14, 22)
        for t in range(length):
            pitch = 2 + k * 2.3 + (1 if k % 2 else -1) * 2.5 * t / length
            feats[i, start + t] += 2.0 * np.exp(-0.5 * (np.arange(MELS) - pitch - 1) ** 2)
    return torch.from_numpy(feats), torch.from_numpy(labels)


class Spotter(nn.Module):
    """Convolution over time, one posterior per frame, averaged over the utterance."""

    def __init__(self, hidden=32):
        super().__init__()
        self.conv = nn.Conv1d(MELS, hidden, 5, padding=2)
        self.gru = nn.GRU(hidden, hidden, batch_first=True)
        self.head = nn.Linear(hidden, len(KEYWORDS))

    def forward(self, feats):
        h = torch.relu(self.conv(feats.transpose(1, 2))).transpose(1, 2)
        h, _ = self.gru(h)
        frame_posteriors = self.head(h).log_softmax(2)
        return frame_posteriors.mean(1)


class Trainer:
    def __init__(self, model, lr):
        self.model = model
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=lr)
        self.criterion = nn.NLLLoss()

    def epoch(self, x, y, batch=50):
        self.model.train()
        total = 0.0
        for idx in torch.randperm(len(x)).split(batch):
            self.optimizer.zero_grad()
            loss = self.criterion(self.model(x[idx]), y[idx])
            loss.backward()
            nn.utils.clip_grad_norm_(self.model.parameters(), 5.0)
            self.optimizer.step()
            total += loss.item() * len(idx)
        return total / len(x)

    @torch.no_grad()
    def accuracy(self, x, y):
        self.model.eval()
        return (self.model(x).argmax(1) == y).float().mean().item()


if __name__ == "__main__":
    torch.manual_seed(11)
    rng = np.random.default_rng(11)
    x_train, y_train = utterances(1000, rng)
    x_valid, y_valid = utterances(400, rng)
    trainer = Trainer(Spotter(), 3e-3)
    for epoch in range(5):
        loss = trainer.epoch(x_train, y_train)
        print(f"epoch {epoch} loss {loss:.4f} valid acc {trainer.accuracy(x_valid, y_valid):.3f}")
    print(f"valid accuracy {trainer.accuracy(x_valid, y_valid):.3f} chance {1 / len(KEYWORDS):.3f}")
