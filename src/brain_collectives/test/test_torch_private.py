# SPDX-License-Identifier: Apache-2.0
"""Private names of torch: the pinned release has them, one that lacks one is refused in a line, one module has them."""
from __future__ import annotations

import ast
import importlib
import inspect
from pathlib import Path

import pytest
import torch
from torch.distributed import distributed_c10d

from brain_collectives import torch_private
from brain_wire.private_names import PrivateNameMissing

SOURCES = Path(__file__).resolve().parents[2]
# Names of modules that are private, and of their own that torch keeps so; what Python itself has is not.
MODULES = ("torch", "rclpy")


@pytest.mark.parametrize("name", torch_private.NAMES)
def test_the_pinned_release_has_each_name(name):
    assert getattr(torch_private, name) is not None


def test_the_pinned_release_has_what_is_overridden_and_what_is_wrapped():
    for module, name in torch_private.OVERRIDDEN:
        torch_private.check_overridden(module, name)
    for name in torch_private.PICKLING:
        assert "group" in inspect.signature(getattr(distributed_c10d, name)).parameters
    for module, (name, _) in torch_private.ELSEWHERE.items():
        found = importlib.import_module(module)
        for part in name.split("."):
            found = getattr(found, part)
        assert callable(found)


def test_a_release_without_a_name_is_refused_in_a_line_that_says_which(monkeypatch):
    monkeypatch.setitem(torch_private.NAMES, "world", ("torch.distributed.distributed_c10d", "_universe"))
    with pytest.raises(PrivateNameMissing) as told:
        print(torch_private.world)
    assert str(told.value) == (f"torch {torch.__version__} has no torch.distributed.distributed_c10d._universe, a "
                               f"private name that is used here; install the torch that constraints.txt names")
    monkeypatch.setitem(torch_private.NAMES, "RecvInfo", ("torch.distributed.gone", "_RecvInfo"))
    with pytest.raises(PrivateNameMissing, match="torch.distributed.gone._RecvInfo"):
        from brain_collectives.torch_private import RecvInfo  # noqa: F401
    with pytest.raises(AttributeError):
        print(torch_private.nothing)


def _private(tree: ast.AST) -> list[str]:
    """Private modules and names of torch and rclpy that a file imports."""
    found = []
    for node in ast.walk(tree):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else [
            f"{node.module}.{alias.name}" for alias in node.names] if isinstance(node, ast.ImportFrom) else []
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "distributed_c10d":
            names = [f"torch.distributed.distributed_c10d.{node.attr}"]
        found += [name for name in names if name.partition(".")[0] in MODULES and any(
            part.startswith("_") for part in name.split("."))]
    return found


def test_no_other_module_names_one():
    if not (SOURCES / "brain_runtime" / "brain_runtime").is_dir():
        pytest.skip("the package alone")
    wrong = {}
    for path in SOURCES.glob("brain*/brain*/**/*.py"):
        if names := _private(ast.parse(path.read_text(encoding="utf-8"))):
            wrong[str(path.relative_to(SOURCES))] = names
    assert wrong == {}
