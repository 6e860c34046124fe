"""An HTML page, read: tags that close in order, the words of cells, and nothing that is fetched."""

from __future__ import annotations

from html.parser import HTMLParser

__all__ = ["Page"]

VOID = frozenset({"meta", "br", "img"})


class Page(HTMLParser):
    def __init__(self, source: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.rows: list[list[str]] = []
        self.words: list[str] = []
        self.feed(source)
        self.close()
        assert not self.open
        fetched = {"src", "href", "onclick"}
        assert not [value for _, held in self.found for name, value in held.items() if name in fetched]
        assert not set(self.tags) & {"script", "link"}

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] in ("td", "th"):
            self.rows[-1][-1] += data
        if data.strip() and "style" not in self.open:
            self.words.append(data.strip())

    @property
    def tags(self) -> list[str]:
        return [tag for tag, _ in self.found]

    @property
    def text(self) -> str:
        return " ".join(self.words)

    def of(self, tag: str, kind: str = "") -> list[dict[str, str | None]]:
        """The attributes of every such tag, of one class if `kind` is given."""
        return [held for name, held in self.found if name == tag and kind in ("", held.get("class"))]
