"Every sentence that `ppe` can say, found in its syntax trees: `python tests/messages.py` writes build/messages.md."

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
ERRORS = {"PpeError", "InputError", "ConvergenceError", "NoMaximumError", "Remark"}
HELP = {"help", "description", "epilog", "metavar"}
DRAWN = {"set_title", "set_xlabel", "set_ylabel", "title", "label", "caption"}
SENTENCE = re.compile(r"[a-z{}]{2,}[,;:]? [a-z{(]")  # two words in a row


class Message(NamedTuple):
    kind: str
    module: str
    line: int
    text: str  # the fields of an f-string as {…}


def template(node: ast.AST) -> str | None:
    "The text of a literal, of an f-string or of a sum of them; None for any other expression."
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(part.value if isinstance(part, ast.Constant) else "{…}" for part in node.values)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        left, right = template(node.left), template(node.right)
        return None if left is None and right is None else (left or "{…}") + (right or "{…}")
    return None


def name_of(call: ast.Call) -> str:
    "The name of the function that is called, the last part of a dotted one."
    function = call.func
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


def of_module(path: Path) -> Iterator[Message]:
    "The messages of one module in the order of its lines; a docstring is no message."
    tree = ast.parse(path.read_text())
    docs = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    module = path.relative_to(ROOT / "ppe").with_suffix("").as_posix()

    def visit(node: ast.AST, kind: str) -> Iterator[Message]:
        if id(node) in docs and isinstance(node, ast.Constant):
            return
        text = template(node)
        if text is not None:
            if kind in ERRORS or SENTENCE.search(text):
                yield Message(kind, module, node.lineno, text)
            if not isinstance(node, ast.BinOp):
                return
            return
        if isinstance(node, ast.Call) and name_of(node) in ERRORS:
            kind = name_of(node)
        for _, child in ast.iter_fields(node):
            for part in child if isinstance(child, list) else [child]:
                if isinstance(part, ast.keyword) and part.arg in HELP | DRAWN:
                    yield from visit(part.value, "help" if part.arg in HELP else "drawn")
                elif isinstance(part, ast.AST):
                    yield from visit(part, kind)

    yield from visit(tree, "sentence")


def messages() -> list[Message]:
    "The messages of all modules."
    return [m for path in sorted((ROOT / "ppe").rglob("*.py")) if path.name != "_modidx.py" for m in of_module(path)]


if __name__ == "__main__":
    rows = messages()
    head = "| kind | where | text |\n|---|---|---|\n"
    lines = [f"| {m.kind} | {m.module}:{m.line} | {m.text.replace('|', '/')!r} |\n" for m in rows]
    (ROOT / "build").mkdir(exist_ok=True)
    (ROOT / "build/messages.md").write_text(head + "".join(lines))
    print(f"{len(rows)} messages in build/messages.md")
