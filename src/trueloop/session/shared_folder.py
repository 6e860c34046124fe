"""Several processes, one run: the first makes or opens the folder and writes in it; the others are its guests."""

from collections.abc import Callable

from trueloop.errors import TrueloopError
from trueloop.parallel.peers import Peers
from trueloop.session.folder import RunFolder

__all__ = ["open_shared_folder"]


def open_shared_folder(peers: Peers, make: Callable[[], RunFolder]) -> RunFolder:
    """What the first process has made, on all of them; or its error: nobody may wait for one that has left."""
    folder: RunFolder | None = None
    error: TrueloopError | None = None
    if peers.first:
        try:
            folder = make()
        except TrueloopError as raised:
            error = raised
    told = (folder.path, folder.about) if folder else None, error
    made, error = peers.gather(told)[0]
    if error is not None:
        raise error
    return folder or RunFolder(*made, guest=True)
