"""Distil a wide teacher into a narrow student, mostly from unlabelled machine-sensor readings."""
import torch
import torch.nn as nn
import torch.nn.functional as F

NUM_CLASSES, DIM = 5, 16
PRIOR = torch.tensor([0.60, 0.20, 0.12, 0.05, 0.03])


class World:
    def __init__(self, seed):
        self.g = torch.Generator().manual_seed(seed)
        self.centres = torch.randn(NUM_CLASSES, 2, DIM, generator=self.g) * 1.0

    def draw(self, n, prior=PRIOR):
        y = torch.multinomial(prior, n, replacement=True, generator=self.g)
        mode = torch.randint(0, 2, (n,), generator=self.g)
        x = self.centres[y, mode] + 0.75 * torch.randn(n, DIM, generator=self.g)
        return x, y


def mlp(width):
    return nn.Sequential(nn.Linear(DIM, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, NUM_CLASSES))


def distil_loss(student_logits, teacher_logits, temperature):
    soft_teacher = F.softmax(teacher_logits / temperature, dim=-1)
    log_student = F.log_softmax(student_logits, dim=-1)
    return F.kl_div(log_student, soft_teacher, reduction="batchmean") * temperature ** 2


def batches(n, size):
    for chunk in torch.randperm(n).split(size):
        yield chunk


def train_teacher(net, x, y, epochs=10):
    opt = torch.optim.Adam(net.parameters(), lr=1e-3, weight_decay=1e-4)
    for _ in range(epochs):
        for idx in batches(len(x), 64):
            opt.zero_grad()
            F.cross_entropy(net(x[idx]), y[idx]).backward()
            opt.step()
    return net.eval().requires_grad_(False)


def train_student(student, teacher, x_unl, x_lab, y_lab, temperature=4.0, alpha=0.9, epochs=10):
    opt = torch.optim.Adam(student.parameters(), lr=2e-3)
    for ep in range(epochs):
        kd_sum = 0.0
        for idx in batches(len(x_unl), 64):
            lab = torch.randint(0, len(x_lab), (16,))
            kd = distil_loss(student(x_unl[idx]), teacher(x_unl[idx]), temperature)
            ce = F.cross_entropy(student(x_lab[lab]), y_lab[lab])
            loss = alpha * kd + (1 - alpha) * ce
            opt.zero_grad()
            loss.backward()
            opt.step()
            kd_sum += kd.item() * len(idx)
        if ep % 5 == 4:
            print(f"student epoch {ep + 1}: kd {kd_sum / len(x_unl):.4f}")


def report(name, net, x, y):
    with torch.no_grad():
        logits = net(x)
    acc = (logits.argmax(1) == y).float().mean().item()
    print(f"{name} test accuracy {acc:.3f} test log-loss {F.cross_entropy(logits, y).item():.3f}")


if __name__ == "__main__":
    torch.manual_seed(3)
    world = World(3)
    x_big, y_big = world.draw(4000)
    x_unl, _ = world.draw(4000)
    x_lab, y_lab = world.draw(60)
    x_test, y_test = world.draw(2000)
    teacher = train_teacher(mlp(128), x_big, y_big)
    report("teacher", teacher, x_test, y_test)
    student = mlp(24)
    train_student(student, teacher, x_unl, x_lab, y_lab)
    report("student", student, x_test, y_test)
