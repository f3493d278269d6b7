# SPDX-License-Identifier: Apache-2.0
"""An edge of a made-up version: it writes and reads other formats of messages, and knows other kinds and fields."""
import os
import sys

from brain_edge.messages import envelope

version, oldest, newest = os.environ["MADE_UP"].split()
envelope.OLDEST, envelope.NEWEST = int(oldest), int(newest)     # before others have read them

from brain_edge.enrolment import versions  # noqa: E402
from brain_edge.processes import edge, run_edge  # noqa: E402
from brain_edge.state import apply, kinds  # noqa: E402

edge.software = run_edge.software = lambda: version
kinds.KINDS = tuple(kind for kind in kinds.KINDS if kind != "Region")
kinds.EFFECTIVE = apply.EFFECTIVE = ("Parameters",)
versions.CAN = ()
original = kinds.schema_of


def schema_of(kind):
    """Of a version that had no field `active` of a Region, and `only` of Parameters."""
    found = original(kind)
    if kind == "Parameters" and version == "0.1.9":
        fields = {name: inner for name, inner in found["properties"].items() if name != "values"}
        return {**found, "required": ["region"], "properties": fields}
    return found


kinds.schema_of = schema_of
sys.exit(run_edge.main())
