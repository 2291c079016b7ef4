"""Named tuples that are cheap to define.

`typing.NamedTuple` compiles a constructor and each annotation while a class is defined. A recall
imports 127 such classes, which took 8% of its CPU time. Here a class compiles its constructor on
the first call, and never compiles its annotations.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

__all__ = ["NamedTuple"]

if TYPE_CHECKING:
    from typing import NamedTuple  # noqa: TID251
else:
    import sys
    from operator import itemgetter

    try:
        from _collections import _tuplegetter as _getter  # As fast as the standard library's.
    except ImportError:

        def _getter(index, _doc):
            return property(itemgetter(index))

    class _NamedTupleType(type):
        """The metaclass of named tuples, which reads their fields from the annotations."""

        def __new__(mcs, name, bases, namespace):
            if bases == (tuple,) or NamedTuple not in bases:
                return super().__new__(mcs, name, bases, namespace)
            fields = tuple(map(sys.intern, namespace.get("__annotations__", ())))
            defaults = {field: namespace[field] for field in fields if field in namespace}
            getters = {field: _getter(index, None) for index, field in enumerate(fields)}
            own = {"__slots__": (), "_fields": fields, "_field_defaults": defaults}
            return super().__new__(
                mcs, name, bases, {**namespace, **own, **getters, "__match_args__": fields}
            )

    class NamedTuple(tuple, metaclass=_NamedTupleType):
        """A base class with the interface of `typing.NamedTuple`."""

        __slots__ = ()

        def __new__(cls, *values, **named_values):  # noqa: D102
            # Field names are identifiers of our own classes, so the source can only build a tuple.
            parameters = "".join(f"{field}, " for field in cls._fields)
            source = f"lambda _cls, {parameters}: _new(_cls, ({parameters}))"
            constructor = eval(source, {"_new": tuple.__new__, "__builtins__": {}})  # noqa: S307
            owner = next(base for base in cls.__mro__ if "_fields" in vars(base))
            constructor.__qualname__ = f"{owner.__name__}.__new__"
            constructor.__defaults__ = tuple(cls._field_defaults.values())
            owner.__new__ = staticmethod(constructor)
            return constructor(cls, *values, **named_values)

        @classmethod
        def _make(cls, values):
            made = tuple.__new__(cls, values)
            if len(made) != len(cls._fields):
                raise TypeError(f"expected {len(cls._fields)} values, got {len(made)}")
            return made

        def _replace(self, /, **changes):
            replaced = self._make(map(changes.pop, self._fields, self))
            if changes:
                raise ValueError(f"unexpected field names: {list(changes)!r}")
            return replaced

        def _asdict(self):
            return dict(zip(self._fields, self, strict=True))

        def __repr__(self):
            fields = zip(self._fields, self, strict=True)
            return (
                f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in fields)})"
            )

        def __getnewargs__(self):
            return tuple(self)
