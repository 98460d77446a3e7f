"""What is collected: by which randomizer, of which values, and what a report looks like."""

import dataclasses
import json
from collections.abc import Iterable
from typing import Any

import jax
import numpy as np

from .._contract import Round, Spec, Tree, round_of
from .._spec import spec_from_json, spec_to_json
from ._client import HEADER_BYTES, VERSION, fingerprint_of, parsed
from ._lowering import lower
from ._wire import Layout


@dataclasses.dataclass(frozen=True)
class Decoded:
    """Reports out of bytes.

    Attributes:
      reports: a pytree of arrays [n, ...], what `params.tally` takes.
      refused: how many were left out, by the reason: "version", "fingerprint", "length", "range".
    """

    reports: Tree
    refused: dict[str, int]


@dataclasses.dataclass(frozen=True)
class Collection:
    """A collection of reports, of which clients and servers hold the same document.

    Args:
      spec: of what each user runs once: a randomizer, or a protocol of one round.
      labels: what the bins 0, 1, ... stand for; None where users' values are numbers.
      purpose: what users are told, and part of the fingerprint.

    Raises:
      ValueError: the spec has no round of its own, its reports serve simulation only, or the labels
        are not as many as bins, or not different.

    Example:
      >>> from jaxdp.randomizers import KRR
      >>> collection = Collection(KRR(2, 1.0), labels=("no", "yes"), purpose="a poll")
      >>> Collection.from_json(collection.to_json()) == collection
      True
    """

    spec: Spec[Any]
    labels: tuple[str, ...] | None = None
    purpose: str = ""

    def __post_init__(self) -> None:
        params, name = self.params, type(self.spec).__name__
        if self.labels is not None:
            object.__setattr__(self, "labels", tuple(map(str, self.labels)))
            if params.num_bins != len(self.labels) or len(set(self.labels)) != len(self.labels):
                raise ValueError(
                    f"labels must be {params.num_bins} different texts, one for each bin of {name}, "
                    f"got {self.labels}."
                )
        if params.report_limits is None:
            raise ValueError(
                f"spec must have reports to send; those of {name} serve simulation only, for they are "
                "rounded from floats. Take CandidateResponse for vectors, or Gaussian."
            )

    @property
    def params(self) -> Round[Any]:
        """The built params: `params.tally` adds decoded reports, `params.estimate` answers."""
        params = round_of(self.spec.build())
        if params is None:
            raise ValueError(
                f"spec must be of one round, got {type(self.spec).__name__}, in which users are asked "
                "again; collect its rounds one by one."
            )
        return params

    @property
    def layout(self) -> Layout:
        """How a report lies in its bytes."""
        params = self.params
        assert params.report_limits is not None
        low, high = params.report_limits
        words = jax.ShapeDtypeStruct((params.num_words,), np.uint32)
        shapes = jax.tree.leaves(jax.eval_shape(params.from_bits, words, params.value))
        limits = []
        for limit in (low, high):
            leaves = [
                np.broadcast_to(x, s.shape)
                for x, s in zip(jax.tree.leaves(limit), shapes, strict=True)
            ]
            limits.append(tuple(int(x) for leaf in leaves for x in leaf.ravel()))
        return Layout(tuple((str(s.dtype), tuple(s.shape)) for s in shapes), *limits)

    def document(self) -> dict[str, Any]:
        """All that a client or a server must know, of plain values."""
        params = self.params
        document = {
            "jaxdp_collection": VERSION,
            "purpose": self.purpose,
            "epsilon": float(self.spec.exact_epsilon()),
            "bins": params.num_bins,
            "labels": None if self.labels is None else list(self.labels),
            "spec": spec_to_json(self.spec),
            "report": self.layout.to_json(),
            "program": lower(params, type(self.spec).__name__).to_json(),
        }
        return document | {"fingerprint": fingerprint_of(document).hex()}

    def to_json(self) -> str:
        """The document as text."""
        return json.dumps(self.document(), sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> "Collection":
        """Of the document as text; a ValueError says what is wrong with it."""
        held = parsed(text)
        labels = None if held["labels"] is None else tuple(held["labels"])
        return cls(spec_from_json(held["spec"]), labels, held["purpose"])

    def decode(self, data: Iterable[bytes]) -> Decoded:
        """The reports in some bytes, one after the other; what is none is counted and left out."""
        layout, fingerprint = self.layout, bytes.fromhex(self.document()["fingerprint"])
        refused = dict.fromkeys(("version", "fingerprint", "length", "range"), 0)
        kept = []
        for report in data:
            if report[:1] != bytes([VERSION]):
                refused["version"] += 1
            elif report[1:HEADER_BYTES] != fingerprint:
                refused["fingerprint"] += 1
            elif len(report) != HEADER_BYTES + layout.num_bytes:
                refused["length"] += 1
            else:
                kept.append(report[HEADER_BYTES:])
        rows = np.frombuffer(b"".join(kept), np.uint8).reshape(len(kept), layout.num_bytes)
        leaves, good = layout.decode(rows)
        refused["range"] = int(np.sum(~good))
        words = jax.ShapeDtypeStruct((self.params.num_words,), np.uint32)
        shapes = jax.eval_shape(self.params.from_bits, words, self.params.value)
        structure = jax.tree.structure(shapes)
        return Decoded(jax.tree.unflatten(structure, [leaf[good] for leaf in leaves]), refused)
