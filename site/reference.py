"""The reference of the library from its source: signatures, the comment beside each parameter, docstrings.

The project writes what a parameter means beside it (`n: int,  # models`), where autodoc would not look.
Nothing is imported.
"""

import ast
import re
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path

# Folder of ppe/, its title, what it is for; in the order of the contents page.
ROOMS = {
    "api": "From a file or a frame to a result",
    "": "Verdicts, pools, cycles, truncation",
    "rankers": "Rankers",
    "inference": "Trust in a ranking",
    "designs": "Spending judge calls",
    "importers": "Verdict files of other projects",
    "stages": "Collecting verdicts",
    "theory": "The theory at finite n",
    "sources": "Public sets and simulated pools",
    "paper": "The paper's artefacts",
    "reports": "Reports",
}

LARGEST_PAGE = 20  # modules; in a folder of more, each has a page of its own

HEAD = """# Functions

Signatures, parameters and docstrings as they stand in the source. The notebooks say why, and show each function at work.

## The front door

What `from ppe import …` gives; each name is imported when it is used.
"""  # noqa: E501


SAID = r"#\s*+(?!fmt:|type: ignore|noqa|%%)(.*)$"  # a comment for readers, not for a tool


@dataclass(frozen=True)
class Module:
    "One module: its source, read once."

    name: str  # from `ppe`, as rankers.registry
    path: str  # from the root
    tree: ast.Module
    lines: list[str]

    @classmethod
    def of(cls, path: Path, root: Path) -> "Module":
        text = path.read_text(encoding="utf-8")
        name = ".".join(path.relative_to(root / "ppe").with_suffix("").parts)
        return cls(name, path.relative_to(root).as_posix(), ast.parse(text), text.splitlines())

    def comment(self, node: ast.stmt | ast.expr | ast.arg) -> str:
        "What stands beside the end of a node, or beside the bracket that a definition opens with."
        line = self.lines[(node.end_lineno or 1) - 1].encode()[node.end_col_offset or 0 :].decode()
        found = re.match(rf"[\s,):\]}}]*{SAID}", line)
        if not found and isinstance(node, (ast.Assign, ast.AnnAssign, ast.arg)):
            found = None if isinstance(node, ast.arg) else re.search(rf"[({{\[]\s*{SAID}", self.lines[node.lineno - 1])
            above = takewhile(bool, (re.match(SAID, line.strip()) for line in self.lines[node.lineno - 2 :: -1]))
            return found[1] if found else " ".join(line[1] for line in reversed(list(above)))
        return found[1] if found else ""

    @property
    def notebook(self) -> str:
        return f"nbs/{self.name.replace('.', '/')}.ipynb"

    @property
    def exported(self) -> dict[str, ast.stmt]:
        "Definitions of the names in `__all__`, in its order."
        found: dict[str, ast.stmt] = {}
        names: list[str] = []
        for node in self.tree.body:
            if isinstance(node, (ast.FunctionDef, ast.ClassDef, ast.AsyncFunctionDef)):
                found[node.name] = node
            elif isinstance(node, (ast.Assign, ast.AnnAssign)):
                target = node.targets[0] if isinstance(node, ast.Assign) else node.target
                for part in target.elts if isinstance(target, ast.Tuple) else [target]:
                    found.setdefault(ast.unparse(part), node)
        if isinstance(node := found.get("__all__"), ast.Assign):
            names = ast.literal_eval(node.value)
        return {name: found[name] for name in names if name in found}


def label(module: str, name: str) -> str:
    "Anchor of a name; a constant, a class and a function may differ by capitals only."
    kind = "-constant" if name.isupper() else "-class" if name[0].isupper() else ""
    return "api-" + re.sub(r"[._]", "-", f"{module}.{name}").lower() + kind


class Reference:
    "All entries, and where each name stands."

    def __init__(self, root: Path) -> None:
        paths = sorted((root / "ppe").rglob("*.py"))
        modules = [Module.of(path, root) for path in paths if path.stem not in ("__init__", "_modidx")]
        self.rooms: dict[str, list[Module]] = {room: [] for room in ROOMS}
        for module in modules:
            room = module.name.rpartition(".")[0]
            if room in self.rooms:  # the studies of the paper and the commands are no library
                self.rooms[room].append(module)
        self.rooms = {room: found for room, found in self.rooms.items() if found}
        home = next(
            node.value
            for node in Module.of(root / "ppe" / "__init__.py", root).tree.body
            if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "_NAMES"
        )
        self.front_door: dict[str, str] = {
            name: place.removeprefix("ppe.")
            for place, names in ast.literal_eval(home).items()
            for name in names.split()
        }
        # A name in backticks leads to its entry where only one module has it, or the front door does.
        self.labels: dict[str, str] = {}
        seen = [(name, module.name) for found in self.rooms.values() for module in found for name in module.exported]
        for name, module in seen:
            if sum(other == name for other, _ in seen) == 1 or self.front_door.get(name) == module:
                self.labels[name] = label(module, name)

    # ---- text

    def prose(self, text: str) -> str:
        "A docstring or comment as Markdown: names lead to their entries, and only backticks are markup."
        parts = re.split(r"(`+[^`]+`+)", text.strip())
        shown = []
        for k, part in enumerate(parts):
            if k % 2 == 0:
                shown.append(re.sub(r"([*_<>$\[\]{}|~\\])", r"\\\1", part))
            else:
                name = part.strip("`").removesuffix("()")
                shown.append(f"[`{name}`](#{self.labels[name]})" if name in self.labels else f"`{part.strip('`')}`")
        return "".join(shown)

    def docstring(self, node: ast.AST) -> str:
        text = (
            ast.get_docstring(node) if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)) else None
        )
        return self.prose(text) if text else ""

    # ---- entries

    def parameters(self, function: ast.FunctionDef | ast.AsyncFunctionDef, module: Module) -> list[str]:
        "One definition for each parameter, and one for what is returned."
        given = function.args
        positional = [*given.posonlyargs, *given.args]
        defaults = dict(zip([arg.arg for arg in positional][::-1], given.defaults[::-1], strict=False))
        defaults |= {arg.arg: value for arg, value in zip(given.kwonlyargs, given.kw_defaults, strict=True) if value}
        stars = {id(given.vararg): "*", id(given.kwarg): "**"}
        arguments = [*positional, *([given.vararg] if given.vararg else []), *given.kwonlyargs]
        lines = []
        for arg in [*arguments, *([given.kwarg] if given.kwarg else [])]:
            if arg.arg in ("self", "cls"):
                continue
            default = defaults.get(arg.arg)
            meaning = self.prose(module.comment(default or arg))
            lines.append(definition(stars.get(id(arg), "") + arg.arg, arg.annotation, default, meaning))
        if function.returns is not None and ast.unparse(function.returns) != "None":
            what = self.prose(module.comment(function.returns))
            lines.append(f"**Returns** `{ast.unparse(function.returns)}`" + (f"\n: {what}" if what else ""))
        return lines

    def entry(self, name: str, node: ast.stmt, module: Module, heading: str) -> str:
        "Heading, signature, docstring, parameters; of a class also its fields and public methods."
        parts = [f"({label(module.name, name)})=\n{heading} `{name}`"]
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            parts += [signature(name, node), self.docstring(node), *self.parameters(node, module)]
        elif isinstance(node, ast.ClassDef):
            bases = ", ".join(map(ast.unparse, node.bases))
            parts += [f"```python\nclass {name}{f'({bases})' if bases else ''}\n```", self.docstring(node)]
            parts += [
                definition(
                    ast.unparse(field.target),
                    field.annotation,
                    field.value,
                    self.prose(module.comment(field)),
                )
                for field in node.body
                if isinstance(field, ast.AnnAssign) and not ast.unparse(field.target).startswith("_")
            ]
            for method in node.body:
                if isinstance(method, ast.FunctionDef) and not method.name.startswith("_"):
                    marks = {ast.unparse(mark) for mark in method.decorator_list}
                    attribute = marks & {"property", "cached_property"}
                    parts.append(
                        f"**`{name}.{method.name}`**" if attribute else signature(f"{name}.{method.name}", method)
                    )
                    parts += [self.docstring(method), *self.parameters(method, module)]
        return "\n\n".join(part for part in parts if part)

    def constant(self, name: str, node: ast.stmt, module: Module) -> str:
        "Name, value if it is short, comment."
        assert isinstance(node, (ast.Assign, ast.AnnAssign))
        value = " ".join(ast.unparse(node.value).split()) if node.value else ""
        comment = self.prose(module.comment(node))
        shown = f" = `{value}`" if 0 < len(value) <= 160 else ""
        return f"({label(module.name, name)})=\n`{name}`{shown}{f': {comment}' if comment else ''}"

    def room_pages(self, room: str) -> dict[str, str]:
        "The page of a folder by its name; a folder of many modules has a page for each, and one that lists them."
        title = f"# {ROOMS[room]}: `ppe.{room}`" if room else f"# {ROOMS[room]}: `ppe`"
        modules = [module for module in self.rooms[room] if module.exported]
        if len(modules) <= LARGEST_PAGE:
            return {page(room): "\n\n".join([title, *(self.module_section(module, "##") for module in modules)]) + "\n"}
        pages = {page(module.name): self.module_section(module, "#") + "\n" for module in modules}
        table = [f"| [`ppe.{module.name}`]({page(module.name)}.md) | {self.lead(module)} |" for module in modules]
        tree = ["```{toctree}", ":hidden:", ":titlesonly:", "", *pages, "```"]
        return {
            page(room): "\n".join([title, "", "| Module | What it is |", "|---|---|", *table, "", *tree, ""])
        } | pages

    def lead(self, module: Module) -> str:
        "The first paragraph of its docstring."
        return " ".join(self.prose(ast.get_docstring(module.tree) or "").split("\n\n")[0].split())

    def module_section(self, module: Module, heading: str) -> str:
        said = self.prose(ast.get_docstring(module.tree) or "")
        links = f"[notebook](../{module.notebook}) · [source](../{module.path})"
        parts = [f"{heading} `ppe.{module.name}`\n\n{said}\n\n{links}"]
        definitions = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
        described = {name: node for name, node in module.exported.items() if isinstance(node, definitions)}
        parts += [self.entry(name, node, module, heading + "#") for name, node in described.items()]
        constants = [
            self.constant(name, node, module)
            for name, node in module.exported.items()
            if name not in described and not ast.unparse(node).startswith(f"{name} = TypeVar")
        ]
        parts += ["**Constants and types**", *constants] if constants else []
        return "\n\n".join(parts)

    def index(self) -> str:
        "The public names, `from ppe import …`, by what they are for; then every module."
        lines = [HEAD]
        modules = {module.name: module for found in self.rooms.values() for module in found}
        for room, found in self.rooms.items():
            names = [name for name, home in self.front_door.items() if home in {module.name for module in found}]
            if not names:
                continue
            lines += [f"### {ROOMS[room]}", "", "| Name | What it is |", "|---|---|"]
            for name in names:
                module = modules[self.front_door[name]]
                node = module.exported[name]
                said = self.docstring(node) or self.prose(module.comment(node))
                lines.append(f"| [`{name}`](#{self.labels[name]}) | {' '.join(said.split(chr(10) * 2)[0].split())} |")
            lines.append("")
        pages = "\n".join(f"{ROOMS[room]} <{page(room)}>" for room in self.rooms)
        return "\n".join([*lines, "## Every module", "", "```{toctree}", ":titlesonly:", "", pages, "```", ""])


def page(room: str) -> str:
    return f"ppe-{room.replace('.', '-')}" if room else "ppe"


def definition(name: str, annotation: ast.expr | None, default: ast.expr | None, meaning: str) -> str:
    "A parameter or field as an item of a definition list."
    kind = f" : `{ast.unparse(annotation)}`" if annotation else ""
    value = f" = `{ast.unparse(default)}`" if default else ""
    return f"`{name}`{kind}{value}\n: {meaning or '–'}"


def signature(name: str, function: ast.FunctionDef | ast.AsyncFunctionDef) -> str:
    "Names and defaults only; types stand with the parameters."
    bare = ast.parse(ast.unparse(function)).body[0]
    assert isinstance(bare, (ast.FunctionDef, ast.AsyncFunctionDef))
    arguments = bare.args
    every = [
        *arguments.posonlyargs,
        *arguments.args,
        *arguments.kwonlyargs,
        arguments.vararg,
        arguments.kwarg,
    ]
    for arg in filter(None, every):
        arg.annotation = None
    arguments.posonlyargs = [arg for arg in arguments.posonlyargs if arg.arg not in ("self", "cls")]
    arguments.args = [arg for arg in arguments.args if arg.arg not in ("self", "cls")]
    return f"```python\n{name}({ast.unparse(arguments)})\n```"


def reference_pages(root: Path) -> dict[str, str]:
    "Markdown of the reference by place in the site: the public names, the folders, modules of large folders."
    reference = Reference(root)
    found = {"api/index.md": reference.index()}
    for room in reference.rooms:
        found |= {f"api/{name}.md": text for name, text in reference.room_pages(room).items()}
    return found
