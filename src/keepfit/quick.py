"""`dataclass`, at a tenth of the price where it is not used: a class is made whole when its first object is.

Writing the methods of one frozen dataclass takes a millisecond, and `keepfit run -- true` has a hundred of them in
sight and meets ten. For type checkers this is `dataclasses.dataclass`.
"""

from __future__ import annotations

import dataclasses
from dataclasses import field as field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
else:

    def dataclass(cls: type | None = None, **options: Any) -> Any:
        if cls is None:
            return lambda cls: dataclass(cls, **options)
        given = {name: vars(cls)[name] for name in vars(cls).get("__annotations__", ()) if name in vars(cls)}
        known = dataclasses.dataclass(init=False, repr=False, eq=False)(cls)

        def first(self: Any, *args: Any, **kwargs: Any) -> None:
            del known.__init__
            for name, value in given.items():  # which making the fields known has used up
                setattr(known, name, value)
            dataclasses.dataclass(**options)(known)
            self.__init__(*args, **kwargs)

        known.__init__ = first
        return known
