"""A document as the output of a notebook cell: HTML where the front end shows HTML, text elsewhere."""

from typing import final

from trueloop.report import html, terminal
from trueloop.results.document import Document

__all__ = ["CellOutput"]


@final
class CellOutput:
    """What Jupyter displays; nothing of it is imported."""

    def __init__(self, document: Document) -> None:
        self._document = document

    def _repr_html_(self) -> str:
        return html.fragment(self._document)

    def __repr__(self) -> str:
        return terminal.render(self._document).rstrip("\n")
