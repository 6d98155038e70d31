"""Trained models as safetensors files, and the one that comes with hardmax.

A file holds named tensors and a few words about them, no code: eight bytes for the length of a header, the
header in JSON (for each tensor its type, shape and place, and under ``__metadata__`` texts), and the numbers.
It is read and written here with numpy alone, so that the bundled model needs neither torch nor another
package; other programs open the same file.

The bundled model has two layers of two heads and was trained on the sum of two maxima of bilinear forms (P2
equation (6), D = 2) over 15 tokens: the smallest model of the experiments in which information has to travel
twice.
"""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hardmax.errors import DamagedFileError, DimensionMismatchError, FileFormatError, InvalidInputError
from hardmax.networks.transformer import Transformer
from hardmax.storage import written_whole
from hardmax.training.data import canonical
from hardmax.training.layout import TransformerShape
from hardmax.training.loop import TrainingResult, predict
from hardmax.training.piecewise import transformer_of
from hardmax.untrusted import first_line, parsed_json, plain_bytes
from hardmax.versions import installed_versions

Floats = NDArray[np.float32]

SCHEMA = 1
_FORMAT = "hardmax transformer"
_LONGEST_FILE = 2**30  # bytes: a quarter of a billion parameters
_LONGEST_HEADER = 10_000_000  # bytes; a foreign file may begin with any number
MODELS = ("pairwise-2", "pairwise-2-relu", "pairwise-2-relu-64")
"""Their names."""


@dataclass(frozen=True, eq=False)
class TrainedModel:
    """A transformer with its numbers, and what it was trained on.

    Parameters
    ----------
    shape : TransformerShape
    vector : array (P,)
        Its parameters.
    mean, scale : array (outputs,)
        A prediction is ``mean + scale *`` what the transformer puts out.
    about : mapping
        Anything in JSON that is worth knowing: the job, the NMSE it reached.

    Examples
    --------
    >>> import tempfile
    >>> shape = TransformerShape(3, 1, widths=(4,), heads=(1,), hidden=(8,))
    >>> model = TrainedModel(shape, shape.initial(0), about={"NMSE": 1.0})
    >>> path = model.save(tempfile.mkdtemp() + "/model.safetensors")
    >>> again = load_model(path)
    >>> bool((again.vector == model.vector).all()), again.about["NMSE"]
    (True, 1.0)
    """

    shape: TransformerShape
    vector: Floats
    mean: Floats | None = None
    scale: Floats | None = None
    about: Mapping[str, Any] | None = None

    def __post_init__(self) -> None:
        n = self.shape.n_outputs
        given = {
            "vector": np.array(self.vector, dtype=np.float32),
            "mean": np.array(np.zeros(n) if self.mean is None else self.mean, dtype=np.float32),
            "scale": np.array(np.ones(n) if self.scale is None else self.scale, dtype=np.float32),
        }
        self.shape.split(given["vector"])  # refuses a vector of another length
        for name, array in given.items():
            if name != "vector" and array.shape != (n,):
                raise DimensionMismatchError(f"{name} must have shape ({n},), but has shape {array.shape}.")
            array.setflags(write=False)
            object.__setattr__(self, name, array)
        object.__setattr__(self, "about", json.loads(canonical(dict(self.about or {}))))

    @classmethod
    def of(cls, result: TrainingResult, *, best: bool = True) -> TrainedModel:
        """The model of a training run, where its validation NMSE was least or at its end."""
        about = {
            "job": json.loads(result.job.to_json()),
            "best_validation_nmse": result.best,
            "final_validation_nmse": result.final,
            "samples": int(result.samples[-1]),
            "parameters": "best" if best else "final",
        }
        vector = result.best_parameters if best else result.parameters
        return cls(result.shape, vector, result.mean, result.scale, about)

    def __call__(self, X: ArrayLike) -> Floats:
        """What it says of sequences, in the units of the target: (B, T, d) -> (B, outputs)."""
        assert self.mean is not None  # for the type checker: __post_init__ filled both
        assert self.scale is not None
        return predict(self.shape, self.vector, X) * self.scale + self.mean

    def to_torch(self) -> Any:
        """The transformer as a torch module; its output is standardised (needs the extra ``training``)."""
        from hardmax.training.transformer import Transformer

        return Transformer(self.shape, self.vector)

    def to_transformer(self, *, rule: str = "hardmax") -> Transformer:
        """The model as a :class:`~hardmax.networks.transformer.Transformer`, to be followed along segments.

        Sequences get one more token, CLS, as their last row: zeros (:meth:`with_cls`). Only its output is
        read, in the units of the target, and it is never a key.

        Parameters
        ----------
        rule : {"hardmax", "softmax"}
            "softmax" is the model as it was trained, "hardmax" its limit at temperature zero.

        Examples
        --------
        >>> model = bundled_model("pairwise-2-relu")
        >>> soft = model.to_transformer(rule="softmax")
        >>> X = np.linspace(-1.0, 1.0, 60).reshape(15, 4)
        >>> bool(abs(soft(model.with_cls(X)) - model(X[None])).max() < 1e-5)
        True
        """
        return transformer_of(self.shape, self.vector, self.mean, self.scale, rule=rule)

    def with_cls(self, X: ArrayLike) -> NDArray[np.float64]:
        """Sequences (T, d) or (B, T, d) with a row of zeros behind the last token, where CLS stands."""
        tokens = np.asarray(X, dtype=np.float64)
        return np.concatenate([tokens, np.zeros((*tokens.shape[:-2], 1, tokens.shape[-1]))], axis=-2)

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the model to a safetensors file, whole or not at all."""
        if Path(path).suffix != ".safetensors":
            raise InvalidInputError(
                f"a model is saved as a safetensors file, so path must end in .safetensors, but was "
                f"{str(path)!r}."
            )
        tensors = {**self.shape.split(self.vector), "output.mean": self.mean, "output.scale": self.scale}
        words = {
            "format": _FORMAT,
            "schema": str(SCHEMA),
            "shape": canonical(self.shape.to_json()),
            "about": canonical(self.about),
            "hardmax": installed_versions()["hardmax"] or "",
        }
        with written_whole(path) as file:
            file.write(_packed({name: np.asarray(array) for name, array in tensors.items()}, words))
        return Path(path)


def _packed(tensors: Mapping[str, NDArray[Any]], words: Mapping[str, str]) -> bytes:
    header: dict[str, Any] = {"__metadata__": dict(words)}
    parts, at = [], 0
    for name, array in tensors.items():
        data = np.ascontiguousarray(array, dtype="<f4").tobytes()
        header[name] = {"dtype": "F32", "shape": list(array.shape), "data_offsets": [at, at + len(data)]}
        parts.append(data)
        at += len(data)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)  # numbers begin at a multiple of eight
    return struct.pack("<Q", len(text)) + text + b"".join(parts)


def load_model(path: str | os.PathLike[str]) -> TrainedModel:
    """Read a model that :meth:`TrainedModel.save` wrote.

    Raises
    ------
    FileFormatError
        When the file is truncated, of another program, of a newer hardmax, or holds other tensors than its
        shape.
    """
    tensors, words = _unpacked(plain_bytes(Path(path), most=_LONGEST_FILE), path)
    if not isinstance(words, dict) or not all(isinstance(word, str) for word in words.values()):
        raise DamagedFileError(f"{path} must hold texts about its tensors, but its header is damaged.")
    if words.get("format") != _FORMAT:
        raise FileFormatError(f"{path} is a safetensors file, but not one of a hardmax transformer.")
    schema = words.get("schema", "")
    if not schema.isdecimal() or len(schema) > 9 or int(schema) > SCHEMA:
        raise FileFormatError(
            f"{path} was written by a newer hardmax {words.get('hardmax', '')} (schema {schema}, this "
            f"version reads up to {SCHEMA}); upgrade hardmax to read it."
        )
    try:
        shape = TransformerShape.from_json(parsed_json(words["shape"], "its shape"))
        mean, scale = tensors.pop("output.mean"), tensors.pop("output.scale")
        return TrainedModel(shape, shape.join(tensors), mean, scale, parsed_json(words["about"], "its about"))
    except Exception as error:  # whatever numbers that do not fit together lead to
        raise DamagedFileError(
            f"{path} must hold the tensors of its transformer, but does not: {first_line(error)}."
        ) from error


def _unpacked(data: bytes, path: str | os.PathLike[str]) -> tuple[dict[str, NDArray[Any]], dict[str, str]]:
    try:
        (length,) = struct.unpack("<Q", data[:8])
        if length > min(len(data) - 8, _LONGEST_HEADER):
            raise ValueError("the header is longer than the file")
        header = parsed_json(data[8 : 8 + length], f"{path}: its header")
        words = header.pop("__metadata__", {})
        body = data[8 + length :]
        end = max((int(entry["data_offsets"][1]) for entry in header.values()), default=0)
        if end != len(body):
            raise ValueError("the tensors do not fill the file")
        tensors = {name: _tensor(name, entry, body, path) for name, entry in header.items()}
    except FileFormatError:
        raise
    except (struct.error, ValueError, LookupError, TypeError, AttributeError, OverflowError) as error:
        raise DamagedFileError(
            f"{path} must be a complete safetensors file, but it is truncated or damaged."
        ) from error
    return tensors, words


def _tensor(name: str, entry: Mapping[str, Any], body: bytes, path: Any) -> NDArray[Any]:
    if entry["dtype"] != "F32":
        raise FileFormatError(f"{path} must hold tensors of type F32, but {name!r} is {entry['dtype']}.")
    begin, end = entry["data_offsets"]
    if not (isinstance(begin, int) and isinstance(end, int) and 0 <= begin <= end <= len(body)):
        raise DamagedFileError(f"{path} is damaged: the place of its tensor {name!r} is not inside the file.")
    return np.asarray(np.frombuffer(body[begin:end], dtype="<f4").reshape(entry["shape"]))


def bundled_model(name: str = "pairwise-2") -> TrainedModel:
    """A model that comes with the package.

    Parameters
    ----------
    name : str
        ``"pairwise-2"``: target (6) with D = 2, heads (2, 2), T = 15. ``"pairwise-2-relu"`` is the same with
        ReLU in place of GELU, and ``"pairwise-2-relu-64"`` with ReLU and T = 64. ``about`` tells how each was
        trained and how well.

    Examples
    --------
    >>> from hardmax.training.data import outputs_of
    >>> model = bundled_model()
    >>> model.shape.heads, model.shape.n_tokens
    ((2, 2), 15)
    >>> (target,) = outputs_of(model.about["job"]["target"])
    >>> X = target.sample(1000, 15, rng=5)
    >>> bool(((model(X)[:, 0] - target(X)) ** 2).mean() < 1e-3 * target(X).var())
    True
    """
    if name not in MODELS:
        raise InvalidInputError(f"name must be one of {', '.join(MODELS)}, but was {name!r}.")
    with as_file(files("hardmax.training") / "trained" / f"{name}.safetensors") as path:
        return load_model(path)
