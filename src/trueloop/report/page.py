"""The frame of every HTML page: of reports, of `trueloop ui` and of what it exports."""

from pathlib import Path
from typing import Final

__all__ = ["STYLE", "full_page"]

STYLE: Final = Path(__file__).with_name("style.css")


def full_page(title: str, head: str, body: str) -> str:
    """All three are HTML already."""
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
{head}
</head>
<body>
{body}
</body>
</html>
"""
