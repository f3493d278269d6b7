# SPDX-License-Identifier: Apache-2.0
"""Division of a user's own network over ranks: its class names the class that knows how."""
from __future__ import annotations

from typing import Any

from torch import nn

from brain_runtime.contract.declared import named


def declared(network: nn.Module, what: str, by: str) -> Any:
    """The class that a network names under ``what``, itself or as ``module:Class``; None: it names none.

    Args:
        network: whose class is looked at.
        what: ``chain``, a :class:`.chain.Chain` that cuts it into sections for a pipeline, or ``split``, a
            :class:`.tensor_networks.Split` whose layers are divided by columns.
        by: who names it, for messages.

    Raises:
        DeclaredError: what it names is not there.
    """
    found = getattr(type(network), what, None)
    return named(found, by) if isinstance(found, str) else found
