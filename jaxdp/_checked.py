"""The base of frozen values with checked fields that build nothing: kernels, grids, convex sets."""

from typing import Any

from ._contract import field_checks


class Checked:
    """Base of frozen classes, made by `spec`, whose fields are checked on creation."""

    __slots__ = ()

    def __post_init__(self) -> None:
        for name, check in field_checks(type(self)):
            self._settle(**{name: check(name, getattr(self, name))})
        self.validate()

    def _settle(self, **fields: Any) -> None:
        """Stores fields that are made of others; for `validate` alone."""
        for name, value in fields.items():
            object.__setattr__(self, name, value)

    def validate(self) -> None:
        """Raises ValueError unless the fields, each checked before, fit together."""
