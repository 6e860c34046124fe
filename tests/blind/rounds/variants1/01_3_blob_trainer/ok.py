import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset, random_split


def make_data(n=2400, classes=5):
    centres = torch.randn(classes, 2, 10) * 1.5
    y = torch.randint(0, classes, (n,))
    which = torch.randint(0, 2, (n,))
    return TensorDataset(centres[y, which] + 0.8 * torch.randn(n, 10), y)


class Trainer:
    def __init__(self, model, lr):
        self.model = model
        self.params = list(model.parameters())
        self.opt = torch.optim.SGD(model.parameters(), lr=lr, momentum=0.9)
        self.criterion = nn.CrossEntropyLoss()
        self.history = []

    def clear(self):
        for p in self.params:
            p.grad = None

    def fit(self, loader, valid, epochs):
        for epoch in range(epochs):
            self.model.train()
            total = 0.0
            for x, y in loader:
                self.clear()
                loss = self.criterion(self.model(x), y)
                loss.backward()
                self.opt.step()
                total += loss.item()
            acc = self.evaluate(valid)
            self.history.append(acc)
            print(f"epoch {epoch}: loss {total / len(loader):.4f}, validation accuracy {acc:.3f}")

    @torch.no_grad()
    def evaluate(self, loader):
        self.model.eval()
        good = count = 0
        for x, y in loader:
            good += (self.model(x).argmax(1) == y).sum().item()
            count += len(y)
        return good / count


def main():
    torch.manual_seed(11)
    train, valid = random_split(make_data(), [2000, 400])
    model = nn.Sequential(nn.Linear(10, 64), nn.ReLU(), nn.Dropout(0.1), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 5))
    trainer = Trainer(model, lr=0.05)
    trainer.fit(DataLoader(train, batch_size=64, shuffle=True), DataLoader(valid, batch_size=200), epochs=8)
    print("best", max(trainer.history))


if __name__ == "__main__":
    main()
