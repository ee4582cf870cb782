"""Replay recorded jobs in event order through a predictor, and measure the accuracy of its predictions.

The package can be called: ``from softwalltime import replay`` must be the function of :mod:`softwalltime.api` also
after a module of this package was imported, when Python binds the name to the package.
"""

import sys
from importlib import import_module
from types import ModuleType
from typing import Any


class _CallablePackage(ModuleType):
    def __call__(self, *arguments: Any, **options: Any) -> Any:
        return import_module("softwalltime.api").replay(*arguments, **options)


sys.modules[__name__].__class__ = _CallablePackage
