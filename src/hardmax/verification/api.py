"""Exact questions about a network: does a property hold, and how large does an output get?"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from hardmax.errors import FileFormatError, IncompleteError, InvalidInputError
from hardmax.exact.arithmetic import fractions_of
from hardmax.exact.rationals import as_exact, fraction, rational
from hardmax.geometry.domains import Box, Domain, Polytope
from hardmax.limits import Clock
from hardmax.networks.network import Network
from hardmax.networks.reading.sources import NetworkLike, as_network
from hardmax.progress import shown
from hardmax.verification import certificate as certificates
from hardmax.verification import programs
from hardmax.verification.certificate import Certificate
from hardmax.verification.properties import (
    Atom,
    Condition,
    Constraint,
    Group,
    Joined,
    Linear,
    groups_of,
    parsed,
)
from hardmax.verification.search import Branch, Explorer, Progress, Violation, run
from hardmax.verification.stages import Program, program_of
from hardmax.verification.vnnlib import read_vnnlib

_SAMPLES = 512  # points that are tried before anything is cut
_SAVE_EVERY = 30.0  # seconds between checkpoints


@dataclass(frozen=True, eq=False, repr=False)
class Verdict:
    """What is known about a property.

    Attributes
    ----------
    verdict : {"holds", "violated", "unknown"}
        "holds" and "violated" are proven; "unknown" says that a limit came first.
    counterexample : tuple of Fraction or None
        An input of the domain that violates the property.
    outputs : tuple of Fraction or None
        What the network makes of it, without rounding.
    certificate : Certificate
        Of "unknown": the checkpoint from which the search goes on.
    share : float
        The share of the volume of the domain that is proven.
    n_nodes : int
        Nodes that were visited.
    seconds : float

    Examples
    --------
    >>> import hardmax as hm
    >>> net = hm.Network.mlp([([[1.0]], None), ([[2.0]], None)])
    >>> hm.verify(net, "y0 <= 1", hm.Box([0], [2])).verdict
    'violated'
    """

    verdict: str
    counterexample: tuple[Fraction, ...] | None
    outputs: tuple[Fraction, ...] | None
    certificate: Certificate
    share: float
    n_nodes: int
    seconds: float

    def __repr__(self) -> str:
        if self.counterexample is not None:
            at = ", ".join(f"{float(v):.6g}" for v in self.counterexample[:8])
            return f"<Verdict: violated at ({at})>"
        if self.verdict == "holds":
            return f"<Verdict: holds, {self.certificate.n_leaves} leaves>"
        return f"<Verdict: unknown, {100 * self.share:.3g} % of the volume proven>"


@dataclass(frozen=True, eq=False, repr=False)
class Maximum:
    """The largest value of a linear function of the outputs.

    Attributes
    ----------
    value : Fraction
        The supremum over the closed domain of the values of the network, its rule for ties included.
    point : tuple of Fraction
        Where it is attained; if it is not, a limit of inputs whose values approach it.
    attained : bool
        A network without hardmax or top-k heads is continuous and attains its maximum. Where such a head
        changes its mind the map jumps, and the larger side may be open.
    certificate : Certificate
        Proves that no value is larger.

    Examples
    --------
    >>> import hardmax as hm
    >>> net = hm.Network.mlp([([[1.0]], None), ([[2.0]], None)])
    >>> hm.maximise(net, 0, hm.Box([0], [2])).value
    Fraction(4, 1)
    """

    value: Fraction
    point: tuple[Fraction, ...]
    attained: bool
    certificate: Certificate

    def __repr__(self) -> str:
        how = "attained" if self.attained else "approached"
        at = ", ".join(f"{float(v):.6g}" for v in self.point[:8])
        return f"<Maximum: {self.value} ({float(self.value):.6g}), {how} at ({at})>"


def verify(
    network: NetworkLike,
    property: Condition | str | os.PathLike[str],
    domain: Domain | None = None,
    *,
    time_limit: float | None = None,
    max_nodes: int | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    progress: Callable[[Progress], object] | bool | None = None,
) -> Verdict:
    """Does a property hold at every input of a domain? Decided exactly, with a certificate.

    Parameters
    ----------
    network : Network, torch module, or path of an ONNX file or of a saved network
        Piecewise affine, with ReLU layers, maxout, and attention with the rules hardmax, top-k, sparsemax
        and relu.
    property : Condition, str or path of a VNN-LIB file
        What shall hold: text as in ``"y0 <= 3 and y1 > y0"``, or a condition made with
        :func:`~hardmax.verification.properties.outputs`. A path that ends in ``.vnnlib`` is read by
        :func:`~hardmax.verification.vnnlib.read_vnnlib`: such a file describes what must *not* be.
    domain : Box or Polytope, optional
        Closed and bounded. May be left out when the property bounds every input.
    time_limit : float, optional
        Seconds; the clock starts before anything is computed.
    max_nodes : int, optional
    checkpoint : path-like, optional
        Where what is proven so far is written, whole or not at all; the same call goes on from it.
    progress : bool or callable, optional
        ``True`` shows a bar; a function is called with a
        :class:`~hardmax.verification.search.Progress`.

    Returns
    -------
    Verdict
        Ctrl-C gives "unknown" with what is proven.

    Examples
    --------
    >>> import hardmax as hm
    >>> net = hm.Network.mlp([([[1.0], [-1.0]], [0.0, 0.0]), ([[1.0, 1.0]], [0.0])])    # |x|
    >>> hm.verify(net, "y0 <= 2", hm.Box([-1], [2]))
    <Verdict: holds, 2 leaves>
    >>> hm.verify(net, "y0 < 2", hm.Box([-1], [2])).counterexample
    (Fraction(2, 1),)
    """
    clock = Clock(time_limit)
    net = as_network(network)
    program = program_of(net)
    groups = groups_of(_unsafe(property), program.d, program.d_out, _domain(domain, program.d))
    return _verified(net, program, groups, clock, max_nodes, checkpoint, progress)


def _verified(
    network: Network,
    program: Program,
    groups: tuple[Group, ...],
    clock: Clock,
    max_nodes: int | None,
    checkpoint: str | os.PathLike[str] | None,
    progress: Any,
) -> Verdict:
    asked = certificates.question(program, groups)
    watch = _Watch(clock, max_nodes, len(groups))
    explorers = [Explorer(network, program, group, late=lambda: clock.over) for group in groups]
    trees = [Branch(explorer.root()) for explorer in explorers]
    if checkpoint is not None and Path(checkpoint).exists():
        trees = _resumed(Path(checkpoint), asked, program, explorers)
    verdict, violation = "holds", None
    with shown(progress, lambda seen: seen.line()) as report:
        try:
            for number, (explorer, tree) in enumerate(zip(explorers, trees, strict=True)):
                watch.group = number
                todo = certificates.open_branches(tree)
                watch.start(1.0 - sum(branch.node.share for branch in todo if branch.node is not None))
                found = _sampled(explorer) if tree.node is not None else None
                if found is None and todo:

                    def save() -> None:
                        _checkpoint(checkpoint, asked, trees)

                    verdict, found = run(
                        explorer, todo, keep_going=watch.checks(report, save if checkpoint else None)
                    )
                if found is not None:
                    verdict, violation = "violated", (number, found)
                if verdict != "holds":
                    break
        except KeyboardInterrupt:
            verdict = "unknown"
    made = certificates.certificate_of(asked, verdict, trees, violation, "verification")
    if checkpoint is not None:
        made.save(checkpoint)
    point, outputs = (None, None) if violation is None else (violation[1].point, violation[1].outputs)
    share = 1.0 if verdict == "holds" else watch.share
    return Verdict(verdict, point, outputs, made, share, watch.n_nodes, clock.seconds)


class _Watch:
    """Limits, progress and checkpoints of a search over several groups."""

    def __init__(self, clock: Clock, max_nodes: int | None, groups: int) -> None:
        self.clock, self.max_nodes = clock, max_nodes
        self.groups, self.group = max(groups, 1), 0
        self.n_nodes, self.share = 0, 0.0
        self._before, self._closed = 0, 0.0
        self._saved = self.clock.seconds

    def start(self, closed: float) -> None:
        """A group begins; this much of it is closed."""
        self._before, self._closed = self.n_nodes, closed

    def checks(self, report: Any, save: Callable[[], None] | None) -> Callable[[int, int, float], bool]:
        """What the search asks after every node: whether to go on."""

        def keep_going(nodes: int, n_open: int, closed: float) -> bool:
            now = self.clock.seconds
            self.n_nodes = self._before + nodes
            self.share = (self.group + min(self._closed + closed, 1.0)) / self.groups
            if report is not None:
                report(Progress(self.share, self.n_nodes, n_open, now))
            if save is not None and now - self._saved > _SAVE_EVERY:
                save()
                self._saved = self.clock.seconds
            return not self.clock.over and (self.max_nodes is None or self.n_nodes < self.max_nodes)

        return keep_going


def _checkpoint(path: Any, asked: dict[str, Any], trees: list[Branch]) -> None:
    certificates.certificate_of(asked, "unknown", trees, None, "verification").save(path)


def _resumed(path: Path, asked: dict[str, Any], program: Program, explorers: list[Explorer]) -> list[Branch]:
    record = certificates.read_certificate(path).record
    data = record["data"]
    if data.get("network") != asked["network"] or data.get("property") != asked["property"]:
        raise InvalidInputError(
            f"checkpoint must belong to this network and property, but {path} belongs to another; "
            "remove it or name another file."
        )
    if "trees" not in data:  # a violation: found again at once
        return [Branch(explorer.root()) for explorer in explorers]
    try:
        return [
            certificates.unflattened(program, explorer.root(), entries)
            for explorer, entries in zip(explorers, data["trees"], strict=True)
        ]
    except (ValueError, TypeError, KeyError, IndexError, AssertionError) as error:
        raise FileFormatError(
            f"{path} must be a checkpoint of hardmax verify, but its tree is broken."
        ) from error


def _sampled(explorer: Explorer) -> Violation | None:
    """Points all over the box, before anything is cut."""
    root = explorer.root()
    middle, radius = root.ball
    rng = np.random.default_rng(0)
    points = middle + radius * rng.uniform(-1, 1, (_SAMPLES, len(middle)))
    return explorer.try_points(points, root.live, root)


def maximise(
    network: NetworkLike,
    objective: ArrayLike | int,
    domain: Domain,
    *,
    time_limit: float | None = None,
    max_nodes: int | None = None,
    progress: Callable[[Progress], object] | bool | None = None,
) -> Maximum:
    r"""The exact maximum of :math:`c \cdot f(x)` over a domain.

    Parameters
    ----------
    network : Network, torch module, or path of an ONNX file or of a saved network
    objective : (d_out,) array_like or int
        :math:`c`; an integer names a single output.
    domain : Box or Polytope
        Closed and bounded.
    time_limit, max_nodes, progress
        As in :func:`verify`.

    Returns
    -------
    Maximum
        The supremum of the values of the network, whether it is attained, and a certificate that nothing is
        larger.

    Raises
    ------
    IncompleteError
        If a limit came first.

    Examples
    --------
    >>> import hardmax as hm
    >>> net = hm.Network.mlp([([[1], [1]], [0, -0.5]), ([[2, -4]], [0])])      # a tooth: 1 at 1/2
    >>> hm.maximise(net, [1], hm.Box([0], [1]))
    <Maximum: 1 (1), attained at (0.5)>

    A head that jumps from 0 to 3 behind 1/3: with the value 3 on the right of it, and 3/2 where both keys
    tie.

    >>> from fractions import Fraction
    >>> head = hm.Attention([[[0], [1]]], [[Fraction(1, 3), 0]], [[[0], [3]]], skip=False)
    >>> hm.maximise(hm.Network([head]), 0, hm.Box([0], [Fraction(1, 3)]))
    <Maximum: 3/2 (1.5), attained at (0.333333)>
    """
    clock = Clock(time_limit)
    net = as_network(network)
    program = program_of(net)
    coefficients = _objective(objective, program.d_out)
    sides = _domain(domain, program.d)
    if sides is None:
        raise InvalidInputError("domain must be a Box or a bounded Polytope, but was None.")
    lowest = Linear(tuple(("y", j, c) for j, c in enumerate(coefficients) if c))
    (group, *more) = groups_of(Joined(True, (sides,)), program.d, program.d_out) or [None]
    if group is None or more:
        raise InvalidInputError("domain must hold at least one point, but is empty.")
    inside = group.disjuncts[0]
    start = _start(net, group, inside, coefficients)
    goal = Constraint((Fraction(0),) * program.d, tuple(coefficients), -start[0], strict=True)
    group = Group(group.low, group.high, ((goal, *inside),))
    watch = _Watch(clock, max_nodes, 1)
    explorer = Explorer(net, program, group, rising=True, late=lambda: clock.over)
    explorer.best = (*start, True)
    tree = Branch(explorer.root())
    with shown(progress, lambda seen: seen.line()) as report:
        try:
            _sampled(explorer)
            verdict, _ = run(explorer, [tree], keep_going=watch.checks(report, None))
        except KeyboardInterrupt:
            verdict = "unknown"
    value, point, attained = explorer.best
    if verdict != "holds":
        raise IncompleteError(
            f"the maximum is not proven yet: it is at least {float(value):.6g}, and "
            f"{100 * watch.share:.3g} % of the volume is settled; raise the limit."
        )
    final = Group(group.low, group.high, (tuple(explorer.disjuncts[0]),))
    asked = certificates.question(program, (final,))
    claim = f"{lowest} <= {value}"
    return Maximum(value, point, attained, certificates.certificate_of(asked, "holds", [tree], None, claim))


def _start(
    network: Network, group: Group, inside: Sequence[Constraint], coefficients: list[Fraction]
) -> tuple[Fraction, tuple[Fraction, ...]]:
    """A point of the domain and its value."""
    low, high = [rational(v) for v in group.low], [rational(v) for v in group.high]
    rows = [
        programs.Row(tuple(rational(v) for v in c.x), rational(c.constant), ">" if c.strict else ">=")
        for c in inside
    ]
    point, _ = programs.decide(rows, low, high)
    if point is None:
        raise InvalidInputError("domain must hold at least one point, but is empty.")
    found = tuple(fraction(v) for v in point)
    values = network.exact_value(np.array(found, dtype=object))
    return sum((c * v for c, v in zip(coefficients, values, strict=True)), Fraction(0)), found


# Arguments
# ----------------------------------------------------------------------------------------------------------


def _objective(objective: Any, d_out: int) -> list[Fraction]:
    if isinstance(objective, (int, np.integer)) and not isinstance(objective, bool):
        if not 0 <= objective < d_out:
            raise InvalidInputError(
                f"objective must name an output from 0 to {d_out - 1}, but was {objective}."
            )
        return [Fraction(int(j == objective)) for j in range(d_out)]
    values: list[Fraction] = fractions_of(as_exact(objective, "objective", ndim=1)).tolist()
    if len(values) != d_out:
        raise InvalidInputError(
            f"objective must hold one number per output ({d_out}), but holds {len(values)}."
        )
    return values


def _unsafe(stated: Any) -> Condition:
    """What must not be."""
    if isinstance(stated, Condition):
        return ~stated
    if isinstance(stated, os.PathLike) or (isinstance(stated, str) and stated.endswith(".vnnlib")):
        return read_vnnlib(Path(stated))
    if isinstance(stated, str):
        return ~parsed(stated)
    raise InvalidInputError(
        "property must be a text such as 'y0 <= 3', a condition, or a VNN-LIB file, but was a "
        f"{type(stated).__name__}."
    )


def _domain(domain: Domain | None, d: int) -> Condition | None:
    if domain is None:
        return None
    if not isinstance(domain, (Box, Polytope)):
        raise InvalidInputError(
            f"domain must be a Box or a bounded Polytope, but was {domain!r}; give bounds."
        )
    if domain.d != d:
        raise InvalidInputError(f"domain must have the {d} inputs of the network, but has {domain.d}.")
    a, b = domain.a.numbers, fractions_of(domain.b)
    atoms: list[Condition] = []
    for row, bound in zip(a, b.tolist(), strict=True):
        terms = tuple(("x", i, -Fraction(row[i])) for i in np.flatnonzero(row).tolist())
        atoms.append(Atom(Linear(terms, bound), strict=False))
    if isinstance(domain, Polytope):
        rows = [[rational(v) for v in row] for row in fractions_of(domain.a).tolist()]
        try:
            sides = programs.bounding_box(rows, [rational(v) for v in b.tolist()])
        except ArithmeticError:
            raise InvalidInputError(f"domain must be bounded, but {domain!r} is not; add bounds.") from None
        if sides is None:
            return Joined(False, ())
        for i, (low, high) in enumerate(zip(*sides, strict=True)):
            x = Linear((("x", i, Fraction(1)),))
            atoms += [x >= fraction(low), x <= fraction(high)]
    return Joined(True, tuple(atoms))
