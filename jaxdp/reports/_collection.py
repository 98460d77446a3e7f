"""What is collected: by which randomizer, of which values, and what a report looks like."""

import dataclasses
import functools
import json
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from .._contract import Round, Spec, params_of, round_of
from .._form import spec_from_json, spec_to_json
from ._client import HEADER_BYTES, VERSION, fingerprint_of, parsed
from ._lowering import lower
from ._wire import Layout


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
        if not isinstance(self.spec, Spec):
            raise TypeError(
                "spec must be the spec of a randomizer, or of a protocol of one round, got "
                f"{type(self.spec).__name__}."
            )
        if not isinstance(self.purpose, str):
            raise TypeError(f"purpose must be a text, got {type(self.purpose).__name__}.")
        params, name = self.params, type(self.spec).__name__
        if self.labels is not None:
            object.__setattr__(self, "labels", _texts(self.labels))
            if params.num_bins != len(self.labels) or len(set(self.labels)) != len(self.labels):
                raise ValueError(
                    f"labels must be {params.num_bins} different texts, one for each bin of "
                    f"{name}, got {self.labels}."
                )
        if params.report_limits is None:
            raise ValueError(
                f"spec must have reports to send; those of {name} serve simulation only: they are "
                "rounded from floats, or no wire format is known. For vectors take "
                "CandidateResponse or Gaussian, which protocols have as their `randomizer`."
            )

    def __repr__(self) -> str:
        purpose = f" {self.purpose!r}" if self.purpose else ""
        return f"<Collection{purpose} by {self.spec!r}>"

    @property
    def params(self) -> Round[Any]:
        """The built params: `params.tally` adds decoded reports, `params.estimate` answers."""
        params = round_of(params_of(self.spec))
        if params is None:
            raise ValueError(
                f"spec must be of one round, got {type(self.spec).__name__}, in which users are "
                "asked again; collect its rounds one by one."
            )
        return params

    @property
    def epsilon(self) -> float:
        """The realised privacy parameter of one report, or of all that are remembered together."""
        return float(self.spec.exact_epsilon())

    @functools.cached_property
    def layout(self) -> Layout:
        """How a report lies in its bytes, after the header."""
        params = self.params
        assert params.report_limits is not None
        leaves = jax.tree.leaves(params.report)
        low, high = (_entries(limit, leaves) for limit in params.report_limits)
        return Layout(tuple((str(s.dtype), tuple(s.shape)) for s in leaves), low, high)

    @property
    def report_bytes(self) -> int:
        """The length of a report, its header included."""
        return HEADER_BYTES + self.layout.num_bytes

    @functools.cached_property
    def document(self) -> dict[str, Any]:
        """All that a client or a server must know, of plain values."""
        params = self.params
        document = {
            "jaxdp_collection": VERSION,
            "purpose": self.purpose,
            "epsilon": self.epsilon,
            "bins": params.num_bins,
            "labels": None if self.labels is None else list(self.labels),
            "spec": spec_to_json(self.spec),
            "report": self.layout.to_json(),
            "program": lower(params, type(self.spec).__name__).to_json(),
        }
        if params.permanent_words:
            document["permanent_words"] = params.permanent_words
        return document | {"fingerprint": fingerprint_of(document).hex()}

    @property
    def fingerprint(self) -> bytes:
        """Eight bytes that every report begins with, after its version."""
        return bytes.fromhex(self.document["fingerprint"])

    @functools.cached_property
    def header(self) -> np.ndarray:
        """What every report begins with, uint8[9]."""
        return np.frombuffer(bytes([VERSION]) + self.fingerprint, np.uint8)

    def to_json(self) -> str:
        """The document as text."""
        return json.dumps(self.document, sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> "Collection":
        """Reads the document and keeps its text; raises ValueError if the document is invalid."""
        held = parsed(text)
        labels = None if held["labels"] is None else tuple(held["labels"])
        made = cls(spec_from_json(held["spec"]), labels, held["purpose"])
        if made.layout != Layout.from_json(held["report"]):
            raise ValueError(
                f"the collection's reports by {made.spec!r} are not those of this version of "
                "jaxdp; read them with the version that it was made with."
            )
        # Another version of jax may write another program of the same randomizer. What clients
        # have is this one, and its fingerprint is in their reports.
        made.__dict__["document"] = dict(held)
        return made


def report_bytes(spec: Spec[Any]) -> int | None:
    """The length of a user's report, its header included; None where no wire format is known.

    Args:
      spec: as of a `Collection`.

    Example:
      >>> from jaxdp.randomizers import KRR
      >>> from jaxdp.reports import report_bytes
      >>> report_bytes(KRR(2, 1.0))
      10
    """
    try:
        return Collection(spec).report_bytes
    except ValueError:
        return None


def _texts(labels: Any) -> tuple[str, ...]:
    wrong = f"labels must be a sequence of texts, got {labels!r}."
    if isinstance(labels, str):
        raise TypeError(wrong)
    try:
        return tuple(map(str, labels))
    except TypeError:
        raise TypeError(wrong) from None


def _entries(limit: Any, leaves: Sequence[jax.ShapeDtypeStruct]) -> tuple[int, ...]:
    """The limit of every entry of a report, one after the other."""
    each = zip(jax.tree.leaves(limit), leaves, strict=True)
    return tuple(int(x) for limit, leaf in each for x in np.broadcast_to(limit, leaf.shape).ravel())
