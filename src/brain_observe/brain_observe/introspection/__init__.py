# SPDX-License-Identifier: Apache-2.0
"""Introspection: shows what the brain believes, to RViz and rqt. It has no neurons, and rests while nobody looks."""
from brain_observe.introspection.region import Introspection

__all__ = ["Introspection"]
