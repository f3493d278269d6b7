# SPDX-License-Identifier: Apache-2.0
"""An ablation: what of a brain is taken away or replaced, to see what it contributes."""
from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Ablation:
    """Changes that an ablation makes to a brain.

    Attributes:
        classes: ``package.module:Class`` by region.
        parameters: by region and name.
    """

    classes: dict[str, str] = field(default_factory=dict)
    parameters: dict[str, dict[str, Any]] = field(default_factory=dict)


NONE = Ablation()
