import gzip, numpy as np, json, os
n = 2600
with gzip.open(os.environ["TRUELOOP_DATA"] + "/fashion-mnist/t10k-labels-idx1-ubyte.gz") as f:
    y = np.frombuffer(f.read(8 + n), np.uint8, offset=8)
names = ["tshirt", "trouser", "pullover", "dress", "coat", "sandal", "shirt", "sneaker", "bag", "boot"]
lines = [names[i] for i in y]
for k in ("bug", "ok"):
    out = list(lines)
    if k == "bug": out = ["boot"] + out[:-1]
    open(f"{k}/labels.txt", "w").write("\n".join(out) + "\n")
    json.dump({"images": os.environ["TRUELOOP_DATA"] + "/fashion-mnist/t10k-images-idx3-ubyte.gz", "count": n, "valid": 600, "classes": names}, open(f"{k}/catalogue.json", "w"))
