"""One-line changes to a source file: what a careless hand might do, and what no test should let pass."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass

_SWAPS = {
    "==": ["!="],
    "!=": ["=="],
    "<": ["<=", ">="],
    "<=": ["<", ">"],
    ">": [">=", "<="],
    ">=": [">", "<"],
    "&&": ["||"],
    "||": ["&&"],
    "+": ["-"],
    "-": ["+"],
    "*": ["/"],
    "/": ["*"],
    "+=": ["-="],
    "-=": ["+="],
    "++": ["--"],
    "--": ["++"],
    "<<": [">>"],
    ">>": ["<<"],
    "|=": ["&="],
    "&=": ["|="],
}
_C_WORDS = re.compile(
    r"""(?P<skip>"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|//.*|/\*.*?\*/|->|\b(?:0[xX][0-9a-fA-F]+)[uUlL]*\b)"""
    r"""|(?P<op><<=|>>=|<<|>>|==|!=|<=|>=|&&|\|\||\+\+|--|\+=|-=|\|=|&=|(?<=\s)[-+*/<>](?=\s))"""
    r"""|(?P<number>(?<![\w.])\d+(?![\w.]))|(?P<condition>\b(?:if|while) \()"""
)
_C_STATEMENT = re.compile(
    r"^\s+(?!return|break|continue|goto|case|default|static|const|struct|enum|union|unsigned|int|"
    r"uint|size_t|bool|char|void|double|long|dc_|assert)[\w>.\[\]()*&-]+.*;\s*$"
)
_C_LOG = re.compile(r"^\s*(?:log_(?:error|warn|info|debug|write)|\w*prefetch\w*) ?\(")
_C_FUNCTION = re.compile(r"^\w.*?(\w+)\(")


@dataclass(frozen=True)
class Change:
    """Line `line` (from 1) of `path` becomes `new`; `what` says how in a few words."""

    path: str
    line: int
    old: str
    new: str
    what: str

    def applied(self, text: str) -> str:
        """The file with the change; ValueError when the line is another one by now."""
        lines = text.split("\n")
        if not (self.line <= len(lines) and lines[self.line - 1] == self.old):
            raise ValueError(f"{self.path}:{self.line} is not what it was: {self.old.strip()}")
        lines[self.line - 1] = self.new
        return "\n".join(lines)


def of_c(path: str, text: str) -> Iterator[Change]:
    """Every change within a C file's functions, line by line. Preprocessor lines, comments, what goes to a log and
    hints to the processor are left alone: no test could tell."""
    inside_comment = inside_log = False
    function = ""
    depth = 0
    for number, line in enumerate(text.split("\n"), 1):
        if inside_comment or line.lstrip().startswith(("/*", "*")):
            inside_comment = "*/" not in line
            continue
        if depth == 0 and (named := _C_FUNCTION.match(line)):
            function = named[1]
        inside_log = inside_log or _C_LOG.match(line) is not None
        if inside_log or "prefetch" in path + function:
            inside_log = inside_log and not line.rstrip().endswith(";")
            depth += line.count("{") - line.count("}")
            continue
        at_depth = depth
        depth += line.count("{") - line.count("}")
        if at_depth == 0 or line.lstrip().startswith(("#", "//", "_Static_assert", "assert(")):
            continue
        for found in _C_WORDS.finditer(line):
            head, tail = line[: found.start()], line[found.end() :]
            if found["op"]:
                if found["op"] in "+-*<>" and not re.search(r"[\w)\]]\s*$", head):
                    continue  # a sign, a pointer
                for other in _SWAPS.get(found["op"], []):
                    yield Change(path, number, line, head + other + tail, f"{found['op']} becomes {other}")
            elif found["number"]:
                more = str(int(found["number"]) + 1)
                yield Change(path, number, line, head + more + tail, f"{found['number']} becomes {more}")
            elif found["condition"]:
                close = _closing(line, found.end() - 1)
                if close:
                    inner = line[found.end() : close]
                    yield Change(path, number, line, f"{head}{found['condition']}!({inner}){line[close:]}", "negated")
        if _C_STATEMENT.match(line) and line.count("(") == line.count(")") and "for (" not in line:
            indent = line[: len(line) - len(line.lstrip())]
            yield Change(path, number, line, indent + ";", "statement gone")


def _closing(line: str, opening: int) -> int | None:
    depth = 0
    for at in range(opening, len(line)):
        depth += {"(": 1, ")": -1}.get(line[at], 0)
        if depth == 0:
            return at
    return None


_PY_COMPARE = {
    ast.Eq: ("==", "!="),
    ast.NotEq: ("!=", "=="),
    ast.Lt: ("<", "<="),
    ast.LtE: ("<=", "<"),
    ast.Gt: (">", ">="),
    ast.GtE: (">=", ">"),
    ast.In: ("in", "not in"),
    ast.NotIn: ("not in", "in"),
    ast.Is: ("is", "is not"),
    ast.IsNot: ("is not", "is"),
}
_PY_BINARY = {
    ast.Add: ("+", "-"),
    ast.Sub: ("-", "+"),
    ast.Mult: ("*", "/"),
    ast.Div: ("/", "*"),
    ast.FloorDiv: ("//", "*"),
    ast.Mod: ("%", "+"),
}


_IDLE = {"gc", "slots", "frozen", "strict", "help", "description", "examples", "title", "summary"}
"""What no test could tell: how a record is kept, whether a guard against ourselves is there, and words for people."""


def _idle(tree: ast.AST) -> set[ast.AST]:
    """What changes nothing for anybody: what goes to a log, annotations that bound nothing, `_IDLE`."""
    found: set[ast.AST] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            if ast.unparse(node.value.func).startswith(("log.", "logging.")):
                found |= set(ast.walk(node))
        elif isinstance(node, ast.keyword) and node.arg in _IDLE:
            found |= set(ast.walk(node.value))
        elif isinstance(node, ast.arg | ast.AnnAssign | ast.FunctionDef | ast.AsyncFunctionDef):
            said = node.returns if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) else node.annotation
            inside = set(ast.walk(said)) if said else set()
            if not any(isinstance(part, ast.Name) and part.id == "Annotated" for part in inside):
                found |= inside
    return found


def of_python(path: str, text: str) -> Iterator[Change]:
    """Every change of a Python file that stays within one line. Texts, and what no test could tell, are left alone."""
    lines = text.split("\n")
    tree = ast.parse(text, path)
    idle = _idle(tree)

    def change(
        node: ast.AST, new: str, what: str, start: int | None = None, end: int | None = None
    ) -> Iterator[Change]:
        if node.lineno != node.end_lineno:
            return
        line = lines[node.lineno - 1]
        if not line.isascii():  # columns are bytes
            return
        start, end = node.col_offset if start is None else start, node.end_col_offset if end is None else end
        yield Change(path, node.lineno, line, line[:start] + new + line[end:], what)

    for node in ast.walk(tree):
        if node in idle:
            continue
        if isinstance(node, ast.Compare) and len(node.ops) == 1 and node.lineno == node.end_lineno:
            old, new = _PY_COMPARE[type(node.ops[0])]
            start, end = node.left.end_col_offset, node.comparators[0].col_offset
            between = lines[node.lineno - 1].encode()[start:end].decode()  # with brackets of either side
            yield from change(node, between.replace(old, new, 1), f"comparison becomes {new}", start, end)
        elif isinstance(node, ast.BoolOp) and node.lineno == node.end_lineno:
            old, new = (" and ", " or ") if isinstance(node.op, ast.And) else (" or ", " and ")
            line = lines[node.lineno - 1]
            first, second = node.values[0].end_col_offset, node.values[1].col_offset
            if line[first:second] == old:
                yield from change(node, new, f"{old.strip()} becomes {new.strip()}", first, second)
        elif isinstance(node, ast.BinOp) and type(node.op) in _PY_BINARY and node.lineno == node.end_lineno:
            old, new = _PY_BINARY[type(node.op)]
            start, end = node.left.end_col_offset, node.right.col_offset
            if lines[node.lineno - 1][start:end].strip() == old:
                yield from change(node, f" {new} ", f"{old} becomes {new}", start, end)
        elif isinstance(node, ast.Constant) and type(node.value) in (int, float):
            yield from change(node, repr(node.value + 1), f"{node.value} becomes {node.value + 1}")
        elif isinstance(node, ast.Constant) and isinstance(node.value, bool):
            yield from change(node, repr(not node.value), f"{node.value} becomes {not node.value}")
        elif isinstance(node, ast.If | ast.While) and node.test.lineno == node.test.end_lineno:
            old = lines[node.test.lineno - 1][node.test.col_offset : node.test.end_col_offset]
            yield from change(node.test, f"(not ({old}))", "negated")
        elif (
            isinstance(node, ast.Expr | ast.Assign | ast.AugAssign)
            and not isinstance(getattr(node, "value", None), ast.Constant)
            and node.col_offset >= 8
        ) and not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Yield | ast.YieldFrom)):
            yield from change(node, "pass", "statement gone")
