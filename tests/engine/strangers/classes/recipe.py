from job import batches, labels, net, points, recall, triplet

from trueloop import Recipe, Splits, Tensors

recipe = Recipe(
    name="classes", model=net, data=lambda request: Splits(Tensors(points[:240], labels[:240]), Tensors(points[240:], labels[240:])),
    order=lambda epoch, generator, train: batches(epoch), loss=triplet, metrics={"recall": recall}, metric="recall",
    optimizer="adam", batch=16, epochs=4, lr=0.01, evaluation_batch=60, log_every=1, save_every=5, trackers=(), device="cpu",
)
