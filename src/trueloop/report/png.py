"""Pictures as PNG files, without a library: eight bits, three colors, no filter."""

import struct
import zlib
from typing import Final

from trueloop.results.document import Picture, Tile

__all__ = ["GAP", "contact_sheet", "png"]

GAP: Final = 2  # white pixels between two tiles
SMALLEST: Final = 64  # Pixels of the longer side of a tile, at least: 8x8 pixels are too small to see
SIGNATURE: Final = b"\x89PNG\r\n\x1a\n"


def png(tile: Tile) -> bytes:
    """The file's bytes."""
    step = 3 * tile.width
    rows = b"".join(b"\0" + tile.rgb[start : start + step] for start in range(0, step * tile.height, step))
    header = struct.pack(">IIBBBBB", tile.width, tile.height, 8, 2, 0, 0, 0)
    return SIGNATURE + _chunk(b"IHDR", header) + _chunk(b"IDAT", zlib.compress(rows, 9)) + _chunk(b"IEND", b"")


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def contact_sheet(picture: Picture) -> Tile:
    """All tiles in one picture, row by row, each enlarged."""
    tiles = [enlarged(tile) for tile in picture.tiles]
    across = max(1, min(len(tiles), round(len(tiles) ** 0.5 * 1.5)))
    wide, high = max(tile.width for tile in tiles) + GAP, max(tile.height for tile in tiles) + GAP
    down = -(-len(tiles) // across)
    width, height = across * wide + GAP, down * high + GAP
    canvas = bytearray(b"\xff" * (3 * width * height))
    for number, tile in enumerate(tiles):
        left, top = GAP + number % across * wide, GAP + number // across * high
        for row in range(tile.height):
            at = 3 * ((top + row) * width + left)
            canvas[at : at + 3 * tile.width] = tile.rgb[3 * row * tile.width : 3 * (row + 1) * tile.width]
    return Tile(width, height, bytes(canvas))


def enlarged(tile: Tile) -> Tile:
    """Each pixel as a square, until the longer side has `SMALLEST` pixels."""
    times = -(-SMALLEST // max(tile.width, tile.height))
    if times <= 1:
        return tile
    rows = [tile.rgb[3 * row * tile.width : 3 * (row + 1) * tile.width] for row in range(tile.height)]
    wide = [b"".join(row[at : at + 3] * times for at in range(0, len(row), 3)) for row in rows]
    return Tile(
        tile.width * times, tile.height * times, b"".join(row for row in wide for _ in range(times)), tile.caption
    )
