"""Open a Hugging Face model and read a text with it.

A folder, an id on the hub (only with ``hub=True``) or a module with its tokenizer becomes an
:class:`OpenModel`, which shows its layers one by one as plain arrays
(:mod:`hardmax.models.reading.sources`). Nothing is shown that was not compared with the model's own
attention first (:mod:`hardmax.models.reading.capture`).

Every text goes through the model three times: once to capture, once to compare, once for the time it takes.
Layers are captured in groups that fit into a gigabyte, so long texts and deep models cost passes instead of
memory.

A model whose weights are bfloat16 or float16 is read in float32, because rounding of activations would hide
what is to be compared, and once more as it is. A second copy of all weights is not needed for that: before a
module runs, the weights that it holds itself are replaced by their float32 values, which are exact, and
afterwards by the originals. A plain embedding only copies rows, so its output is converted instead of its
table. Weights and attention implementations are exchanged in the model itself, so one thread at a time may do
it: :func:`alone` makes the others wait.
"""

from __future__ import annotations

import hashlib
import inspect
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Lock, RLock
from typing import Any
from weakref import WeakKeyDictionary

from hardmax.errors import DimensionMismatchError, InvalidInputError, MissingExtraError
from hardmax.limits import look
from hardmax.models.reading.capture import (
    Captured,
    Differences,
    capture,
    differences,
    native_difference,
    receiving,
    within_limit,
)
from hardmax.models.reading.families import Family, family_of, layer_kinds, longest_text
from hardmax.models.reading.folders import (
    check_finite,
    check_folder,
    downloaded,
    folder_name,
    loaded,
    named_folder,
    tokenizer_of,
)
from hardmax.models.reading.sources import (
    CapturedLayer,
    Recorder,
    Source,
    TextReading,
    Visit,
    chosen,
    required,
)
from hardmax.models.reading.watching import Watched, forward, watch
from hardmax.untrusted import said_plainly

_GROUP_BYTES = 1 << 30
_PROBE_TOKENS = 8
_KINDS = {
    "encoder": "encoder",
    "decoder": "decoder, which read what it has written",
    "cross": "decoder, which read the encoder",
}
_LOCKS: WeakKeyDictionary[Any, Any] = WeakKeyDictionary()
_ENTERING = Lock()


def open_model(model: Any, *, tokenizer: Any = None, hub: bool = False) -> OpenModel:
    """Open a model so that its attention can be read.

    Parameters
    ----------
    model : path-like or nn.Module
        A folder with config.json, model.safetensors and a tokenizer; with ``hub=True`` an id on the hub; or a
        module of transformers in evaluation mode. A model that is open already is returned.
    tokenizer : object, optional
        What turns text into numbers; that of the folder where none is given.
    hub : bool
        Whether the network may be used to bring ``model`` here. Without it nothing leaves the machine.

    Returns
    -------
    OpenModel
        Compared with its own attention on a few tokens already.

    Raises
    ------
    FileNotFoundError, FileFormatError
        When a folder is not there, has no weights, or has weights that are truncated or pickled.
    UnsupportedModelError
        With the complete list of what is not understood.
    FidelityError
        When what is read differs from what the model computes.
    NotFiniteError
        When weights are NaN or infinite.
    MissingExtraError
        When torch or transformers is not installed.
    """
    if isinstance(model, OpenModel):
        return model if tokenizer is None else replace(model, tokenizer=tokenizer)
    if isinstance(model, (str, os.PathLike)) and not hub:
        named_folder(model)  # a path that leads nowhere is no reason to install anything
    torch = required("torch")
    version = str(required("transformers").__version__)
    if int(version.split(".")[0]) < 5:
        raise MissingExtraError(
            f"reading a Hugging Face model needs transformers 5 or newer, but {version} is installed; try: "
            "pip install --upgrade transformers."
        )
    if isinstance(model, (str, os.PathLike)):
        from_hub = hub and not Path(model).exists()
        folder = check_folder(downloaded(str(model)) if from_hub else model)
        module = loaded(folder).eval()
        name = str(model) if from_hub else folder_name(folder)
        tokenizer = tokenizer if tokenizer is not None else tokenizer_of(folder)
    elif isinstance(model, torch.nn.Module):
        module, name = model, type(model).__name__
        if not hasattr(module, "config") or not hasattr(module, "set_attn_implementation"):
            raise InvalidInputError(
                f"model must be a folder or a model of transformers, but is a {type(model).__name__}; other "
                "modules have no attention interface to read."
            )
        if any(part.training for part in module.modules()):
            raise InvalidInputError(
                "model must be in evaluation mode, but is in training mode, where dropout makes attention "
                "random; call model.eval() first."
            )
    else:
        raise InvalidInputError(
            f"model must be a folder, a hub id or a module of transformers, but is a {type(model).__name__}."
        )
    if tokenizer is not None and not (callable(tokenizer) and hasattr(tokenizer, "convert_ids_to_tokens")):
        raise InvalidInputError(
            f"tokenizer must be one of transformers, but is a {type(tokenizer).__name__}; try "
            "AutoTokenizer.from_pretrained(folder)."
        )
    family = family_of(module)
    check_finite(module)
    kinds = layer_kinds(module, family)
    n_layers, n_heads = (int(n) for n in (module.config.num_hidden_layers, module.config.num_attention_heads))
    decoding = int(getattr(module.config, "decoder_attention_heads", n_heads))
    opened = OpenModel(
        module=module,
        tokenizer=tokenizer,
        name=name,
        family=str(module.config.model_type),
        n_layers=len(kinds) or n_layers,
        heads=tuple(n_heads if kind == "encoder" else decoding for kind in kinds) or (n_heads,) * n_layers,
        precision=weight_precision(module),
        limit=longest_text(module, family),
        places=family,
        kinds=kinds,
    )
    with said_plainly(f"{name} must be a model that can be run, but its configuration does not fit it"):
        return replace(opened, fidelity=opened.probe())


@dataclass(frozen=True, eq=False)
class OpenModel:
    """A Hugging Face model that can be read; a :class:`~hardmax.models.reading.sources.Source`.

    Attributes
    ----------
    module : nn.Module
        The model as it was given or loaded, in evaluation mode.
    tokenizer : object or None
    name, family : str
    n_layers : int
    heads : tuple of int
        The number of heads of each layer.
    precision : str
        The type of its weights.
    limit : int or None
        The largest number of tokens that it takes.
    places : Family
        Where the parts of its attention are.
    kinds : tuple of str
        For an encoder and a decoder that reads it: what each layer is, ``"encoder"``, ``"decoder"`` or
        ``"cross"``; empty for other models. The tokens of such a model are those of the encoder, then those
        of the decoder.
    fidelity : TextReading or None
        How far it was from its own attention on a few tokens when it was opened.
    """

    module: Any
    tokenizer: Any
    name: str
    family: str
    n_layers: int
    heads: tuple[int, ...]
    precision: str
    limit: int | None
    places: Family
    kinds: tuple[str, ...] = ()
    fidelity: TextReading | None = None

    def __repr__(self) -> str:
        return (
            f"OpenModel({self.name!r}, {self.family}, {self.n_layers} layers of "
            f"{'/'.join(str(h) for h in sorted(set(self.heads)))} heads, {self.precision})"
        )

    @property
    def about(self) -> str:
        """Which layers are whose, for an encoder and a decoder that reads it; empty for other models."""
        if not self.kinds:
            return ""
        which = {kind: [str(i) for i, k in enumerate(self.kinds) if k == kind] for kind in _KINDS}
        parts = [f"{words}: {', '.join(which[kind])}" for kind, words in _KINDS.items()]
        return f"An encoder and a decoder that reads it. Layers of the {'; '.join(parts)}."

    def digest(self) -> str:
        """SHA-256 of all weights with their names: the same for the same numbers, wherever they lie."""
        torch = required("torch")
        found = hashlib.sha256()
        for name, tensor in sorted(self.module.state_dict().items()):
            numbers = tensor.detach().cpu().contiguous()
            found.update(f"{name} {numbers.dtype} {tuple(numbers.shape)} ".encode())
            found.update(numbers.reshape(-1).view(torch.uint8).numpy().data)
        return found.hexdigest()

    # Texts
    # ----------------------------------------------------------------------------------------------

    def encode(self, text: str, *, length: int | None = None, target: str | None = None) -> dict[str, Any]:
        """A text as tensors of one sequence, ready for :meth:`run`; with ``length``, padded to it.

        ``target`` is what the decoder of a model with an encoder has written; the text itself without it.

        Raises
        ------
        InvalidInputError
            When the text is empty, there is no tokenizer, or the text is longer than the model takes.
        """
        if not isinstance(text, str):
            raise InvalidInputError(f"text must be a string, but is a {type(text).__name__}.")
        if not text.strip():
            raise InvalidInputError("text must hold at least one word, but is empty.")
        if any("\ud800" <= letter <= "\udfff" for letter in text):  # bytes that a terminal could not read
            raise InvalidInputError("text must be Unicode, but holds halves of letters; give it in UTF-8.")
        if self.tokenizer is None:
            raise InvalidInputError(
                f"a text needs a tokenizer, but {self.name} has none that can be read; give tokenizer=, or "
                "put the tokenizer.json of the model into its folder."
            )
        if target is not None and not self.kinds:
            raise InvalidInputError(f"target belongs to a decoder that reads an encoder, not to {self.name}.")
        padding = {} if length is None else {"padding": "max_length", "max_length": length}
        # not verbose: that a text is too long is said below, in one sentence
        with said_plainly(f"the tokenizer of {self.name} must turn a text into numbers, but does not"):
            encoded = self.tokenizer(text, return_tensors="pt", truncation=False, verbose=False, **padding)
        inputs = self._checked(dict(encoded))
        if target is None:
            return inputs
        return {**inputs, "decoder_input_ids": self._written(self.encode(target)["input_ids"])}

    def tokens(self, text: str | Mapping[str, Any]) -> tuple[str, ...]:
        """How the tokens of a text are named in tables and pictures."""
        inputs = self._accepted(self._inputs(text))
        return self._names(inputs, _length(inputs))

    def run(self, **inputs: Any) -> Any:
        """The states (1, T, d_model) of all tokens after the last layer, in float32; gradients are kept.

        ``inputs`` are those of :meth:`encode`, or ``inputs_embeds`` in the place of ``input_ids``.
        """
        with in_float32(self._body):
            return self._body(**self._accepted(inputs), return_dict=True).last_hidden_state

    def embed(self, input_ids: Any) -> Any:
        """What :meth:`run` takes as ``inputs_embeds`` for these tokens, in float32."""
        with in_float32(self._body):
            return self._body.get_input_embeddings()(input_ids)

    # Reading
    # ----------------------------------------------------------------------------------------------

    def read(
        self,
        text: str | Mapping[str, Any] | None,
        visit: Visit,
        *,
        layers: tuple[int, ...] | None = None,
        inputs: Mapping[int, Any] | None = None,
    ) -> TextReading:
        """Send a text through the model and show each wanted layer to ``visit``, in order.

        Parameters
        ----------
        text : str or mapping
            A text, or encoded inputs of one sequence (``input_ids``, ``attention_mask``, ``inputs_embeds``,
            ``pixel_values``, ...).
        visit : callable
            Gets one :class:`~hardmax.models.reading.sources.CapturedLayer` after the other; none is
            kept.
        layers : tuple of int, optional
            Which layers; all of them by default.
        inputs : mapping from layers to arrays (Q, d_model), optional
            What attention of these layers receives instead of the model's own states
            (:func:`~hardmax.models.reading.capture.receiving`).

        Raises
        ------
        FidelityError
            When a layer differs from the model's own attention by more than 1e-4; it is not shown then.
        """
        if text is None:
            raise InvalidInputError(f"a text must be given to read {self.name}.")
        if self.kinds and inputs is not None:
            raise InvalidInputError(
                f"inputs of layers cannot be given to {self.name}: its layers belong to two sequences."
            )
        wanted, encoded = chosen(layers, self.n_layers, "layers"), self._accepted(self._inputs(text))
        worst, native = Differences(), None
        names: tuple[str, ...] = ()
        if inputs is not None and self.places.sinks:
            inputs = {index: rows[: _length(encoded)] for index, rows in inputs.items()}
        while wanted:
            with receiving(self._body, self.places, inputs):
                group = self._group(encoded, wanted)
                found, rough = self._compared(encoded, group)
            worst = worst.with_largest(found)
            native = rough if native is None or rough is None else max(native, rough)
            within_limit(worst, model=self.name)
            wanted = wanted[len(group) :]
            layer = group[0].layer
            names = self._names(encoded, layer.n_keys - layer.null_keys) + ("sink",) * layer.null_keys
            first = 0 if not self.kinds else int(encoded["input_ids"].shape[1])  # token of the decoder
            while group:
                layer = group.pop(0).layer
                kind = self.kinds[layer.index] if self.kinds else "encoder"
                asked, read = first * (kind != "encoder"), first * (kind == "decoder")
                whole = bool(self.kinds or layer.null_keys)
                visit(layer.among(len(names), asked, read) if whole else layer)
        return TextReading(
            tokens=names,
            key_tokens=names,
            score_difference=worst.scores,
            probability_difference=worst.probabilities,
            native_difference=native,
            forward_seconds=self._seconds(encoded),
            query_difference=worst.queries,
            output_difference=worst.outputs,
            precision=self.precision,
        )

    def probe(self) -> TextReading:
        """Read a few tokens spread over the vocabulary, to know whether the model can be read at all."""
        torch = required("torch")
        if self.places.images:
            size, channels = self.module.config.image_size, int(self.module.config.num_channels)
            high, wide = size if isinstance(size, (tuple, list)) else (size, size)
            pixels = torch.linspace(-1.0, 1.0, channels * high * wide).sin()
            return self.read({"pixel_values": pixels.reshape(1, channels, high, wide)}, lambda layer: None)
        n = min(_PROBE_TOKENS, self.limit or _PROBE_TOKENS)
        words = self._body.get_input_embeddings().num_embeddings
        ids = torch.arange(1, n + 1) * 7919 % words
        pad = getattr(self.module.config, "pad_token_id", None)
        ids[ids == (-1 if pad is None else pad)] = words - 1 if pad != words - 1 else 0
        inputs = {"input_ids": ids[None], "attention_mask": torch.ones_like(ids)[None]}
        return self.read(inputs, lambda layer: None)

    # Inside
    # ----------------------------------------------------------------------------------------------

    @property
    def _body(self) -> Any:
        """The model without its head, which stands behind all attention."""
        return self.module.base_model

    def _seconds(self, inputs: dict[str, Any]) -> float:
        """CPU time of a plain forward pass in float32."""
        look()
        start = time.process_time()
        with in_float32(self._body):
            forward(self._body, inputs)
        return time.process_time() - start

    def _group(self, inputs: dict[str, Any], wanted: tuple[int, ...]) -> list[Captured]:
        """The next layers that fit into memory together."""
        with in_float32(self._body):
            found = capture(
                self._body,
                self.places,
                inputs,
                name=self.name,
                wanted=lambda index: index in wanted,
                enough=lambda found: (
                    len(found) == len(wanted) or sum(c.bytes for c in found) + found[-1].bytes > _GROUP_BYTES
                ),
            )
        if not found:
            raise DimensionMismatchError(
                f"layers must be among the {self.n_layers} of {self.name}, but {wanted} never ran."
            )
        return found

    def _compared(self, inputs: dict[str, Any], group: list[Captured]) -> tuple[Differences, float | None]:
        worst, rough = Differences(), 0.0
        by_index = {captured.layer.index: captured for captured in group}

        def compare(index: int, watched: Watched) -> None:
            nonlocal worst
            if index in by_index:
                worst = worst.with_largest(differences(by_index[index], watched))

        def compare_natively(index: int, watched: Watched) -> None:
            nonlocal rough
            if index in by_index:
                rough = max(rough, native_difference(by_index[index], watched))

        with in_float32(self._body):
            watch(self._body, self.places, inputs, last=max(by_index), show=compare)
        if "float16" not in self.precision:  # bfloat16 is a float16, too
            return worst, None
        with alone(self._body), as_it_is():
            watch(self._body, self.places, inputs, last=max(by_index), show=compare_natively)
        return worst, rough

    def _inputs(self, text: str | Mapping[str, Any]) -> dict[str, Any]:
        if not isinstance(text, (str, Mapping)):
            raise InvalidInputError(
                f"text must be a string or encoded inputs, but is a {type(text).__name__}."
            )
        return self.encode(text) if isinstance(text, str) else self._checked(dict(text))

    def _checked(self, inputs: dict[str, Any]) -> dict[str, Any]:
        length = _length(inputs)
        given = max(int(tensor.shape[0]) for tensor in inputs.values())
        if given != 1:
            raise InvalidInputError(f"inputs must hold one sequence, but {given} were given at once.")
        if inputs.get("input_ids") is not None and length and not self.places.images:
            words = int(self._body.get_input_embeddings().num_embeddings)
            largest = int(inputs["input_ids"].max())
            if largest >= words:
                raise InvalidInputError(
                    f"tokenizer must belong to {self.name}, which knows {words} tokens, but it gives number "
                    f"{largest}."
                )
        if length == 0:
            raise InvalidInputError("text must hold at least one token, but has none after tokenization.")
        if self.limit is not None and length > self.limit:
            raise InvalidInputError(
                f"text must have at most {self.limit} tokens for {self.name}, but has {length}; shorten it."
            )
        return inputs

    def _accepted(self, inputs: dict[str, Any]) -> dict[str, Any]:
        """The inputs that this model knows, on its device; no cache is built."""
        known = inspect.signature(self._body.forward).parameters
        device = next(self._body.parameters()).device
        if self.kinds and inputs.get("decoder_input_ids") is None:
            if inputs.get("input_ids") is None:
                raise InvalidInputError(f"encoded inputs of {self.name} must hold decoder_input_ids.")
            inputs = {**inputs, "decoder_input_ids": self._written(inputs["input_ids"])}
            if inputs.get("attention_mask") is not None:
                mask = inputs["attention_mask"]
                inputs["decoder_attention_mask"] = mask[:, [0, *range(mask.shape[1] - 1)]]
        accepted = {name: t.to(device) for name, t in inputs.items() if name in known and t is not None}
        return {**accepted, "use_cache": False} if "use_cache" in known else accepted

    def _written(self, ids: Any) -> Any:
        """What a decoder is given when it has written all tokens but the last: a token to start with, then
        they."""
        config = self.module.config
        tokens = (*(getattr(config, name, None) for name in ("decoder_start_token_id", "pad_token_id")), 0)
        start = next(token for token in tokens if token is not None and 0 <= token < config.vocab_size)
        return required("torch").cat([ids.new_full((1, 1), start), ids[:, :-1]], dim=1)

    def _names(self, inputs: Mapping[str, Any], n: int) -> tuple[str, ...]:
        parts = [inputs[name] for name in ("input_ids", "decoder_input_ids") if inputs.get(name) is not None]
        if parts and self.tokenizer is not None:
            words = self.tokenizer.convert_ids_to_tokens([i for ids in parts for i in ids[0].tolist()])
            return tuple(_readable(str(word)) for word in words)
        if self.kinds:
            return tuple(str(i) for ids in parts for i in range(ids.shape[1]))
        if self.places.images:
            return ("CLS", *(f"patch {i}" for i in range(1, n)))
        return tuple(str(i) for i in range(n))


def _length(inputs: Mapping[str, Any]) -> int:
    """The number of tokens of encoded inputs; images are measured by the model."""
    for name in ("input_ids", "inputs_embeds"):
        if inputs.get(name) is not None:
            return int(inputs[name].shape[1])
    if inputs.get("pixel_values") is not None:
        return -1
    raise InvalidInputError(
        f"encoded inputs must hold input_ids, inputs_embeds or pixel_values, but hold {sorted(inputs)}."
    )


def _readable(word: str) -> str:
    """A piece of a word; byte-level vocabularies write spaces and line ends as letters."""
    return word.replace("Ġ", " ").replace("▁", " ").replace("Ċ", "⏎")


def weight_precision(model: Any) -> str:
    """The type of the weights in words: ``"float32"``, ``"bfloat16"``, or several joined by ``+``."""
    kinds = {str(p.dtype).removeprefix("torch.") for p in model.parameters() if p.is_floating_point()}
    return "+".join(sorted(kinds))


@contextmanager
def alone(model: Any) -> Iterator[None]:
    """Lock a model for this thread; other threads that ask for it wait, the same thread does not."""
    with _ENTERING:
        lock = _LOCKS.setdefault(model, RLock())
    with lock:
        yield


@contextmanager
def in_float32(model: Any) -> Iterator[None]:
    """Run ``model`` in float32 for a while, in this thread alone; its own weights are back afterwards,
    whatever happens."""
    torch = required("torch")
    half = (torch.float16, torch.bfloat16)
    kept: dict[Any, tuple[dict[str, Any], dict[str, Any]]] = {}
    handles = []

    def widen(module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, Any]:
        for part in _used_by(module, torch):
            kept[part] = _narrow(part._parameters, half), _narrow(part._buffers, half)
            for own, narrow in zip((part._parameters, part._buffers), kept[part], strict=True):
                own.update({name: t.float() for name, t in narrow.items()})
        return tuple(_wide(a, half) for a in args), {name: _wide(a, half) for name, a in kwargs.items()}

    def restore(module: Any, args: Any = None, output: Any = None) -> None:
        for part in _used_by(module, torch):
            for own, narrow in zip((part._parameters, part._buffers), kept.pop(part, ()), strict=False):
                own.update(narrow)

    def widen_output(module: Any, args: Any, output: Any) -> Any:
        return output.float()

    with alone(model):
        try:
            for module in model.modules():
                if not _narrow(module._parameters, half) and not _narrow(module._buffers, half):
                    continue
                if type(module) is torch.nn.Embedding:
                    handles.append(module.register_forward_hook(widen_output))
                else:
                    handles.append(module.register_forward_pre_hook(widen, with_kwargs=True))
                    handles.append(module.register_forward_hook(restore, always_call=True))
            yield
        finally:
            for handle in handles:
                handle.remove()
            for module in list(kept):
                restore(module)


@contextmanager
def as_it_is() -> Iterator[None]:
    """Run half-precision models in their own precision, by torch's own kernels.

    oneDNN takes matrix instructions that the processor announces, and where a virtual machine announces more
    than it allows the whole process dies. A pass that only measures rounding is not worth that risk.
    """
    torch = required("torch")
    with alone(torch):  # the switch is one for the whole process
        before = torch._C._get_mkldnn_enabled()
        torch._C._set_mkldnn_enabled(False)
        try:
            yield
        finally:
            torch._C._set_mkldnn_enabled(before)


def _used_by(module: Any, torch: Any) -> list[Any]:
    """Whose weights a module uses: its own, and for torch's attention also those of its output projection."""
    return list(module.modules()) if isinstance(module, torch.nn.MultiheadAttention) else [module]


def _narrow(tensors: dict[str, Any], half: tuple[Any, ...]) -> dict[str, Any]:
    return {name: tensor for name, tensor in tensors.items() if tensor is not None and tensor.dtype in half}


def _wide(value: Any, half: tuple[Any, ...]) -> Any:
    return value.float() if getattr(value, "dtype", None) in half else value


def read(
    model: Any,
    text: Any,
    recorders: Sequence[Recorder],
    *,
    tokenizer: Any = None,
    hub: bool = False,
    inputs: Mapping[int, Any] | None = None,
) -> TextReading:
    """Send a text through a model once and show each layer to the recorders that need it, in their order.

    Parameters
    ----------
    model : Source, path, hub id or torch module
    text : str, sequence (T, d) or None
        None where the source has a sequence of its own.
    recorders : sequence of Recorder
    tokenizer, hub
        As in :func:`hardmax.head_atlas`.
    inputs : mapping from layers to arrays (Q, d_model), optional
        What attention of these layers receives instead of the model's own states, where the source can do
        that.

    Returns
    -------
    TextReading
        Names of the tokens, and how far what was shown is from what the model computes itself.

    Examples
    --------
    >>> from hardmax.models.bundled import bundled_source
    >>> from hardmax.models.influence.routing_flow import RolloutRecorder
    >>> from hardmax.models.influence.routing_flow import FlowRecorder
    >>> rollout, flow = RolloutRecorder(), FlowRecorder(["argmax"])
    >>> reading = read(bundled_source(), None, [rollout, flow])
    >>> rollout.rollout(len(reading.key_tokens)).shape, flow.flows(reading)[0].sets.shape
    ((2, 16, 15), (3, 16, 15))
    """
    needed = [recorder.layers for recorder in recorders]

    def show(layer: CapturedLayer) -> None:
        for recorder, layers in zip(recorders, needed, strict=True):
            look()
            if layers is None or layer.index in layers:
                recorder(layer)

    together = sorted({index for layers in needed for index in layers or ()})
    source = as_source(model, tokenizer=tokenizer, hub=hub)
    wanted = None if None in needed else tuple(together)
    if inputs is None:
        return source.read(text, show, layers=wanted)
    if "inputs" not in inspect.signature(source.read).parameters:
        raise InvalidInputError(
            f"{source.name} must take inputs of its layers to be given some, but does not."
        )
    given: Any = source
    reading: TextReading = given.read(text, show, layers=wanted, inputs=inputs)
    return reading


def as_source(model: Any, *, tokenizer: Any = None, hub: bool = False) -> Source:
    """The model itself where it is a source already, opened otherwise (needs the extra ``models``)."""
    if callable(getattr(model, "read", None)) and hasattr(model, "n_layers"):
        source: Source = model
        return source
    return open_model(model, tokenizer=tokenizer, hub=hub)
