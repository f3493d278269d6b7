# SPDX-License-Identifier: Apache-2.0
"""The changes that scripts/mutate.py makes: a place of a file each, named so that the name moves with the code."""
from __future__ import annotations

import ast
import copy
import re
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType
from typing import Iterator

SWAPS: dict[type, type] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.FloorDiv: ast.Mult,
    ast.Mod: ast.Mult, ast.Pow: ast.Mult, ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd, ast.LShift: ast.RShift,
    ast.RShift: ast.LShift, ast.BitXor: ast.BitAnd}
COMPARISONS: dict[type, tuple[type, ...]] = {
    ast.Lt: (ast.LtE, ast.GtE), ast.LtE: (ast.Lt, ast.Gt), ast.Gt: (ast.GtE, ast.LtE), ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq,), ast.NotEq: (ast.Eq,), ast.Is: (ast.IsNot,), ast.IsNot: (ast.Is,), ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,)}
NAMES = {"min": "max", "max": "min", "any": "all", "all": "any", "minimum": "maximum", "maximum": "minimum",
         "argmin": "argmax", "argmax": "argmin"}
# of lines of code in texts
TOKENS = [(re.compile(pattern), other) for pattern, other in (
    (r"(?<= )>(?= )", "<="), (r"(?<= )>(?= )", ">="), (r"(?<= )==?(?= )", "!="), (r"(?<= )\+(?= )", "-"),
    (r"(?<= )-(?= )", "+"), (r"(?<= )//(?= )", "*"), (r"(?<= )\*(?= )", "//"), (r"(?<= )&(?= )", "|"),
    (r" or .*?(?=:)", ""), (r"(?<=if ).*? or ", ""), (r"\bnot ", ""), (r"(?<![\w(])-(?=\w)", ""), (r"\+=", "-="),
    (r"\braise ", ""), (r"(?<![\w<#{.])(?<!at most )\d+(?![\w>}])", "+1"))]


def told_to_people(node: ast.AST) -> bool:
    """True for a call that tells a log something."""
    return (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
            and isinstance(node.func.value, ast.Name) and node.func.value.id == "log")


def is_docstring(node: ast.AST) -> bool:
    """True for a statement that is a text alone."""
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def in_text(text: str) -> Iterator[tuple[str, str]]:
    """Changes of a line of code, each with a text that shows it."""
    end = text.find("raise ValueError(") + len("raise ") if "raise ValueError(" in text else len(text)
    for pattern, other in TOKENS:
        for found in pattern.finditer(text, 0, end):
            new = str(int(found[0]) + 1) if other == "+1" else other
            around = text[:found.start()], text[found.end():]
            yield new.join(around), f"«{found[0]} → {new}»".join(around)


def changes(node: ast.AST, code: bool) -> Iterator[tuple[ast.AST, ast.AST | None]]:
    """Nodes that may take the place of a node, and how each is shown; None: as itself."""
    if isinstance(node, (ast.BinOp, ast.AugAssign)) and type(node.op) in SWAPS:
        other = copy.copy(node)
        other.op = SWAPS[type(node.op)]()
        yield other, None
    elif isinstance(node, ast.Compare):
        for number, op in enumerate(node.ops):
            for kind in COMPARISONS[type(op)]:
                compare = copy.copy(node)
                compare.ops = [*node.ops[:number], kind(), *node.ops[number + 1:]]
                yield compare, None
    elif isinstance(node, ast.BoolOp):
        for number in range(len(node.values)):
            left = node.values[:number] + node.values[number + 1:]
            yield left[0] if len(left) == 1 else ast.BoolOp(node.op, left), None
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.Not, ast.USub)):
        yield node.operand, None
    elif isinstance(node, ast.Constant) and isinstance(node.value, (bool, int, float)):
        value = node.value
        yield ast.Constant(not value if isinstance(value, bool) else value + 1 if isinstance(value, int)
                           else 2 * value or 1.0), None
    elif isinstance(node, ast.Constant) and isinstance(node.value, str) and code:
        for new, shown in in_text(node.value):
            yield ast.Constant(new), ast.Constant(shown)
    elif isinstance(node, ast.Name) and node.id in NAMES and isinstance(node.ctx, ast.Load):
        yield ast.Name(NAMES[node.id], node.ctx), None
    elif isinstance(node, ast.Attribute) and node.attr in NAMES and isinstance(node.ctx, ast.Load):
        yield ast.Attribute(node.value, NAMES[node.attr], node.ctx), None
    if isinstance(node, (ast.If, ast.While, ast.IfExp)) and not isinstance(node.test, (ast.Compare, ast.BoolOp)) and (
            not isinstance(node.test, ast.UnaryOp)):
        other = copy.copy(node)
        other.test = ast.UnaryOp(ast.Not(), node.test)
        yield other, None
    targets = getattr(node, "targets", [])
    if isinstance(node, (ast.Raise, ast.AugAssign, ast.Continue, ast.Break, ast.Delete)) or (
            isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)) or (isinstance(node, ast.Assign) and all(
                isinstance(target, (ast.Attribute, ast.Subscript)) for target in targets)):
        yield ast.Pass(), None


def headed(node: ast.stmt) -> ast.stmt:
    """A statement without what is in it."""
    if not isinstance(getattr(node, "body", None), list):
        return node
    head = copy.copy(node)
    for name in ("body", "orelse", "finalbody", "handlers", "cases", "decorator_list"):
        if hasattr(head, name):
            setattr(head, name, [])
    return head


def text_of(node: ast.AST) -> str:
    """A node as text, in one line."""
    return " ".join(ast.unparse(ast.fix_missing_locations(copy.deepcopy(node))).split())


@dataclass
class Mutation:
    """One change: its tree, the file, what names it however lines move, and whether it is inside a function."""

    path: Path
    key: str
    inside: bool
    tree: ast.Module = field(repr=False)
    holder: ast.AST = field(repr=False)
    place: tuple[str, int | None] = field(repr=False)
    new: ast.AST = field(repr=False)

    def put(self, node: ast.AST) -> ast.AST:
        """Puts a node in its place; gives what was there."""
        name, number = self.place
        old = getattr(self.holder, name)
        if number is None:
            setattr(self.holder, name, node)
            return old
        old[number], old = node, old[number]
        return old

    def code(self) -> CodeType:
        """The module's code with it."""
        self.put(self.new)
        return compile(ast.fix_missing_locations(self.tree), str(self.path), "exec")


def mutations(path: Path, below: Path, code: bool = False) -> list[Mutation]:
    """All mutations of a file, named from the folder ``below``; with ``code``, texts in it are lines of code."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    found: list[Mutation] = []
    counts: Counter[str] = Counter()
    functions: set[str] = set()

    def one(node: ast.AST, holder: ast.AST, place: tuple[str, int | None], where: str, stmt: ast.stmt) -> None:
        for new, shown in changes(node, code):
            mutation = Mutation(path, "", where in functions, tree, holder, place, new)
            if isinstance(node, ast.stmt):
                old, now = text_of(headed(node)), text_of(headed(new))      # type: ignore[arg-type]
                text = f"«{old} → {now}»"
            else:
                mark = shown or ast.Name(f"«{text_of(node)} → {text_of(new)}»", ast.Load())
                mutation.put(mark)
                text = text_of(headed(stmt))
                mutation.put(node)
            key = f"{path.relative_to(below)}::{where}::{text}"
            counts[key] += 1
            mutation.key = key if counts[key] == 1 else f"{key} #{counts[key]}"
            found.append(mutation)

    def walk(holder: ast.AST, where: str, stmt: ast.stmt) -> None:
        for name, value in ast.iter_fields(holder):
            if name in ("annotation", "returns", "decorator_list", "format_spec", "type_params"):
                continue
            for number, node in enumerate(value) if isinstance(value, list) else [(None, value)]:
                if not isinstance(node, ast.AST) or isinstance(node, ast.Assert) or is_docstring(node) or (
                        told_to_people(getattr(node, "value", node))):
                    continue
                if isinstance(node, ast.Assign) and text_of(node.targets[0]) in ("__all__", "__slots__"):
                    continue
                inner = node if isinstance(node, ast.stmt) else stmt
                below = where
                if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
                    below = f"{where}.{node.name}".lstrip(".")
                    if isinstance(node, ast.FunctionDef) or where in functions:
                        functions.add(below)
                one(node, holder, (name, number), where, inner)
                if not isinstance(node, ast.Raise):
                    walk(node, below, inner)

    walk(tree, "", ast.Pass())
    return found
