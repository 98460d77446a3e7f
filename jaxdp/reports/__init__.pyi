"""The names of `jaxdp.reports`; a client imports no jax."""

from ._client import Client as Client
from ._collection import Collection as Collection
from ._collection import Decoded as Decoded
