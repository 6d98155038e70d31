"""A model's folder: weights as safetensors or not at all.

A ``.bin`` or ``.pt`` file is a pickle, and unpickling runs whatever program its author put into it, so such
files are refused, never opened. safetensors files hold numbers and nothing else; their headers are read
before anything is loaded, so that a truncated download is named as such. Code that comes with a model is
never run. Nothing here touches the network unless a hub id was asked for with ``hub=True``.
"""

from __future__ import annotations

import io
import math
import os
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from hardmax.errors import (
    DamagedFileError,
    FileFormatError,
    InvalidInputError,
    NotFiniteError,
    UnsupportedModelError,
)
from hardmax.models.reading.families import FAMILIES, family_of
from hardmax.models.reading.sources import required
from hardmax.untrusted import (
    LONGEST_TEXT,
    check_plain,
    first_line,
    is_panic,
    parsed_json,
    plain_bytes,
    said_plainly,
)

_LOCAL = {"local_files_only": True, "trust_remote_code": False}
_PICKLES = ("*.bin", "*.pt", "*.pth", "*.ckpt", "*.pkl")
_SAFE_FILES = ["*.safetensors", "*.safetensors.index.json", "*.json", "*.txt", "*.model", "*.jinja"]
_VOCABULARIES = {"tokenizer.json", "vocab.txt", "vocab.json"}
_TEXTS = ("config.json", "tokenizer.json", "tokenizer_config.json")
_MOST_TENSORS = 100_000  # of one file: each takes some microseconds
_MOST_GROWTH = 100  # of a text by a tokenizer, which has no limit of its own
_MOST_LABELS = 10**6  # transformers writes a name for each
_MOST_LAYERS = 1000  # of a model whose layers share their weights
_UNREAD_NUMBERS = 10**8  # of heads and poolers, which a file may lack
# Heads and poolers stand behind all attention: without their weights nothing that is read here changes.
_UNREAD = ("pooler", "lm_head", "cls.", "classifier", "score", "qa_outputs", "mask_token")


def downloaded(name: str) -> Path:
    """The folder of a hub id in the local cache, brought there from the hub."""
    hub = required("huggingface_hub")
    try:
        return Path(hub.snapshot_download(name, allow_patterns=_SAFE_FILES))
    except (OSError, ValueError, hub.errors.HfHubHTTPError) as error:
        raise InvalidInputError(
            f"model must be the id of a model on the hub that can be reached, but {name!r} could not be "
            f"brought here ({first_line(error)})."
        ) from error


def check_folder(model: str | os.PathLike[str]) -> Path:
    """The folder of a model, once its files are known to be complete and safe.

    Raises
    ------
    FileNotFoundError
        When there is no such folder.
    FileFormatError
        When weights are missing, truncated, damaged or pickled.
    """
    folder = named_folder(model)
    if not (folder / "config.json").is_file():
        raise FileFormatError(f"{folder} must hold the config.json of a model, but does not.")
    for path in folder.iterdir():  # transformers opens files of many names, and waits for a pipe
        if any(path.match(pattern) for pattern in _SAFE_FILES):
            check_plain(path)
            if path.suffix != ".safetensors" and path.is_file() and path.stat().st_size > LONGEST_TEXT:
                raise DamagedFileError(f"{path} must have at most {LONGEST_TEXT:,} bytes, but has more.")
    for name in _TEXTS:
        if (folder / name).is_file():
            stated = parsed_json(plain_bytes(folder / name), str(folder / name))
            if not isinstance(stated, dict):
                raise DamagedFileError(f"{folder / name} must be a JSON object, but is not.")
            labels = stated.get("num_labels", 0)
            if isinstance(labels, (int, float)) and labels > _MOST_LABELS:
                raise DamagedFileError(f"{folder / name} must have at most {_MOST_LABELS:,} labels.")
            with said_plainly(f"{folder / name} must have a normalizer, but it cannot be read"):
                growth = _growth(stated.get("normalizer"))
            if growth > _MOST_GROWTH:
                raise DamagedFileError(
                    f"{folder / name} must not make texts longer than {_MOST_GROWTH:,} times, but would."
                )
    for path in _weight_files(folder):
        _check_tensors(path)
    if (folder / "adapter_config.json").exists():
        raise UnsupportedModelError(
            str(folder), ["it is an adapter of another model; merge the two first"], sorted(FAMILIES)
        )
    return folder


def named_folder(model: str | os.PathLike[str]) -> Path:
    """The folder that a path names, if there is one; nothing need be installed to ask."""
    folder = Path(model)
    if not str(model):  # Path("") is the present folder
        raise InvalidInputError("model must be the folder of a model, but is empty; give its path.")
    if folder.is_file():
        if any(folder.match(pattern) for pattern in _PICKLES):
            raise _pickled(folder.name)
        raise InvalidInputError(
            f"model must be a folder with config.json and model.safetensors, but {folder} is a file; give "
            "the folder that it is in."
        )
    if not folder.is_dir():
        raise FileNotFoundError(
            f"model must be the folder of a model, but there is none at {folder}; for an id on the hub, ask "
            "for the network with hub=True (--hub)."
        )
    return folder


def _weight_files(folder: Path) -> list[Path]:
    index = folder / "model.safetensors.index.json"
    if index.is_file():
        try:
            names = sorted(set(parsed_json(plain_bytes(index), str(index))["weight_map"].values()))
        except (LookupError, AttributeError, TypeError) as error:
            raise FileFormatError(f"{index} must say which tensor is in which file, but does not.") from error
        outside = [name for name in names if not isinstance(name, str) or Path(name).name != name]
        if outside:
            raise DamagedFileError(f"{index} must name files beside it, but names {outside[0]!r}.")
        if not names:
            raise FileFormatError(f"{index} must say which tensor is in which file, but names none.")
        missing = [name for name in names if not (folder / name).is_file()]
        if missing:
            raise FileFormatError(
                f"{folder} must hold all files of its index, but {missing[0]} is missing; "
                "bring the folder here again."
            )
        return [folder / name for name in names]
    if (folder / "model.safetensors").is_file():
        return [folder / "model.safetensors"]
    pickles = sorted(path.name for pattern in _PICKLES for path in folder.glob(pattern))
    if pickles:
        raise _pickled(pickles[0])
    raise FileFormatError(
        f"{folder} must hold weights as model.safetensors, but has no weights file; "
        "save the model again with model.save_pretrained(folder)."
    )


def _pickled(name: str) -> FileFormatError:
    return FileFormatError(
        f"weights must be a safetensors file, but {name} is a pickle, which may run any program when it is "
        "opened; convert it with the tool that made it: model.save_pretrained(folder)."
    )


def _check_tensors(path: Path) -> tuple[int, int]:
    """How many tensors a file holds, and how many numbers."""
    safetensors = required("safetensors")
    try:
        with safetensors.safe_open(str(path), framework="np") as file:
            names = list(file.keys())
            if len(names) > _MOST_TENSORS:
                raise DamagedFileError(
                    f"{path} must hold at most {_MOST_TENSORS:,} tensors, but holds {len(names):,}."
                )
            return len(names), sum(math.prod(file.get_slice(name).get_shape()) for name in names)
    except (safetensors.SafetensorError, OSError, MemoryError) as error:
        raise DamagedFileError(
            f"{path} must be a complete safetensors file, but it is truncated or damaged "
            f"({first_line(error)}); bring it here again."
        ) from error


def check_writes(config: Any, name: str) -> None:
    """Refuse what is no decoder by itself: an encoder, or one with a decoder that reads it."""
    transformers = required("transformers")
    pair = getattr(config, "is_encoder_decoder", False)
    decodes = getattr(config, "is_decoder", False) or getattr(config, "causal", False)
    encodes = type(config) in transformers.MODEL_FOR_MASKED_LM_MAPPING and not pair and not decodes
    if type(config) in transformers.MODEL_FOR_CAUSAL_LM_MAPPING and not (pair or encodes):
        return
    why = "is an encoder, which does not write text" if encodes else "is none"
    raise InvalidInputError(
        f"model must be a decoder that writes by itself, but {name} ({config.model_type}) {why}; its atlas "
        "on a text comes from head_atlas."
    )


def loaded(folder: Path, *, writes: bool = False) -> Any:
    """The model of a checked folder, in the precision of its weights: without its head, or, where it
    ``writes``, with the one over the vocabulary.

    Raises
    ------
    InvalidInputError
        When it shall write, but is no decoder by itself.
    UnsupportedModelError
        When its architecture is unknown, or its own code would be needed.
    FileFormatError
        When its weights do not belong to its configuration.
    """
    transformers = required("transformers")
    try:
        with _quiet():
            config = transformers.AutoConfig.from_pretrained(folder, **_LOCAL)
    except Exception as error:  # transformers raises whatever a strange configuration leads to
        raise UnsupportedModelError(str(folder), [_unknown(folder, error)], sorted(FAMILIES)) from error
    # flash and the like are for other machines; which one a model is read with changes no number
    config._attn_implementation = None
    config.name_or_path = str(folder)
    family_of(SimpleNamespace(config=config, modules=list))  # refused before gigabytes are loaded
    _check_size(folder, config)
    kind = transformers.AutoModelForCausalLM if writes else transformers.AutoModel
    if writes:
        check_writes(config, folder_name(folder))
    try:
        with _quiet():
            model, report = kind.from_pretrained(
                folder,
                config=config,
                dtype="auto",
                use_safetensors=True,
                **_LOCAL,
                output_loading_info=True,
                ignore_mismatched_sizes=True,  # they are named below
            )
    except Exception as error:  # as above
        raise FileFormatError(
            f"{folder} must hold the weights that its config.json describes, but they could not be loaded "
            f"({first_line(error)})."
        ) from error
    for reason in _misfits(model, report, unread=() if writes else _UNREAD):
        raise FileFormatError(f"{folder} must hold the weights that its config.json describes, but {reason}.")
    return model


def _check_size(folder: Path, config: Any) -> None:
    """Refuse a configuration of a much larger model than the weights: it would be filled with random numbers.

    Raises
    ------
    DamagedFileError
        Before memory is taken for it.
    """
    counts = [_check_tensors(path) for path in _weight_files(folder)]
    n_tensors, n_numbers = (sum(column) for column in zip(*counts, strict=True))
    layers = getattr(config, "num_hidden_layers", 0)
    if not isinstance(layers, int) or not 0 <= layers <= max(_MOST_LAYERS, n_tensors):
        raise DamagedFileError(
            f"{folder / 'config.json'} must describe its weights, but has {layers} layers."
        )
    sentence = f"{folder} must hold the weights that its config.json describes, but they could not be loaded"
    with said_plainly(sentence), _quiet(), required("torch").device("meta"):
        model = required("transformers").AutoModel.from_config(config)
    stated = sum(tensor.numel() for tensor in model.parameters())
    if stated > 2 * n_numbers + _UNREAD_NUMBERS:
        raise DamagedFileError(
            f"{folder / 'config.json'} must describe its weights, but has {stated:,} numbers where there are "
            f"{n_numbers:,}."
        )


def _misfits(model: Any, report: dict[str, Any], *, unread: Iterable[str]) -> Iterator[str]:
    """What is wrong with the weights that were loaded, from transformers' report."""
    for key in sorted(key for key, *_ in report["mismatched_keys"]):
        yield f"{key} has another shape; give the config.json that was saved with them"
    missing = sorted(key for key in report["missing_keys"] if not any(part in key for part in unread))
    if missing:
        yield f"{len(missing)} are missing, {missing[0]} among them; they would be random numbers"

    def numberless(name: str) -> str:
        return re.sub(r"\d+", "#", name.removeprefix(f"{model.base_model_prefix}."))

    # weights like those of the model's own layers, but with another number
    own = {numberless(name) for name, _ in model.named_parameters()}
    for name in sorted(report["unexpected_keys"]):
        if "#" in numberless(name) and numberless(name) in own:
            yield f"it has more layers, with {name} among them; give the config.json that was saved with them"


@contextmanager
def _quiet() -> Iterator[None]:
    """No progress bars and no remarks of transformers, which are for people who train, for a while."""
    logging = required("transformers").utils.logging
    verbosity, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(verbosity)
        if bars:
            logging.enable_progress_bar()


def folder_name(folder: Path) -> str:
    """A name to print; many folders are called "model", which says nothing without what they are in."""
    folder = folder.resolve()
    return f"{folder.parent.name}/{folder.name}" if folder.name == "model" else folder.name


def tokenizer_of(folder: Path) -> Any:
    """The tokenizer of a folder, or None where it has none."""
    transformers = required("transformers")
    if not any(path.name in _VOCABULARIES or path.suffix == ".model" for path in folder.iterdir()):
        return None  # transformers would make one that knows no word
    try:
        with _quiet(), redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
            return transformers.AutoTokenizer.from_pretrained(folder, **_LOCAL)
    except Exception:  # transformers raises whatever the missing file leads to; reading a text says so
        return None
    except BaseException as error:
        if not is_panic(error):
            raise
        return None


def _growth(normalizer: Any) -> int:
    """A bound of how many times longer a normalizer of a tokenizer makes a text."""
    if isinstance(normalizer, list):
        return math.prod(map(_growth, normalizer))
    if not isinstance(normalizer, dict):
        return 1
    inside = _growth(normalizer.get("normalizers"))
    added = [normalizer.get(name) for name in ("content", "prepend")]
    return inside * max(1, *(len(text) for text in added if isinstance(text, str)), 1)


def check_finite(model: Any) -> None:
    """Refuse weights that are not numbers.

    Raises
    ------
    NotFiniteError
        Naming the first such tensor.
    """
    for name, tensor in model.named_parameters():
        if tensor.is_meta:
            raise InvalidInputError(
                f"model must have its weights in memory, but {name} is on the meta device; load it without "
                "offloading."
            )
        if tensor.is_floating_point() and not bool(tensor.isfinite().all()):
            raise NotFiniteError(
                f"the weights of a model must be finite, but {name} holds NaN or an infinity; take an "
                "earlier checkpoint."
            )


def _unknown(folder: Path, error: Exception) -> str:
    try:
        words = parsed_json(plain_bytes(folder / "config.json"), "config.json")
        kind = words.get("model_type")
    except (ValueError, OSError, AttributeError):
        return "its config.json cannot be read"
    if not isinstance(kind, str):
        return "its config.json names no architecture"
    if "auto_map" in words:
        return f"its architecture {kind!r} comes as code of its own, which is never run"
    if kind in required("transformers").CONFIG_MAPPING:
        return f"its config.json is not one of {kind!r} ({first_line(error)})"
    return f"its architecture {kind!r} is not known to transformers {required('transformers').__version__}"
