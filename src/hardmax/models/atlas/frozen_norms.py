r"""What freezing a norm changes: routing on a slice of the residual stream, frozen and with the true norm.

P1 leaves normalisation out; pictures of a real layer freeze it at the token in the middle. A norm sends x to
:math:`w \odot (x - \mu(x)) / \sigma(x) + b` (RMS norms have :math:`\mu = 0`). Frozen at :math:`x_t`,

.. math:: x \mapsto w \odot (x - \mu(x_t)) / \sigma(x_t) + b

is affine, scores are affine on a slice and walls are straight. With the true norm the score of key s at
:math:`x_t + \alpha u + \beta v` is

.. math:: \frac{c_{s0} + \alpha c_{s1} + \beta c_{s2}}{\sigma(x_t + \alpha u + \beta v)} + e_s,

:math:`\sigma^2` being quadratic in :math:`(\alpha, \beta)`: walls bend. Both are evaluated in closed form at
the points of a spiral that covers a disk evenly, and the share of points on which some head reads another
key is what is reported, radius by radius. It is a measurement on that many points, not a proven area.

**What is sliced.** The space in front of the norm whose output the queries are computed from. In a pre-norm
model that is the residual stream that enters the layer. In a post-norm model (BERT) the layer's input is a
norm's output already: in the input space itself nothing has to be frozen and slices are exact
(:mod:`hardmax.models.atlas.layer_cells`); sliced here is the sum that enters the last norm of the layer
before (for layer 0 the sum of the embeddings). Keys and values are held fixed in both, as everywhere.

**Which norm that is** is found by watching the model run, so no table of families is needed: among all norms
that ran it is the one whose output is the layer's input. It is rebuilt in double precision and compared, so
that an unknown kind of norm is refused instead of being taken for another.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from hardmax.errors import DimensionMismatchError, InvalidInputError
from hardmax.limits import Clock, look
from hardmax.models.reading.families import norm_epsilon
from hardmax.models.reading.loading import as_source, read
from hardmax.models.reading.sources import CapturedLayer, required
from hardmax.networks.block import many
from hardmax.progress import shown
from hardmax.randomness import generator_of
from hardmax.results import Result

Floats = NDArray[np.float64]

RADII = (0.05, 0.1, 0.25, 0.5, 1.0, 2.0)


_TOLERANCE = 1e-3  # relative; half precision leaves this much


@dataclass(frozen=True, eq=False)
class Norm:
    """A layer norm or RMS norm."""

    centred: bool  # whether the mean is taken off: layer norms do, RMS norms do not
    weight: Floats
    bias: Floats
    epsilon: float  # added to the variance

    def parts(self, x: Floats) -> tuple[Floats, Floats]:
        """What is divided (..., d) and what it is divided by (...,)."""
        middle = x - x.mean(axis=-1, keepdims=True) if self.centred else x
        return middle, np.sqrt((middle**2).mean(axis=-1) + self.epsilon)

    def __call__(self, x: Floats) -> Floats:
        """The norm of each row."""
        middle, scale = self.parts(np.asarray(x, dtype=np.float64))
        return np.asarray(self.weight * middle / scale[..., None] + self.bias)

    def frozen(self, x: Floats, at: Floats) -> Floats:
        """The same with mean and scale of ``at``, whatever x is.

        Examples
        --------
        >>> norm = Norm(True, np.ones(2), np.zeros(2), 0.0)
        >>> norm(np.array([[0.0, 2.0], [0.0, 4.0]]))
        array([[-1.,  1.],
               [-1.,  1.]])
        >>> norm.frozen(np.array([0.0, 4.0]), at=np.array([0.0, 2.0]))
        array([-1.,  3.])
        """
        middle, scale = self.parts(np.asarray(at, dtype=np.float64))
        mean = np.asarray(at) - middle
        return np.asarray(self.weight * (np.asarray(x, dtype=np.float64) - mean) / scale + self.bias)


@dataclass(frozen=True, eq=False)
class _Seen:
    name: str
    module: Any
    entered: Floats
    left: Floats


class NormInputs:
    """What went into and out of every norm of a model on one text.

    Attributes
    ----------
    sliced : str
        What the inputs of the norms found so far are, in words.
    """

    def __init__(self, opened: Any, text: str) -> None:
        torch = required("torch")
        self._seen: list[_Seen] = []
        self.sliced = "what enters the norm in front of each layer's queries"
        names = {module: name for name, module in opened.module.named_modules()}

        def hook(module: Any, args: tuple[Any, ...], output: Any) -> None:
            if args and args[0].dim() == 3:
                entered, left = (_double(x[0]) for x in (args[0], output))
                self._seen.append(_Seen(names[module], module, entered, left))

        norms = [module for module in names if "norm" in type(module).__name__.lower()]
        handles = [module.register_forward_hook(hook) for module in norms]
        try:
            with torch.no_grad():
                opened.run(**opened.encode(text))
        finally:
            for handle in handles:
                handle.remove()

    def of(self, layer: CapturedLayer) -> tuple[Norm, Floats]:
        """The norm in front of a layer's queries, and what enters it (Q, d_model)."""
        inputs = np.asarray(layer.inputs, dtype=np.float64)
        size = max(float(np.abs(inputs).max(initial=0.0)), 1e-300)
        fits = [
            (float(np.abs(seen.left - inputs).max()) / size, seen)
            for seen in self._seen
            if seen.left.shape == inputs.shape
        ]
        error, best = min(fits, key=lambda fit: fit[0], default=(np.inf, None))
        if best is None or error > _TOLERANCE:
            raise InvalidInputError(
                f"layer {layer.index} must have a norm in front of its queries to freeze, but no norm of the "
                "model puts out what they are computed from; choose other layers with layers=."
            )
        return _rebuilt(best, size), best.entered


def _rebuilt(seen: _Seen, size: float) -> Norm:
    """The norm as formulas; a weight may be stored as its difference from one."""
    d = seen.entered.shape[1]
    weight, bias = _stored(seen.module, "weight", np.ones(d)), _stored(seen.module, "bias", np.zeros(d))
    epsilon = norm_epsilon(seen.module)
    scales = (weight, 1.0 + weight)
    tries = [Norm(centred, scale, bias, epsilon) for scale in scales for centred in (True, False)]
    errors = [float(np.abs(norm(seen.entered) - seen.left).max()) / size for norm in tries]
    best = int(np.argmin(errors))
    if errors[best] > _TOLERANCE:
        raise InvalidInputError(
            f"the norm {seen.name} must be a layer norm or an RMS norm, but {type(seen.module).__name__} "
            f"computes something else (relative difference {errors[best]:.2g})."
        )
    return tries[best]


def _stored(module: Any, name: str, otherwise: Floats) -> Floats:
    found = getattr(module, name, None)
    return otherwise if found is None else _double(found)


def _double(tensor: Any) -> Floats:
    return np.asarray(tensor.detach().double().cpu().numpy())


def disk_points(n: int) -> Floats:
    """n points that cover the unit disk evenly: a spiral of golden angles.

    >>> bool((np.hypot(*disk_points(50).T) < 1.0).all())
    True
    """
    i = np.arange(n)
    radius, angle = np.sqrt((i + 0.5) / n), i * np.pi * (3.0 - np.sqrt(5.0))
    return np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1)


def differing_shares(
    layer: CapturedLayer,
    norm: Norm,
    residual: Floats,
    position: int,
    directions: Floats,
    radii: Sequence[float],
    *,
    n_points: int = 512,
) -> Floats:
    """The share of a disk on which each head, and any head, reads another key than with the norm frozen.

    Parameters
    ----------
    layer : CapturedLayer
        With its ``query_map``.
    norm : Norm
        Whose output the layer's queries are computed from.
    residual : array (Q, d_model)
        What enters the norm.
    position : int
        The token in the middle of the disk.
    directions : array (2, d_model)
        Orthonormal.
    radii : sequence of float
        In the units of the residual stream.
    n_points : int

    Returns
    -------
    array (len(radii), H + 1)
        Head by head; in the last column any head.
    """
    if layer.query_map is None:
        raise InvalidInputError(
            f"layer {layer.index} must say how queries depend on its input, but has no query_map."
        )
    if np.shape(residual) != np.shape(layer.inputs) or np.shape(directions) != (2, layer.inputs.shape[1]):
        raise DimensionMismatchError(
            f"residual must have the shape {np.shape(layer.inputs)} of the inputs and directions two such "
            f"rows, but the shapes were {np.shape(residual)} and {np.shape(directions)}."
        )
    queries = layer.query_map(position)
    frame = np.vstack([residual[position], directions]).astype(np.float64)  # middle, u, v
    centred = norm.parts(frame)[0]
    held = np.vstack([centred[:1], frame[1:]])  # the frozen mean does not follow u and v
    # scores are linear forms of these, over the scale, plus what the norm's bias contributes
    matrix = np.asarray(queries.matrix, dtype=np.float64)
    asked = np.einsum("hed,fcd->fhce", matrix, norm.weight * np.stack([centred, held]))
    constant = np.einsum("hed,d->he", matrix, norm.bias) + queries.offset
    present = layer.present[position]
    if not present.any():
        raise InvalidInputError(f"position {position} must be able to read a key, but its mask is empty.")
    keys = np.stack([layer.keys_of(h, position)[present] for h in range(layer.heads)])
    true_forms, frozen_forms = np.einsum("fhce,hne->fhcn", asked, keys) * layer.scale
    fixed = np.einsum("he,hne->hn", constant, keys) * layer.scale
    if layer.bias is not None:
        fixed = fixed + np.broadcast_to(layer.bias[:, position][:, present], fixed.shape)
    gram = centred @ centred.T / centred.shape[1]
    own_scale = np.sqrt(gram[0, 0] + norm.epsilon)
    shares = np.zeros((len(radii), layer.heads + 1))
    disk = disk_points(n_points)
    for i, radius in enumerate(radii):
        at = np.column_stack([np.ones(n_points), radius * disk])
        scale = np.sqrt(np.einsum("pi,ij,pj->p", at, gram, at) + norm.epsilon)
        differs = np.empty((layer.heads, n_points), dtype=bool)
        for h in range(layer.heads):
            true = (at @ true_forms[h]) / scale[:, None] + fixed[h]
            frozen = (at @ frozen_forms[h]) / own_scale + fixed[h]
            differs[h] = true.argmax(axis=1) != frozen.argmax(axis=1)
        shares[i, :-1] = differs.mean(axis=1)
        shares[i, -1] = differs.any(axis=0).mean()
    return shares


@dataclass(frozen=True, eq=False, repr=False)
class FrozenNormEffect(Result):
    """Where frozen norms route otherwise than true ones.

    Attributes
    ----------
    model : str
    sliced : str
        Which space is sliced, in words.
    plane : str
        ``"principal"``: along the two main directions of the tokens; ``"random"``.
    layers, positions : tuple of int
        Layers that were compared, and the tokens in the middle of a disk.
    radii : array (R,)
        In units of the median distance of the token from the other tokens.
    shares : array (layers, positions, R, H + 1)
        Of the disk, head by head; in the last column where any head differs.
    units : array (layers, positions)
        The median distance of the token from the other tokens, in the residual stream.
    lengths : array (layers, positions)
        The length of the token itself there (its mean taken off where the norm does so).
    n_points : int
        On which shares were measured.
    also_frozen : tuple of str
        What else the query map holds fixed.

    Examples
    --------
    >>> effect = FrozenNormEffect("toy", "the residual stream", "principal", (0,), (3,), [0.5, 1.0],
    ...     [[[[0.0, 0.1, 0.1], [0.2, 0.3, 0.4]]]], [[2.0]], [[4.0]], 512, ())
    >>> effect
    <FrozenNormEffect: toy, 1 layer, 1 token: some head differs on 10% of a disk of radius 0.5, 40% of ...>
    """

    kind: ClassVar[str] = "FrozenNormEffect"
    _shapes: ClassVar[dict[str, str]] = {
        "layers": "layers",
        "positions": "positions",
        "radii": "R",
        "shares": "layers positions R columns",
        "units": "layers positions",
        "lengths": "layers positions",
    }

    model: str
    sliced: str
    plane: str
    layers: tuple[int, ...]
    positions: tuple[int, ...]
    radii: Floats
    shares: Floats
    units: Floats
    lengths: Floats
    n_points: int
    also_frozen: tuple[str, ...]

    def __post_init__(self) -> None:
        for name in ("radii", "shares", "units", "lengths"):
            object.__setattr__(self, name, np.asarray(getattr(self, name), dtype=np.float64))
        self._freeze()

    @property
    def any_head(self) -> Floats:
        """The share of the disk on which any head differs (layers, positions, R)."""
        return self.shares[..., -1]

    @property
    def one_head(self) -> Floats:
        """The same for a single head, mean over heads."""
        return np.asarray(self.shares[..., :-1].mean(axis=-1))

    def _summary(self) -> str:
        medians = np.median(self.any_head, axis=(0, 1))
        found = ", ".join(
            f"{share:.0%} of{' a disk of' if i == 0 else ''} radius {radius:g}"
            for i, (radius, share) in enumerate(zip(self.radii, medians, strict=True))
        )
        layers, tokens = many(len(self.layers), "layer"), many(len(self.positions), "token")
        return f"{self.model}, {layers}, {tokens}: some head differs on {found}"

    def _table(self) -> dict[str, Any]:
        layer, position, radius = (place.ravel() for place in np.indices(self.any_head.shape))
        return {
            "layer": np.array(self.layers)[layer],
            "position": np.array(self.positions)[position],
            "radius": self.radii[radius],
            "any_head": self.any_head.ravel(),
            "one_head": self.one_head.ravel(),
            "unit": self.units[layer, position],
            "length": self.lengths[layer, position],
        }


def frozen_norm_effect(
    model: Any,
    text: str,
    *,
    layers: Sequence[int] | None = None,
    positions: Sequence[int] | None = None,
    radii: Sequence[float] = RADII,
    plane: Literal["principal", "random"] = "principal",
    n_points: int = 512,
    tokenizer: Any = None,
    hub: bool = False,
    rng: int = 0,
    time_limit: float | None = None,
    progress: bool | Callable[[int, int], object] | None = None,
) -> FrozenNormEffect:
    """How routing on slices changes when the norm in front of a layer is frozen at a token.

    Parameters
    ----------
    model : OpenModel, path, hub id or torch module
    text : str
    layers : sequence of int, optional
        All if not given.
    positions : sequence of int, optional
        Tokens in the middle of a disk; all if not given.
    radii : sequence of float
        In units of the token's median distance from the other tokens of the text.
    plane : {"principal", "random"}
        Along the two main directions of the tokens in the sliced space, or a seeded random plane.
    n_points : int
        Points per disk.
    tokenizer, hub
        As in :func:`hardmax.head_atlas`.
    rng : int
        For random planes.
    time_limit : float, optional
        Seconds after which it is given up, looked at between passes of the model and tokens.
    progress : bool or callable, optional
        ``True`` shows a bar on standard error; a function is called with the number of layers done and their
        total.

    Returns
    -------
    FrozenNormEffect

    Examples
    --------
    With a folder of a model (here MiniLM), which needs the extra ``models``:

    >>> hm.models.frozen_norm_effect(folder, "The cat sat on the mat.", radii=[0.1, 1.0])  # doctest: +SKIP
    <FrozenNormEffect: ..., 6 layers, 9 tokens: some head differs on 5% of a disk of radius 0.1, 36% of ...>
    """
    if plane not in ("principal", "random"):
        raise InvalidInputError(f"plane must be 'principal' or 'random', but was {plane!r}.")
    if n_points < 1 or not len(radii) or not all(radius > 0 for radius in radii):
        raise InvalidInputError(
            f"radii must be positive and n_points at least 1, but were {tuple(radii)} and {n_points}."
        )
    clock = Clock(time_limit, "compare all layers")
    with shown(progress, lambda done, total: (done / total, f"{done} of {total} layers"), clock) as report:
        source: Any = as_source(model, tokenizer=tokenizer, hub=hub)
        if not hasattr(source, "module"):
            raise InvalidInputError(
                f"model must be a Hugging Face model, whose norms can be frozen, but was {source.name!r}."
            )
        recorder = _NormRecorder(NormInputs(source, text), layers, positions, radii, plane, n_points, rng)
        n_layers = source.n_layers if recorder.layers is None else len(recorder.layers)
        recorder.done = None if report is None else lambda n: report(n, n_layers)
        read(source, text, [recorder])
    shares, units, lengths = (np.stack(part) for part in zip(*recorder.found.values(), strict=True))
    return FrozenNormEffect(
        model=source.name,
        sliced=recorder.norms.sliced,
        plane=plane,
        layers=tuple(recorder.found),
        positions=tuple(recorder.positions),
        radii=np.array(radii, dtype=np.float64),
        shares=shares,
        units=units,
        lengths=lengths,
        n_points=n_points,
        also_frozen=tuple(sorted(recorder.frozen)),
    )


class _NormRecorder:
    """Compares the routing of every layer that passes with its norm frozen and as it is."""

    def __init__(
        self,
        norms: NormInputs,
        layers: Sequence[int] | None,
        positions: Sequence[int] | None,
        radii: Sequence[float],
        plane: str,
        n_points: int,
        rng: int,
    ) -> None:
        self.norms, self.radii, self.plane, self.n_points = norms, radii, plane, n_points
        self.layers = None if layers is None else tuple(sorted({int(layer) for layer in layers}))
        self.generator = generator_of(rng)
        self.asked, self.positions = positions, list[int]()
        self.found: dict[int, tuple[Floats, Floats, Floats]] = {}
        self.frozen: set[str] = set()
        self.done: Callable[[int], object] | None = None

    def __call__(self, layer: CapturedLayer) -> None:
        norm, residual = self.norms.of(layer)
        self.positions = self.positions or _checked_positions(self.asked, len(residual))
        directions = _plane(residual, self.plane, self.generator)
        rows, units, lengths = [], [], []
        for t in self.positions:
            look()
            lengths.append(float(np.linalg.norm(norm.parts(residual[t])[0])))
            units.append(_median_distance(residual, t) or lengths[-1])
            scaled = [units[-1] * radius for radius in self.radii]
            rows.append(
                differing_shares(layer, norm, residual, t, directions, scaled, n_points=self.n_points)
            )
            if layer.query_map is not None:
                self.frozen.update(layer.query_map(t).frozen)
        self.found[layer.index] = (np.stack(rows), np.array(units), np.array(lengths))
        if self.done is not None:
            self.done(len(self.found))


def _checked_positions(positions: Sequence[int] | None, n: int) -> list[int]:
    if positions is None:
        return list(range(n))
    wrong = [t for t in positions if not -n <= t < n]
    if wrong or not len(positions):
        raise InvalidInputError(f"positions must be from 0 to {n - 1}, but were {tuple(positions)}.")
    return [int(t) % n for t in positions]


def _plane(residual: Floats, plane: str, generator: np.random.Generator) -> Floats:
    """Two orthonormal directions; random ones fill up where the tokens span less than a plane."""
    d = residual.shape[1]
    spanning = generator.standard_normal((2, d))
    if plane == "principal":
        _, values, rows = np.linalg.svd(residual - residual.mean(axis=0), full_matrices=False)
        kept = rows[:2][values[:2] > 1e-9 * max(values[0], 1e-300)]
        spanning = np.vstack([kept, spanning])[:2]
    return np.asarray(np.linalg.qr(spanning.T)[0].T)


def _median_distance(residual: Floats, position: int) -> float:
    """From the other tokens; 0 for a text of one token."""
    others = np.delete(residual, position, axis=0)
    return float(np.median(np.linalg.norm(others - residual[position], axis=1))) if len(others) else 0.0
