"""Frozen values whose fields are checked on creation: specs, kernels, grids, convex sets."""

import dataclasses
from collections.abc import Iterator

from ._checks import Check


class Checked:
    """Base of frozen classes, made by `spec`, whose fields are checked on creation."""

    __slots__ = ()

    def __post_init__(self) -> None:
        for name, check in field_checks(type(self)):
            self.settle(**{name: check(name, getattr(self, name))})
        self.validate()

    def settle(self, **fields: object) -> None:
        """Stores fields that are made of others; for `validate` alone."""
        # A frozen dataclass refuses assignment, in its own __post_init__ too; this is the only way.
        for name, value in fields.items():
            object.__setattr__(self, name, value)

    def validate(self) -> None:
        """Raises ValueError unless the fields, each checked before, fit together."""


def field_checks(cls: type) -> Iterator[tuple[str, Check]]:
    """The names and checks of the checked fields of a class made by `spec`, in their order."""
    for each in dataclasses.fields(cls):
        if each.metadata.get("check") is not None:
            yield each.name, each.metadata["check"]
