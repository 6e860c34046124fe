import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

PHONES = ["_", "a", "e", "o", "k", "s"]
BLANK = 0


class PhoneClips(Dataset):
    def __init__(self, count, seed, n_mels=16):
        gen = torch.Generator().manual_seed(seed)
        spectra = torch.randn(len(PHONES), n_mels, generator=torch.Generator().manual_seed(99))
        spectra[0] = -1.0
        self.items = []
        for _ in range(count):
            n = int(torch.randint(3, 8, (1,), generator=gen))
            phones = torch.randint(1, len(PHONES), (n,), generator=gen)
            track = []
            for p in phones.tolist():
                track += [p] * int(torch.randint(3, 6, (1,), generator=gen)) + [0] * 2
            mel = spectra[torch.tensor(track)]
            mel = mel + 0.4 * torch.randn(mel.shape, generator=gen)
            self.items.append((mel, phones))

    def __len__(self):
        return len(self.items)

    def __getitem__(self, i):
        return self.items[i]


def collate(items):
    mels, phones = zip(*items)
    n_frames = torch.tensor([len(m) for m in mels])
    n_phones = torch.tensor([len(p) for p in phones])
    return nn.utils.rnn.pad_sequence(mels, batch_first=True), n_frames, \
        nn.utils.rnn.pad_sequence(phones, batch_first=True), n_phones


class Net(nn.Module):
    def __init__(self, n_mels=16, width=40):
        super().__init__()
        self.body = nn.Sequential(nn.Conv1d(n_mels, width, 5, padding=2), nn.BatchNorm1d(width), nn.ReLU(),
                                  nn.Conv1d(width, width, 5, padding=2), nn.BatchNorm1d(width), nn.ReLU())
        self.head = nn.Conv1d(width, len(PHONES), 1)

    def forward(self, mel):
        return self.head(self.body(mel.transpose(1, 2))).permute(2, 0, 1).log_softmax(-1)


def decode(path):
    path = [p for p in path if p != BLANK]
    return [p for i, p in enumerate(path) if i == 0 or p != path[i - 1]]


def levenshtein(hyp, ref):
    d = list(range(len(ref) + 1))
    for i, h in enumerate(hyp, 1):
        diag, d[0] = d[0], i
        for j, r in enumerate(ref, 1):
            diag, d[j] = d[j], min(d[j] + 1, d[j - 1] + 1, diag + (h != r))
    return d[-1]


def phone_error_rate(net, loader):
    net.eval()
    wrong = total = exact = clips = 0
    with torch.no_grad():
        for mel, n_frames, phones, n_phones in loader:
            best = net(mel).argmax(-1).t()
            for row, t, ref, n in zip(best, n_frames, phones, n_phones):
                hyp, ref = decode(row[:t].tolist()), ref[:n].tolist()
                wrong += levenshtein(hyp, ref)
                total += len(ref)
                exact += hyp == ref
                clips += 1
    return wrong / total, exact / clips


def main():
    torch.manual_seed(21)
    train = DataLoader(PhoneClips(700, seed=1), batch_size=25, shuffle=True, collate_fn=collate)
    dev = DataLoader(PhoneClips(150, seed=2), batch_size=50, collate_fn=collate)
    net = Net()
    ctc = nn.CTCLoss(blank=BLANK, zero_infinity=True)
    opt = torch.optim.AdamW(net.parameters(), lr=1e-2)
    for epoch in range(4):
        net.train()
        total = 0.0
        for mel, n_frames, phones, n_phones in train:
            loss = ctc(net(mel), phones, n_frames, n_phones)
            opt.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(net.parameters(), 5.0)
            opt.step()
            total += loss.item()
        per, exact = phone_error_rate(net, dev)
        print(f"epoch {epoch} loss {total / len(train):.3f} PER {per:.3f} exact clips {exact:.3f}")


main()
