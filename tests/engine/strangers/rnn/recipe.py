from job import BATCH, LENGTH, Recurrent, train, valid

from trueloop import Facts, Recipe, Splits
from trueloop.data.tracks import Tracks


def data(request):
    return Splits(Tracks(train, batch=BATCH, length=LENGTH), Tracks(valid, batch=4, length=LENGTH), facts=Facts(vocabulary=7))


recipe = Recipe(
    name="rnn", model=Recurrent, data=data, task="language", carry=True, order="sequential", optimizer="adam", batch=BATCH,
    epochs=4, lr=0.01, log_every=1, save_every=5, trackers=(), device="cpu",
)
