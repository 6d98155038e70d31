"""Certificates: the tree of cuts with a proof per closed node, as plain exact values.

A certificate of "holds" has the network, the unsafe set as boxes with conjunctions, and one tree per box, its
nodes in depth-first order. A certificate of "violated" has the point. Both are replayed by
:mod:`hardmax.verification.replay`, which needs nothing but the standard library and trusts no number of the
search. A tree with open nodes is a checkpoint: the search goes on from it.
"""

from __future__ import annotations

import gzip
import json
import os
import zlib
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

from hardmax.errors import CertificateError, FileFormatError
from hardmax.results import pictures
from hardmax.storage import written_whole
from hardmax.untrusted import check_plain
from hardmax.verification import replay
from hardmax.verification.nodes import Cut, Node, children
from hardmax.verification.properties import Constraint, Group
from hardmax.verification.search import Branch, Violation
from hardmax.verification.stages import Program, canonical, digest, exact_text

SCHEMA = 1


@dataclass(frozen=True, eq=False)
class Certificate:
    """What proves a verdict.

    Attributes
    ----------
    record : dict
        Plain values, as the file holds them.
    network_sha256, property_sha256 : str
        Hashes of the network and of the unsafe set in canonical form.

    Examples
    --------
    >>> import hardmax as hm
    >>> net = hm.Network.mlp([([[1.0]], None), ([[2.0]], None)])
    >>> hm.verify(net, "y0 <= 4", hm.Box([0], [2])).certificate.replay()
    """

    record: dict[str, Any]

    @property
    def network_sha256(self) -> str:
        """The hash of the network."""
        return str(self.record["expected"]["network"])

    @property
    def property_sha256(self) -> str:
        """The hash of the unsafe set."""
        return str(self.record["expected"]["property"])

    @property
    def n_leaves(self) -> int:
        """The number of closed nodes of all trees."""
        trees = self.record["data"].get("trees", [])
        return sum(1 for tree in trees for entry in tree if entry != "open" and entry[1] is None)

    def replay(self) -> None:
        """Check the certificate with the code that anyone can run alone.

        Raises
        ------
        CertificateError
            If it does not prove what it says.
        """
        why = replay.failure(self.record)  # type: ignore[no-untyped-call]
        if why is not None:
            raise CertificateError(f"the certificate does not hold: {why}.")

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write it as JSON, compressed if the name ends in .gz; whole or not at all."""
        target = Path(path)
        content = json.dumps(self.record, separators=(",", ":")).encode("ascii")
        with written_whole(target) as file:
            file.write(gzip.compress(content, 6, mtime=0) if target.suffix == ".gz" else content)
        return target

    def plot(self, *, ax: Any = None) -> Any:
        """Draw the leaves of the proof as boxes of two inputs (needs the extra ``plot``).

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; a new figure otherwise.
        """
        return pictures("proofs").draw_certificate(self, ax=ax)

    def __repr__(self) -> str:
        verdict = self.record["expected"]["verdict"]
        return f"<Certificate: {verdict}, network {self.network_sha256[:12]}, {self.n_leaves} leaves>"


def read_certificate(path: str | os.PathLike[str]) -> Certificate:
    """A certificate or checkpoint from its file.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> import hardmax as hm
    >>> net = hm.Network.mlp([([[1.0]], None), ([[2.0]], None)])
    >>> proof = hm.verify(net, "y0 <= 4", hm.Box([0], [2])).certificate
    >>> file = proof.save(pathlib.Path(tempfile.mkdtemp()) / "proof.json.gz")
    >>> read_certificate(file).record == proof.record
    True
    """
    check_plain(Path(path))
    try:
        record = replay.read(Path(path))  # type: ignore[no-untyped-call]
    except (ValueError, RecursionError, EOFError, zlib.error) as error:
        raise FileFormatError(f"{path} must be a certificate written by hardmax verify: {error}.") from error
    if not isinstance(record, dict) or record.get("kind") != "verification" or "data" not in record:
        raise FileFormatError(f"{path} must be a certificate written by hardmax verify, but is not.")
    return Certificate(record)


def question(program: Program, groups: tuple[Group, ...]) -> dict[str, Any]:
    """The network and the unsafe set as plain values."""
    return {"network": canonical(program), "property": [_plain_group(group) for group in groups]}


def _plain_group(group: Group) -> dict[str, Any]:
    return {
        "low": [exact_text(v) for v in group.low],
        "high": [exact_text(v) for v in group.high],
        "unsafe": [[_plain_constraint(c) for c in conjunction] for conjunction in group.disjuncts],
    }


def _plain_constraint(constraint: Constraint) -> dict[str, Any]:
    return {
        "x": [exact_text(v) for v in constraint.x],
        "y": [exact_text(v) for v in constraint.y],
        "constant": exact_text(constraint.constant),
        "strict": constraint.strict,
    }


def certificate_of(
    asked: dict[str, Any],
    verdict: str,
    trees: list[Branch],
    violation: tuple[int, Violation] | None,
    claim: str,
) -> Certificate:
    """The certificate of a verdict, or the checkpoint of an unknown one."""
    data = dict(asked)
    if verdict == "violated":
        assert violation is not None
        group, found = violation
        data["violation"] = {
            "group": group,
            "conjunction": found.disjunct,
            "point": [exact_text(v) for v in found.point],
        }
    else:
        data["trees"] = [flattened(tree) for tree in trees]
    expected = {
        "verdict": verdict,
        "network": digest(asked["network"]),
        "property": digest(asked["property"]),
    }
    statement = {
        "holds": "No input of the boxes lies in the unsafe set.",
        "violated": "The point lies in the unsafe set.",
        "unknown": "Some nodes are open.",
    }[verdict]
    return Certificate(
        {
            "schema": SCHEMA,
            "kind": "verification",
            "claim": claim,
            "statement": statement,
            "data": data,
            "expected": expected,
        }
    )


def flattened(tree: Branch) -> list[Any]:
    """The entries of a tree in depth-first order: proofs and the cut, or "open"."""
    entries: list[Any] = []
    stack = [tree]
    while stack:
        branch = stack.pop()
        if branch.node is not None:
            entries.append("open")
        else:
            entries.append([branch.proofs, _plain_cut(branch.cut)])
            stack += reversed(branch.children)
    return entries


def _plain_cut(cut: Cut | None) -> list[Any] | None:
    if cut is None:
        return None
    if cut[0] == "x":
        return ["x", cut[1], exact_text(cut[2])]
    return [list(part) if isinstance(part, tuple) else part for part in cut]


def unflattened(program: Program, root: Node, entries: list[Any]) -> Branch:
    """The tree again, with the nodes of its open leaves."""
    tree = Branch(root)
    stack = [tree]
    for entry in entries:
        branch = stack.pop()
        if entry == "open":
            continue
        proofs, cut = entry
        node, branch.node = branch.node, None
        assert node is not None
        branch.proofs = proofs
        if cut is not None:
            if cut[0] == "x":
                value = replay.number(cut[2])  # type: ignore[no-untyped-call]
                branch.cut = ("x", cut[1], Fraction(value))
            else:
                branch.cut = tuple(tuple(part) if isinstance(part, list) else part for part in cut)
            closed = {proof[1] for proof in proofs}
            live = tuple(d for d in node.live if d not in closed)
            branch.children = [Branch(part) for part in children(program, node, branch.cut, live)]
            stack += reversed(branch.children)
    return tree


def open_branches(tree: Branch) -> list[Branch]:
    """The open leaves in depth-first order."""
    found, stack = [], [tree]
    while stack:
        branch = stack.pop()
        if branch.node is not None:
            found.append(branch)
        stack += reversed(branch.children)
    return found
