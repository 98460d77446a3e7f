"""The form of specs as plain data, which needs no jax: arrays by content, and JSON."""

import dataclasses
import importlib
import sys
from typing import Any

import numpy as np


class FrozenArray:
    """A read-only array that is hashed and compared by content, for the array fields of specs.

    Args:
      values: anything `numpy.asarray` accepts; it is copied.
    """

    __slots__ = ("_hash", "values")

    def __init__(self, values):
        array = np.array(values.values if isinstance(values, FrozenArray) else values)
        array.setflags(write=False)
        self.values = array
        # Once: specs are keys of caches, and look-ups would read the whole array each time.
        self._hash = hash((array.shape, array.dtype.str, array.tobytes()))

    def __array__(self, dtype=None, copy=None):
        return np.array(self.values, dtype=dtype, copy=copy)

    def __eq__(self, other):
        return (
            isinstance(other, FrozenArray)
            and self.values.dtype == other.values.dtype
            and np.array_equal(self.values, other.values)
        )

    def __hash__(self):
        return self._hash

    def __reduce__(self):
        # Made anew: hashes of bytes differ from process to process, and one of another is no use.
        return FrozenArray, (self.values,)

    def __repr__(self):
        return f"FrozenArray({self.values.dtype}{list(self.values.shape)})"


def frozen(array: np.ndarray, given: object) -> FrozenArray:
    """An array frozen; `given`, which it was made of, where that holds this very array already."""
    # The same object again: copying and hashing are paid for once, and caches find it by identity.
    if isinstance(given, FrozenArray) and given.values is array:
        return given
    return FrozenArray(array)


def spec_to_json(spec: object) -> Any:
    """The JSON form of a spec: plain data that `spec_from_json` turns back into an equal spec.

    Args:
      spec: a spec, or a nest of specs, arrays, tuples, numbers, strings, None and module-level
        functions.

    Returns:
      A nest of dicts, lists, strings and numbers that `json.dumps` accepts.

    Raises:
      TypeError: the spec holds something without a JSON form, such as a lambda or a closure.
    """
    if dataclasses.is_dataclass(spec) and not isinstance(spec, type):
        cls = type(spec)
        fields = {
            f.name: spec_to_json(getattr(spec, f.name)) for f in dataclasses.fields(spec) if f.init
        }
        return {"spec": f"{cls.__module__}:{cls.__qualname__}", **fields}
    if isinstance(spec, FrozenArray):
        return {
            "array": spec.values.ravel().tolist(),
            "dtype": spec.values.dtype.str,
            "shape": list(spec.values.shape),
        }
    if isinstance(spec, tuple):
        return {"tuple": [spec_to_json(s) for s in spec]}
    if spec is None or isinstance(spec, (bool, int, float, str)):
        return spec
    if isinstance(spec, np.generic):
        return spec.item()
    name = f"{getattr(spec, '__module__', '')}:{getattr(spec, '__qualname__', '')}"
    # Names of lambdas and of functions within functions have a "<", and lead nowhere.
    if callable(spec) and "<" not in name and _named(name) is spec:
        return {"function": name}
    raise TypeError(
        f"{spec!r} has no JSON form; a spec that is swept may hold numbers, strings, arrays, other "
        "specs and functions defined at the top level of an importable module."
    )


def spec_from_json(data: object) -> Any:
    """The spec that `spec_to_json` wrote.

    Nothing is imported but modules of jaxdp, and nothing is called but frozen dataclasses.

    Raises:
      ValueError: a name leads to neither a frozen dataclass, which may stand for a function that
        makes it, nor a function of an imported module.
    """
    if isinstance(data, dict):
        if "spec" in data:
            cls = _named(data["spec"])
            if not is_frozen(cls):
                raise ValueError(
                    f"spec must name a class of specs, got {data['spec']!r}; {_IMPORT}"
                )
            return cls(**{k: spec_from_json(v) for k, v in data.items() if k != "spec"})
        if "array" in data:
            flat = np.array(data["array"], dtype=np.dtype(data["dtype"]))
            return FrozenArray(flat.reshape(data["shape"]))
        if "tuple" in data:
            return tuple(spec_from_json(v) for v in data["tuple"])
        function = _named(data["function"])
        if not callable(function) or (isinstance(function, type) and not is_frozen(function)):
            raise ValueError(f"function must name one, got {data['function']!r}; {_IMPORT}")
        return function
    return data


_IMPORT = "import the module that defines it first."


def is_frozen(cls: object) -> bool:
    """Whether it is the class of a frozen dataclass."""
    if not (isinstance(cls, type) and dataclasses.is_dataclass(cls)):
        return False
    return cls.__dataclass_params__.frozen  # pyright: ignore[reportAttributeAccessIssue]


def _named(name: object) -> Any:
    """What "module:name" defines in a module that is imported or jaxdp's; None if nothing."""
    module, _, qualname = str(name).partition(":")
    package = module.partition(".")[0]
    if package in sys.stdlib_module_names - {"__main__"}:
        return None
    try:
        if package in ("jaxdp", "jaxdp_experiments"):
            importlib.import_module(module)
        found: Any = sys.modules[module]
        for part in qualname.split("."):
            found = getattr(found, part)
        # What a module has merely imported is none of its own.
        return found if found.__module__ == module else None
    except (ImportError, AttributeError, KeyError):
        return None
