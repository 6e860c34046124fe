"""The student whose loss does not fall. `make tutorials` runs this and writes student.md."""

from tests.site.tutorial import Tutorial

tutorial = Tutorial("The student whose loss does not fall")

tutorial.say("""
A student trains a first network with a loop from a lecture. There is no error, but the network does not learn.
""")

tutorial.file(
    "train.py",
    """
import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
digits = load_digits()
images = torch.tensor(digits.images, dtype=torch.float32) / 16
labels = torch.tensor(digits.target)
loader = DataLoader(TensorDataset(images[:1400], labels[:1400]), batch_size=50, shuffle=True)

model = nn.Sequential(nn.Flatten(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)

for epoch in range(5):
    model.train()
    total = 0.0
    for x, y in loader:
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.zero_grad()
        optimizer.step()
        total += loss.item() * len(x)
    model.eval()
    with torch.no_grad():
        accuracy = (model(images[1400:]).argmax(1) == labels[1400:]).float().mean()
    print(f"epoch {epoch + 1}  loss {total / 1400:.4f}  val_acc {accuracy:.3f}")
""",
)

tutorial.run("python train.py", shows=["epoch 5  loss 2.3"])

tutorial.say("""
A loss of 2.30 is `log(10)`: the network guesses among ten digits. Before you change the learning rate or the layers,
let trueloop watch the same run. The script is not modified.
""")

tutorial.run("trueloop check train.py", code=1, shows=["GRD102", "it did not fall"])

tutorial.say("""
There is one finding, and it names the lines: `zero_grad()` is called between `backward()` and `step()`, so no step gets
a gradient. The exit code is 1. The page of the rule explains why this hurts, and when it is fine:
""")

tutorial.run("trueloop explain GRD102", shows=["Why it hurts"])

tutorial.say("""
To test whether this is the cause, `trueloop try` runs the script without and with a change, in copies of the folder,
and compares the runs. Here the change swaps the two calls; `train.py` itself is not modified.
""")

tutorial.file(
    "fix.diff",
    """
--- train.py
+++ train.py
@@ -19,4 +19,4 @@
         loss = nn.functional.cross_entropy(model(x), y)
-        loss.backward()
         optimizer.zero_grad()
+        loss.backward()
         optimizer.step()
""",
)

tutorial.run("trueloop try --patch fix.diff train.py", shows=["GRD102"])

tutorial.say("""
It is the cause. Apply the fix to the script and check again: the loss falls, and there are no findings.
""")

tutorial.run("patch -p0 < fix.diff")
tutorial.run("trueloop check train.py", shows=["epoch 5"])

tutorial.say("""
trueloop kept both checks as runs, with their curves:
""")

tutorial.run("trueloop runs", shows=["train-2"])

tutorial.say("""
If a loss stays at chance level, the learning rate is rarely the cause. First check whether the gradients reach the
weights.
""")
