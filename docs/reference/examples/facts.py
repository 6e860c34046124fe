from torch import nn

from trueloop import Facts

facts = Facts(inputs=(64,), classes=("cat", "dog"), outputs=2, ignore=-100)


def model(facts: Facts) -> nn.Module:  # a recipe's model may ask for the facts of its data
    return nn.Linear(facts.inputs[0], facts.outputs)


assert model(facts).out_features == 2
