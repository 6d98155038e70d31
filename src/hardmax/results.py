"""What all results share: they say in one line what they are, and they can be saved, tabled and drawn.

A result is a mathematical value: a frozen dataclass whose arrays are read-only. It knows where it came from
(its ``provenance``), and a file of it is written whole or not at all and never unpickled
(:mod:`hardmax.storage`).

A subclass states its ``kind`` and two small methods::

    @dataclass(frozen=True, eq=False, repr=False)
    class Diagram(Result):
        kind: ClassVar[str] = "Diagram"
        sites: NDArray[np.float64]

        def _summary(self): return f"{len(self.sites)} sites"   # follows the class name in the one-line repr
        def _table(self): return {"site": self.sites}           # columns; a matrix becomes several

``eq=False`` because arrays have no single truth value, ``repr=False`` because the one-line repr is the
base's. A file holds the fields by name. A class whose fields have no file form, or whose file holds other
names, has its own ``_state`` and ``_from_state``.
"""

from __future__ import annotations

import csv
import html
import io
import json
import math
import os
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from fractions import Fraction
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from hardmax import storage
from hardmax.errors import DamagedFileError, FileFormatError, MissingExtraError
from hardmax.fields import check_object, check_shapes, check_types
from hardmax.untrusted import first_line
from hardmax.versions import installed_versions

if TYPE_CHECKING:
    import pandas

_HTML_ROWS = 10
_PICTURES = "hardmax.plotting"  # stands above this module: named and loaded when a picture is asked for

# Where load finds the class of a kind that is not imported yet; a test holds the table to the classes.
_HOME_OF_KIND = {
    "Advice": "hardmax.flow.costs.advise",
    "CostEstimate": "hardmax.flow.costs.estimate",
    "AlongTraining": "hardmax.models.comparisons.along_training",
    "CellCount": "hardmax.regions.result",
    "CellEstimate": "hardmax.regions.sampling.estimate",
    "CellSurvival": "hardmax.temperature.cell_survival",
    "CertifiedTemperature": "hardmax.temperature.certified",
    "CertifiedTrace": "hardmax.regions.enclosures.trace",
    "CollidingPair": "hardmax.flow.theorems.colliding_pairs",
    "CommonRefinement": "hardmax.tropical.polynomials",
    "CorpusAtlas": "hardmax.models.atlas.corpus_atlas",
    "CorpusInfluence": "hardmax.models.influence.corpus_influence",
    "CorpusReport": "hardmax.models.report.corpus_report",
    "CostTable": "hardmax.flow.costs.cost_law",
    "DecisionBoundary": "hardmax.regions.decisions.boundary",
    "DecisionDistance": "hardmax.regions.decisions.distance",
    "GenerationAtlas": "hardmax.models.atlas.generation",
    "HeadAtlas": "hardmax.models.atlas.head_atlas",
    "HeadBudget": "hardmax.bounds.heads",
    "Hypersurface": "hardmax.tropical.hypersurfaces",
    "LayerSlice": "hardmax.models.atlas.layer_cells",
    "Ledger": "hardmax.papers.ledger",
    "InformationFlow": "hardmax.flow.information_sets",
    "InfluenceReport": "hardmax.models.influence.influence_report",
    "ModelComparison": "hardmax.models.comparisons.compare",
    "MinkowskiVertices": "hardmax.geometry.minkowski",
    "Network": "hardmax.networks.network",
    "FrozenContextEffect": "hardmax.regions.sequences.frozen_context",
    "FrozenNormEffect": "hardmax.models.atlas.frozen_norms",
    "NormedDiagram": "hardmax.regions.enclosures.normed_plane",
    "OrderKDiagram": "hardmax.geometry.diagrams.order_k_diagrams",
    "PowerDiagram": "hardmax.geometry.diagrams.power_diagrams",
    "AssumptionReport": "hardmax.models.atlas.assumptions",
    "MaxMargin": "hardmax.geometry.diagrams.max_margins",
    "RegionBounds": "hardmax.bounds.bound",
    "RegionCount": "hardmax.regions.result",
    "RegionSet": "hardmax.regions.result",
    "Recovery": "hardmax.training.states",
    "ModelReport": "hardmax.models.report.model_report",
    "Reproduction": "hardmax.papers.recipes",
    "RouterFlips": "hardmax.models.atlas.router_flips",
    "RouterLoad": "hardmax.models.atlas.router_load",
    "ScoreRanks": "hardmax.flow.costs.cost_law",
    "SegmentTrace": "hardmax.regions.segment.trace",
    "StabilityBounds": "hardmax.temperature.margin_bounds",
    "StabilityReport": "hardmax.temperature.observed_scores",
    "SubsetCount": "hardmax.geometry.many_heads",
    "TokenFlow": "hardmax.models.influence.routing_flow",
    "TrainingResult": "hardmax.training.loop",
    "Transformer": "hardmax.networks.transformer",
    "TransformerTrace": "hardmax.regions.sequences.trace",
    "TransitionBand": "hardmax.temperature.bands",
}


class Result(ABC):
    """Base of every public result.

    Attributes
    ----------
    kind : str
        The class attribute under which :func:`load` finds the class again.
    provenance : dict
        Versions of hardmax, Python and the packages that made the result; of the original maker for a loaded
        one.
    """

    kind: ClassVar[str]
    _nested: ClassVar[dict[str, type]] = {}  # the classes of the fields that hold dataclasses
    _optional: ClassVar[tuple[str, ...]] = ()  # fields that are not stored where they are None
    _shapes: ClassVar[dict[str, str]] = {}  # of arrays, as hardmax.fields reads them
    _timed: ClassVar[bool] = False  # whether a file says how long it took
    _kinds: ClassVar[dict[str, type[Result]]] = {}

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if "kind" in cls.__dict__:  # a class without a kind of its own is a base for others
            Result._kinds[cls.kind] = cls

    def __post_init__(self) -> None:
        self._freeze()

    # What a subclass provides
    # ----------------------------------------------------------------------------------

    @abstractmethod
    def _summary(self) -> str:
        """What follows the class name in the one-line repr."""

    @abstractmethod
    def _table(self) -> Mapping[str, Sequence[Any] | NDArray[Any]]:
        """The columns of the table, one row per item; a matrix becomes several columns."""

    # What it gets
    # ----------------------------------------------------------------------------------------------

    def _state(self) -> dict[str, Any]:
        """Everything that must survive a file, by name."""
        return _stored_fields(self)

    @classmethod
    def _from_state(cls, state: dict[str, Any]) -> Self:
        """The result of a state; raises when the state does not fit."""
        made: Self = _of_fields(cls, state)
        return made

    def _freeze(self) -> None:
        """Make every array of the dataclass read-only; call it in ``__post_init__``.

        An array that is still writeable is copied first, because the caller may hold it and write to it
        later; one that is read-only already is kept as it is.
        """
        if is_dataclass(self):
            for field in fields(self):
                if hasattr(self, field.name):
                    object.__setattr__(self, field.name, _read_only(getattr(self, field.name)))

    @cached_property
    def provenance(self) -> dict[str, Any]:
        """Versions of hardmax and of what it stands on when the result was made."""
        return {name: version for name, version in installed_versions().items() if version is not None}

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self._summary()}>"

    def _repr_html_(self) -> str:
        columns = columns_of(self._table())
        n_rows = max((len(column) for column in columns.values()), default=0)
        head = "".join(f"<th>{html.escape(name)}</th>" for name in ["", *columns])
        body = "".join(
            f"<tr><th>{i}</th>"
            + "".join(f"<td>{html.escape(_cell(column[i]))}</td>" for column in columns.values())
            + "</tr>"
            for i in range(min(n_rows, _HTML_ROWS))
        )
        rest = f"<p>… and {n_rows - _HTML_ROWS} more rows</p>" if n_rows > _HTML_ROWS else ""
        title = html.escape(f"{type(self).__name__}: {self._summary()}")
        table = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
        return f"<div><p><b>{title}</b></p>{table}{rest}</div>"

    def to_dict(self) -> dict[str, Any]:
        """The result in plain Python: lists, numbers, strings; exact fractions as ``"p/q"``."""
        return {"kind": self.kind, **plain(self._state()), "provenance": plain(self.provenance)}

    def to_frame(self) -> pandas.DataFrame:
        """The result as a table, one row per item (needs the extra ``tables``)."""
        try:
            import pandas
        except ImportError as error:
            raise MissingExtraError(
                "to_frame needs pandas, which is not installed; try: pip install pandas."
            ) from error
        return pandas.DataFrame(columns_of(self._table()))

    def plot(self, *, ax: Any = None, box: Any = None) -> Any:
        """Draw the result (needs the extra ``plot``).

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; a new figure otherwise.
        box : Box, optional
            The part of the plane that is shown, for pictures in the plane.

        Returns
        -------
        matplotlib Axes
            ``.figure.savefig("picture.svg")`` writes it to a file; no screen is needed.
        """
        return import_module(_PICTURES).draw(self, ax=ax, box=box)

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the result to an npz file, whole or not at all; :func:`load` reads it back.

        Two runs of the same question give the same bytes: how long it took is not written, but for trainings.
        """
        state = self._state() if self._timed else _untimed(self._state())
        return storage.write(path, storage.Stored(self.kind, state, self.provenance))


_TIMES = ("seconds", "cpu_seconds", "forward_seconds", "ratio_to_forward_pass")


def timeless(value: Any) -> Any:
    """Plain values without those that depend on the clock.

    >>> timeless({"n": 3, "layers": [{"seconds": 0.2, "d": 2}]})
    {'n': 3, 'layers': [{'d': 2}]}
    """
    if isinstance(value, dict):
        return {name: timeless(item) for name, item in value.items() if name not in _TIMES}
    return [timeless(item) for item in value] if isinstance(value, list) else value


def _untimed(value: Any) -> Any:
    """A state in which all that depends on the clock is zero, so that it is still complete."""
    if isinstance(value, dict):
        return {
            name: 0.0 if name in _TIMES and isinstance(item, float) else _untimed(item)
            for name, item in value.items()
        }
    return [_untimed(item) for item in value] if isinstance(value, (list, tuple)) else value


def pictures(module: str) -> Any:
    """A module of the pictures, for results whose ``plot`` has options of its own."""
    return import_module(f"{_PICTURES}.{module}")


def load(path: str | os.PathLike[str]) -> Any:
    """Read a result that was saved with its ``save`` method.

    The file is data: it is never unpickled, and only classes of hardmax are built from it.

    Parameters
    ----------
    path : path-like
        An npz file.

    Returns
    -------
    Result
        An object of the class that was saved, with the provenance of the original.

    Raises
    ------
    FileNotFoundError
        When there is no such file.
    FileFormatError
        When the file is empty, truncated, damaged, of another program, or of a newer hardmax.

    Examples
    --------
    >>> import tempfile
    >>> import hardmax as hm
    >>> path = tempfile.mkdtemp() + "/diagram.npz"
    >>> _ = hm.attention_diagram([[1.0, 0.0], [0.0, 1.0], [-1.0, -1.0]]).save(path)
    >>> hm.load(path).nonempty
    array([ True,  True,  True])
    """
    return restored(storage.read(path), str(path))


def restored(stored: storage.Stored, path: str) -> Any:
    """The result that was stored; ``path`` stands for its file in messages."""
    cls = _class_of(stored.kind)
    if cls is None:
        raise FileFormatError(
            f"{path} holds a {stored.kind!r}, which this version of hardmax does not know; "
            "upgrade hardmax to read it."
        )
    try:
        result = cls._from_state(stored.state)
        check_object(result)
        repr(result)
        if cls._state is Result._state:  # the others compute their tables
            _check_table(result._table())
    except KeyError as error:
        raise DamagedFileError(f"{path} must hold a complete {stored.kind}, but has no {error}.") from error
    except MissingExtraError:
        raise
    except Exception as error:  # whatever contents that do not fit together lead to
        raise DamagedFileError(
            f"{path} must hold a complete {stored.kind}, but its contents do not fit together: "
            f"{first_line(error)}."
        ) from error
    result.__dict__["provenance"] = stored.provenance
    return result


def _check_table(table: Mapping[str, Sequence[Any] | NDArray[Any]]) -> None:
    """Refuse a table whose columns are not of one length."""
    if len({len(column) for column in columns_of(table).values()}) > 1:
        raise DamagedFileError("the columns of its table must be of one length, but are not.")


def _class_of(kind: str) -> type[Result] | None:
    """The class of a kind; only modules of the table are imported, nothing that a file could name."""
    if kind not in Result._kinds and kind in _HOME_OF_KIND:
        import_module(_HOME_OF_KIND[kind])
    return Result._kinds.get(kind)


def _stored_fields(value: Any) -> dict[str, Any]:
    left_out = getattr(value, "_optional", ())
    stored = {field.name: _stored(getattr(value, field.name)) for field in fields(value)}
    return {name: v for name, v in stored.items() if v is not None or name not in left_out}


def _stored(value: Any) -> Any:
    """``value`` with dictionaries for the dataclasses in it and lists for its tuples."""
    for own in ("_state", "state"):
        if hasattr(value, own):
            return getattr(value, own)()
    if is_dataclass(value):
        return _stored_fields(value)
    if isinstance(value, (list, tuple)):
        return [_stored(item) for item in value]
    return value


def _of_fields(cls: type[Any], state: Mapping[str, Any]) -> Any:
    """The dataclass with these fields; its annotations say which lists were tuples, ``_nested`` the rest."""
    values = dict(state)
    for name, part in getattr(cls, "_nested", {}).items():
        if name in values:  # a file of an older version may lack it
            values[name] = _part(part, values[name])
    for field in fields(cls):
        if str(field.type).startswith("tuple") and field.name in values:
            values[field.name] = tuple(values[field.name])
    check_types(cls, values)
    check_shapes(values, getattr(cls, "_shapes", {}))
    return cls(**values)


def _part(cls: type[Any], state: Any) -> Any:
    if isinstance(state, list):
        return [_part(cls, item) for item in state]
    if state is None:
        return None
    return cls._from_state(state) if hasattr(cls, "_from_state") else _of_fields(cls, state)


def plain(value: Any) -> Any:
    """``value`` as lists, dictionaries, numbers and strings.

    Examples
    --------
    >>> plain({"x": np.arange(2), "p": Fraction(1, 3)})
    {'x': [0, 1], 'p': '1/3'}
    """
    if isinstance(value, np.ndarray):
        return plain(value.tolist())
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, Fraction):
        return str(value)
    if isinstance(value, Mapping):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    return value


def _read_only(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        if value.flags.writeable:
            value = value.copy()
            value.setflags(write=False)
        return value
    if type(value) in (list, tuple) and any(isinstance(item, np.ndarray) for item in value):
        return tuple(_read_only(item) for item in value)
    return value


def strict(value: Any) -> Any:
    """``plain(value)`` in strict JSON: NaN becomes null, an infinity the string ``"inf"`` or ``"-inf"``.

    Examples
    --------
    >>> strict({"x": np.array([1.0, np.nan, -np.inf])})
    {'x': [1.0, None, '-inf']}
    """
    return _strict(plain(value))


def _strict(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else str(value)
    if isinstance(value, dict):
        return {str(key): _strict(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_strict(item) for item in value]
    return value


def write_json(path: str | os.PathLike[str], value: Any) -> Path:
    """Write a value as strict JSON, whole or not at all."""
    text = json.dumps(strict(value), indent=1, allow_nan=False, ensure_ascii=False)
    with storage.written_whole(path) as file:
        file.write((text + "\n").encode())
    return Path(path)


def write_csv(path: str | os.PathLike[str], table: Mapping[str, Sequence[Any]]) -> Path:
    """Write columns of one length, whole or not at all; what is not a number there is empty."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(table)
    for row in zip(*table.values(), strict=True):
        writer.writerow(["" if isinstance(value, float) and math.isnan(value) else value for value in row])
    with storage.written_whole(path) as file:
        file.write(text.getvalue().encode())
    return Path(path)


def columns_of(table: Mapping[str, Sequence[Any] | NDArray[Any]]) -> dict[str, Any]:
    """One entry per column: a matrix is split into ``name_0``, ``name_1``, ...

    Examples
    --------
    >>> sorted(columns_of({"x": np.eye(2), "n": [1, 2]}))
    ['n', 'x_0', 'x_1']
    """
    columns: dict[str, Any] = {}
    for name, column in table.items():
        if isinstance(column, np.ndarray) and column.ndim == 2:
            columns.update({f"{name}_{i}": column[:, i] for i in range(column.shape[1])})
        else:
            columns[name] = column
    return columns


def _cell(value: Any) -> str:
    if isinstance(value, (float, np.floating)):
        return "" if math.isnan(value) else f"{value:.6g}"
    return str(value)
