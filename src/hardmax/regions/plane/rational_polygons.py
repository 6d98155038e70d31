r"""Polygons in exact integers: what the plane engine asks when floats cannot tell.

A line is four integers :math:`(a, b, c, m)`, the affine function :math:`ax + by + c + mM` with :math:`M`
beyond every number; only the four sides of the plane's symbolic box have :math:`m \ne 0`. A corner is the
cross product of two lines, :math:`(X + M D_x,\, Y + M D_y,\, W)` with :math:`W > 0`. Signs are compared in
the power of
:math:`M` first. Nothing here is rounded.
"""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["Corner", "Line", "corners_of", "domain_polygon", "envelope", "sign_at"]

Line = tuple[int, int, int, int]
Corner = tuple[int, int, int, int, int]  # X, Y, W, Dx, Dy
Polygon = tuple[list[Line], list[Corner], list[int]]  # with a label for every side

_PLANE: list[Line] = [(0, 1, 0, 1), (-1, 0, 0, 1), (0, -1, 0, 1), (1, 0, 0, 1)]


def meet(p: Line, q: Line) -> Corner:
    """Where two lines that are not parallel cross."""
    a1, b1, c1, m1 = p
    a2, b2, c2, m2 = q
    w = a1 * b2 - a2 * b1
    corner = (b1 * c2 - b2 * c1, c1 * a2 - c2 * a1, w, b1 * m2 - b2 * m1, m1 * a2 - m2 * a1)
    return corner if w > 0 else (-corner[0], -corner[1], -w, -corner[3], -corner[4])


def corners_of(lines: Sequence[Line]) -> list[Corner]:
    """The corners of a polygon: corner v is where lines v - 1 and v meet."""
    return [meet(lines[v - 1], lines[v]) for v in range(len(lines))]


def sign_at(line: Sequence[int], corner: Corner) -> int:
    """The sign of an ordinary line at a corner: -1, 0 or 1.

    >>> sign_at((1, 1, -3, 0), meet((1, 0, -1, 0), (0, 1, -2, 0)))     # x + y - 3 at (1, 2)
    0
    """
    a, b, c = line[0], line[1], line[2]
    x, y, w, dx, dy = corner
    value = a * dx + b * dy if dx or dy else 0
    if value == 0:
        value = a * x + b * y + c * w
    return (value > 0) - (value < 0)


def clip(
    lines: list[Line], corners: list[Corner], labels: list[int], cut: Line, label: int
) -> Polygon | None:
    """The part of a polygon where ``cut >= 0``; ``None`` if it has no interior."""
    signs = [sign_at(cut, corner) for corner in corners]
    if -1 not in signs:
        return lines, corners, labels
    if 1 not in signs:
        return None
    k = len(lines)
    start = next(v for v in range(k) if signs[v] == 1 and signs[v - 1] != 1)
    run = [start]
    while signs[(run[-1] + 1) % k] == 1:
        run.append((run[-1] + 1) % k)
    before, after = (start - 1) % k, (run[-1] + 1) % k
    entry = corners[before] if signs[before] == 0 else meet(lines[before], cut)
    leave = corners[after] if signs[after] == 0 else meet(lines[run[-1]], cut)
    return (
        [lines[before], *(lines[v] for v in run), cut],
        [entry, *(corners[v] for v in run), leave],
        [labels[before], *(labels[v] for v in run), label],
    )


def domain_polygon(halfspaces: Sequence[Sequence[int]]) -> tuple[list[Line], list[int]] | None:
    """The polygon of half-spaces :math:`ax + by + c \\ge 0` and the number of each side, -1 to -4 at
    infinity.

    ``None`` if it has no interior. Sides that touch it in a point only are left out.
    """
    lines, labels = list(_PLANE), [-1, -2, -3, -4]
    corners = corners_of(lines)
    for i, (a, b, c) in enumerate(halfspaces):
        if a == 0 and b == 0:
            if c < 0:
                return None
            continue
        clipped = clip(lines, corners, labels, (a, b, c, 0), i)
        if clipped is None:
            return None
        lines, corners, labels = clipped
    return lines, labels


def envelope(
    lines: list[Line], corners: list[Corner], rows: Sequence[Sequence[int]]
) -> list[tuple[int, list[int], list[int]]]:
    """The cells of the upper envelope of affine functions on a polygon, in order of their keys.

    Each is ``(key, tied, edges)``: the lowest key that wins there, all keys with that very score, and the
    edges counterclockwise, v >= 0 for side v of the polygon and -1 - i for the wall to key i.
    """
    tied: dict[tuple[int, ...], list[int]] = {}
    for i, row in enumerate(rows):
        tied.setdefault(tuple(row), []).append(i)
    keys = [group[0] for group in tied.values()]
    sides = list(range(len(lines)))
    waiting = _leaders(corners, rows, keys)
    seen = set(waiting)
    found = []
    while waiting:
        j = waiting.pop()
        a, b, c = rows[j][:3]
        walls: dict[int, Line] = {
            i: (a - rows[i][0], b - rows[i][1], c - rows[i][2], 0) for i in keys if i != j
        }
        part = _clipped((lines, corners, sides), walls)
        if part is None:
            continue
        found.append((j, tied[tuple(rows[j])], part[2]))
        for i, wall in walls.items():
            # level at two corners: another key whose wall is the same line, perhaps the one beyond it
            if i not in seen and sum(sign_at(wall, corner) == 0 for corner in part[1]) >= 2:
                seen.add(i)
                waiting.append(i)
    return sorted(found)


def _clipped(polygon: Polygon, walls: dict[int, Line]) -> Polygon | None:
    """The part of a polygon on the positive side of every wall."""
    for i, wall in walls.items():
        part = clip(*polygon, wall, -1 - i)
        if part is None:
            return None
        polygon = part
    return polygon


def _leaders(corners: list[Corner], rows: Sequence[Sequence[int]], keys: list[int]) -> list[int]:
    """Every key that nothing beats at some corner; one of them has a cell."""
    leaders = []
    for corner in corners:
        best = [keys[0]]
        for i in keys[1:]:
            sign = sign_at([u - v for u, v in zip(rows[i], rows[best[0]], strict=True)], corner)
            if sign > 0:
                best = [i]
            elif sign == 0:
                best.append(i)
        leaders += best
    return list(dict.fromkeys(leaders))
