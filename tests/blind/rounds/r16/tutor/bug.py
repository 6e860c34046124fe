"""Distil a defect classifier for welding arcs into a net that fits the welding gun."""
import torch
import torch.nn.functional as F
from torch.utils.data import Dataset, DataLoader
from models import teacher_net, student_net

N_SENSORS, N_DEFECTS, TEMP = 16, 6, 3.0


class ArcWindows(Dataset):
    def __init__(self, n, proto):
        self.y = torch.randint(0, N_DEFECTS, (n,))
        self.x = proto[self.y] + 0.9 * torch.randn(n, N_SENSORS)

    def __len__(self):
        return len(self.y)

    def __getitem__(self, i):
        return i, self.x[i], self.y[i]


def accuracy(net, ds):
    net.eval()
    with torch.no_grad():
        return (net(ds.x).argmax(1) == ds.y).float().mean().item()


def fit_teacher(net, ds, epochs=6):
    opt = torch.optim.Adam(net.parameters(), lr=2e-3)
    for _ in range(epochs):
        for _, x, y in DataLoader(ds, batch_size=64, shuffle=True):
            opt.zero_grad()
            F.cross_entropy(net(x), y).backward()
            opt.step()


@torch.no_grad()
def teacher_bank(net, ds):
    """One forward pass over the transfer set; the logits are reused in every epoch."""
    net.eval()
    return torch.cat([net(chunk) for chunk in ds.x.split(256)])


def distil(student, bank, ds, epochs=8, batch=64):
    loader = DataLoader(ds, batch_size=batch, shuffle=True)
    opt = torch.optim.Adam(student.parameters(), lr=5e-3)
    for epoch in range(epochs):
        total = 0.0
        student.train()
        for step, (idx, x, _) in enumerate(loader):
            target = F.softmax(bank[step * batch:step * batch + len(x)] / TEMP, dim=1)
            logp = F.log_softmax(student(x) / TEMP, dim=1)
            loss = F.kl_div(logp, target, reduction="batchmean") * TEMP ** 2
            opt.zero_grad()
            loss.backward()
            opt.step()
            total += loss.item() * len(x)
        print(f"epoch {epoch} distillation loss {total / len(ds):.4f}")


def main():
    torch.manual_seed(13)
    proto = torch.randn(N_DEFECTS, N_SENSORS)
    labelled, transfer, test = (ArcWindows(n, proto) for n in (1200, 1500, 1000))
    teacher, student = teacher_net(N_SENSORS, N_DEFECTS), student_net(N_SENSORS, N_DEFECTS)
    fit_teacher(teacher, labelled)
    distil(student, teacher_bank(teacher, transfer), transfer)
    print(f"teacher {accuracy(teacher, test):.3f}  student test accuracy {accuracy(student, test):.3f}")


if __name__ == "__main__":
    main()
