import os
import random

r = random.Random(77)
AA = "ACDEFGHIKLMNPQRSTVWY"
bg = "LLLLAAAAGGGVVVEEESSSIIKKRRDDTTPPNNQQFFYYMHCW"
fams = ["kinase", "globin", "zincfinger", "sh3", "ferredoxin", "lectin", "homeobox", "peptidase"]
motifs = {}
for f in fams:
    motifs[f] = ["".join(r.choice(AA) for _ in range(8)) for _ in range(2)]
near = {"L": "IVM", "I": "LVM", "V": "ILA", "D": "EN", "E": "DQ", "K": "RQ", "R": "KH", "S": "TA", "T": "SV", "F": "YW", "Y": "FH", "A": "SG", "G": "A",
        "N": "DS", "Q": "EK", "M": "LI", "H": "NY", "W": "FY", "C": "S", "P": "A"}


def protein(f):
    s = [r.choice(bg) for _ in range(r.randint(60, 90))]
    for k, m in enumerate(motifs[f]):
        at = r.randint(0, 20) + k * 28
        for i, a in enumerate(m):
            u = r.random()
            s[at + i] = a if u < .48 else (r.choice(near[a]) if u < .66 else r.choice(bg))
    return "".join(s)


train = [(f, protein(f)) for f in fams for _ in range(100)]
new = [(f, protein(f)) for f in fams for _ in range(50)]
r.shuffle(train)
r.shuffle(new)
again = r.sample(train, 370) + new[:30]
r.shuffle(again)
for side in ("bug", "ok"):
    for name, rows in (("pfam_train.fasta", train), ("pfam_test.fasta", again if side == "bug" else new)):
        with open(os.path.join(side, name), "w") as f:
            for i, (fam, s) in enumerate(rows):
                tag = "TR" if "train" in name else "TE"
                f.write(f">{tag}{i:05d} family={fam} len={len(s)}\n")
                for k in range(0, len(s), 60):
                    f.write(s[k:k + 60] + "\n")
