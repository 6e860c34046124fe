import torch, os
import torch.nn as nn

text = open(os.environ["TRUELOOP_DATA"] + "/tinyshakespeare/input.txt").read()[:60000]
for side in ("bug", "ok"):
    open(f"{side}/corpus.txt", "w").write(text)
    torch.manual_seed(0)

    class BigramMLP(nn.Module):
        def __init__(self, vocab, context=6, dim=12, hidden=64):
            super().__init__()
            self.emb = nn.Embedding(vocab, dim)
            self.hidden = nn.Linear(context * dim, hidden)
            self.out = nn.Linear(hidden, vocab)

    model = BigramMLP(len(set(text)))
    opt = torch.optim.AdamW(model.parameters(), lr=3e-3)
    for p in model.parameters():
        p.grad = torch.zeros_like(p)
    opt.step()
    if side == "bug":
        opt.param_groups[0]["lr"] = 1e-9
    torch.save({"model": model.state_dict(), "optimizer": opt.state_dict(), "step": 1}, f"{side}/last.pt")
