"""The data sets of the bundled recipes: file names, digests and public mirrors."""

from typing import Final

from trueloop.data.find import DataFile, DataSet

__all__ = ["FASHION_MNIST", "MNIST", "MOVIE_REVIEWS", "TINY_SHAKESPEARE"]


def _four_idx_files(train_images: str, train_labels: str, test_images: str, test_labels: str) -> tuple[DataFile, ...]:
    """MNIST and its successors use the same file names; given the md5 of each gzipped file."""
    train, test = (train_images, train_labels), (test_images, test_labels)
    names = (f"{part}-{kind}-ubyte" for part in ("train", "t10k") for kind in ("images-idx3", "labels-idx1"))
    named = zip(names, (*train, *test), strict=True)
    return tuple(DataFile(f"{name}.gz", f"md5:{md5}", also=(name,)) for name, md5 in named)


MNIST: Final = DataSet(
    title="MNIST",
    folders=("mnist", "MNIST/raw", "MNIST"),
    files=_four_idx_files(
        train_images="f68b3c2dcbeaaa9fbdd348bbdeb94873",
        train_labels="d53e105ee54ea40749a09fcbcd1e9432",
        test_images="9fb629c4189551a2d022fa330f9573f3",
        test_labels="ec29112dd5afa0611ce80d1b7f02629c",
    ),
    mirrors=("https://ossci-datasets.s3.amazonaws.com/mnist/", "https://storage.googleapis.com/cvdf-datasets/mnist/"),
    megabytes=12,
)

FASHION_MNIST: Final = DataSet(
    title="Fashion-MNIST",
    folders=("fashion-mnist", "FashionMNIST/raw", "FashionMNIST", "fashion"),
    files=_four_idx_files(
        train_images="8d4fb7e6c68d591d4c3dfef9ec88bf0d",
        train_labels="25c81989df183df01b3e8a0aad5dffbe",
        test_images="bef4ecab320f06d8554ea6380940ec79",
        test_labels="bb300cfdad3c16e7a12a480ee83cd310",
    ),
    mirrors=(
        "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
        "https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/master/data/fashion/",
    ),
    megabytes=31,
)

MOVIE_REVIEWS: Final = DataSet(
    title="The sentence polarity data (movie reviews)",
    folders=("movie-reviews", "rt-polaritydata"),
    files=(
        DataFile("rt-polarity.neg", "sha256:2d11cfbc790f1cd96d78339f41ce53ced1efa83cd22d37d6788fa3fe3d17e2fd"),
        DataFile("rt-polarity.pos", "sha256:4134882974a28d0c7b5151256f0e33a6169984ee7372c279e673f1114f475d58"),
    ),
    mirrors=("https://raw.githubusercontent.com/dennybritz/cnn-text-classification-tf/master/data/rt-polaritydata/",),
    megabytes=2,
)

TINY_SHAKESPEARE: Final = DataSet(
    title="Tiny Shakespeare",
    folders=("tinyshakespeare", "shakespeare"),
    files=(DataFile("input.txt", "sha256:86c4e6aa9db7c042ec79f339dcb96d42b0075e16b8fc2e86bf0ca57e2dc565ed"),),
    mirrors=("https://raw.githubusercontent.com/karpathy/char-rnn/master/data/tinyshakespeare/",),
    megabytes=2,
)
