# SPDX-License-Identifier: Apache-2.0
"""What the package names: what is promised, what a type checker sees and what is found at run time are the same."""
import ast
from pathlib import Path

import brain_wire


def test_a_type_checker_sees_what_is_found_at_run_time():
    tree = ast.parse(Path(brain_wire.__file__).read_text(encoding="utf-8"))
    (checked,) = [node for node in tree.body if isinstance(node, ast.If)]
    seen = {alias.name: node.module for node in checked.body for alias in node.names}
    assert sorted(seen) == brain_wire.__all__
    for name, module in seen.items():
        found = getattr(brain_wire, name)
        assert module == f"brain_wire.{brain_wire._PLACES[name]}" and found.__name__ == name
