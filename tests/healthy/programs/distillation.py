"""Knowledge distillation: a teacher is trained, frozen, and a smaller student learns from its soft answers."""

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset, random_split

TEMPERATURE = 4.0
ALPHA = 0.7


def build_teacher():
    return nn.Sequential(
        nn.Linear(10, 64),
        nn.BatchNorm1d(64),
        nn.ReLU(),
        nn.Dropout(0.3),
        nn.Linear(64, 64),
        nn.ReLU(),
        nn.Linear(64, 4),
    )


class Student(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(10, 12)
        self.drop = nn.Dropout(p=0.1)
        self.head = nn.Linear(12, 4)

    def forward(self, x):
        return self.head(self.drop(F.relu(self.body(x))))


class Distiller:
    """Keeps the teacher out of the student's parameters on purpose."""

    def __init__(self, student, teacher, lr):
        self.student = student
        self.teacher = teacher
        self.teacher.eval()
        for p in self.teacher.parameters():
            p.requires_grad_(False)
        self.optimizer = torch.optim.AdamW(student.parameters(), lr=lr)

    def loss(self, x, y):
        with torch.no_grad():
            soft = F.softmax(self.teacher(x) / TEMPERATURE, dim=1)
        logits = self.student(x)
        distill = F.kl_div(F.log_softmax(logits / TEMPERATURE, dim=1), soft, reduction="batchmean") * TEMPERATURE**2
        return ALPHA * distill + (1 - ALPHA) * F.cross_entropy(logits, y)

    def fit(self, loader, epochs):
        for epoch in range(epochs):
            self.student.train()
            running = 0.0
            for x, y in loader:
                loss = self.loss(x, y)
                self.optimizer.zero_grad()
                loss.backward()
                self.optimizer.step()
                running += loss.item()
            print(f"student epoch {epoch}: {running / len(loader):.3f}")


def train_plain(model, loader, epochs):
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    for _ in range(epochs):
        model.train()
        for x, y in loader:
            optimizer.zero_grad()
            criterion(model(x), y).backward()
            optimizer.step()


@torch.inference_mode()
def accuracy(model, loader):
    was_training = model.training
    model.eval()
    hits = sum((model(x).argmax(1) == y).sum().item() for x, y in loader)
    model.train(was_training)
    return hits / len(loader.dataset)


def main():
    torch.manual_seed(21)
    x = torch.randn(640, 10)
    y = ((x[:, 0] * x[:, 1] > 0).long() * 2 + (x[:, 2] > 0).long()).long()
    train_set, test_set = random_split(TensorDataset(x, y), [512, 128])
    train_loader = DataLoader(train_set, batch_size=64, shuffle=True)
    test_loader = DataLoader(test_set, batch_size=128)

    teacher = build_teacher()
    train_plain(teacher, train_loader, 6)
    print("teacher", accuracy(teacher, test_loader))

    distiller = Distiller(Student(), teacher, 5e-3)
    distiller.fit(train_loader, 5)
    print("student", accuracy(distiller.student, test_loader))


if __name__ == "__main__":
    main()
