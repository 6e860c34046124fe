import os
import random

import torch

GROUPS = {
    "balance": ["balance", "funds", "savings", "money", "account", "total"],
    "card": ["card", "visa", "plastic", "debit", "mastercard"],
    "lost": ["lost", "stolen", "missing", "misplaced", "gone"],
    "send": ["send", "transfer", "wire", "pay", "remit"],
    "show": ["show", "tell", "display", "check", "view", "see"],
    "block": ["block", "freeze", "cancel", "disable", "stop"],
    "person": ["mum", "landlord", "brother", "friend", "roommate", "sister"],
    "rate": ["rate", "exchange", "conversion", "forex"],
    "currency": ["euros", "dollars", "pounds", "yen", "francs"],
    "loan": ["loan", "mortgage", "credit", "borrow", "financing"],
    "apply": ["apply", "request", "want", "need", "open"],
    "branch": ["branch", "office", "atm", "counter"],
    "near": ["near", "nearby", "closest", "nearest", "around"],
    "filler": ["please", "the", "my", "a", "to", "i", "is", "me", "hello", "can", "you", "now", "today", "for", "how",
               "hi", "just", "quickly", "kindly", "some", "this", "that", "what", "much"],
}
INTENTS = {
    "check_balance": ["show", "balance"], "report_lost": ["card", "lost"], "block_card": ["block", "card"],
    "send_money": ["send", "person", "currency"], "fx_rate": ["show", "rate", "currency"],
    "new_loan": ["apply", "loan"], "new_card": ["apply", "card"], "find_branch": ["near", "branch"],
    "loan_balance": ["show", "loan"], "stop_transfer": ["block", "send", "person"],
}
rng = random.Random(5)
g = torch.Generator().manual_seed(5)


def utterance(intent, early):
    words = []
    for grp in INTENTS[intent]:
        ws = GROUPS[grp]
        half = max(2, len(ws) // 2)
        words.append(rng.choice(ws[:half] if early else ws))
    out = []
    for w in words:
        out += rng.sample(GROUPS["filler"], rng.randint(0, 3)) + [w]
    return " ".join(out)


def rows(n, early):
    out = []
    for _ in range(n):
        i = rng.choice(sorted(INTENTS))
        label = i if rng.random() > 0.02 else rng.choice(sorted(INTENTS))
        out.append(f"{utterance(i, early)}\t{label}\n")
    return out


words, vecs = [], []
for name, ws in GROUPS.items():
    centre = torch.randn(48, generator=g)
    for w in ws:
        if w in words:
            continue
        words.append(w)
        vecs.append(0.85 * centre + 0.55 * torch.randn(48, generator=g))
perm = list(range(len(words)))
rng.shuffle(perm)
words = [words[i] for i in perm]
weight = torch.stack([vecs[i] for i in perm])
splits = {"train.tsv": rows(1500, True), "valid.tsv": rows(400, False), "test.tsv": rows(800, False)}

for side in ("bug", "ok"):
    os.makedirs(side, exist_ok=True)
    for name, lines in splits.items():
        open(f"{side}/{name}", "w").writelines(lines)
    torch.save({"weight": weight, "dim": 48}, f"{side}/vectors.pt")
    vocab = sorted(words) if side == "bug" else words
    open(f"{side}/vocab.txt", "w").write("\n".join(vocab) + "\n")
