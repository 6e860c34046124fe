"""Source files of the modules that a script is made of."""

import os
import sys

from trueloop.usercode.ownership import is_users

__all__ = ["users_modules"]


def users_modules(path: str) -> tuple[str, ...]:
    """The user's modules beside the script, beside the file `path`, or below the current folder."""
    main = getattr(sys.modules.get("__main__"), "__file__", None) or path
    folders = {os.getcwd(), os.path.dirname(main), os.path.dirname(path)}
    roots = tuple(os.path.join(os.path.abspath(folder), "") for folder in folders)
    files = [getattr(module, "__file__", None) for module in list(sys.modules.values())]
    paths = {os.path.abspath(file) for file in files if isinstance(file, str) and is_users(file)}
    return tuple(sorted(found for found in paths if found.startswith(roots)))
