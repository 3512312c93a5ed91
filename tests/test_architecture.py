"""Which module may import which: the arrows of the design, read from the source."""

import ast
import sys
from pathlib import Path

import pytest

from trimtab.config.algorithms import ALGORITHMS

ROOT = Path(__file__).parent.parent / "src" / "trimtab"
MODULES = {
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path
    for path in sorted(ROOT.rglob("*.py"))
}
# The rooms from the ground up: a room may open doors to the rooms before it, never to one after it.
ROOMS = (
    ("core",),
    ("math",),
    ("nets", "envs"),
    ("config",),
    ("presets",),
    ("training",),
    ("gradient",),
    ("anatomy",),
    ("torch",),
    ("advise",),
    ("libraries",),
    ("studies",),
    ("show",),
    ("experiments",),
    ("extras",),
    ("operations",),
    ("api",),
    ("cli",),
    ("__main__",),
)
# What a notebook shows of a result is drawn by `show`, which is imported when it is shown.
NOTEBOOK = {("gradient.anatomy", "show"), ("advise.diagnosis", "show")}
NOTEBOOK |= {("studies.split_study", "show"), ("studies.tune_study", "show")}
LEVEL = {room: level for level, rooms in enumerate(ROOMS) for room in rooms}
LIGHT = (
    *("core", "config", "presets", "torch", "show", "advise", "libraries", "studies", "experiments", "operations"),
    *("api", "cli", "__main__"),
)
NEVER_JAX = ("core", "config", "show", "torch")
# The estimators of `trimtab.anatomy`, for other people's loops: NumPy, SciPy and the shapes in signatures, no more.
ESTIMATORS = (
    *("bias", "bootstrap", "correlation", "enumerated_strings", "group_baselines", "groups", "inner_products", "noise"),
    *("sketches", "squared_means", "streams", "variance"),
)
LIGHT_MODULES = (
    "math.stats",
    "training.records",
    "training.run",
    "training.progress",
    "training.device",
    "training.numpy_policy",
    "gradient.probe_options",
)


def package(module: str) -> str:
    """The top-level part a module belongs to."""
    return module.split(".")[0]


def imports(module: str, deep: bool = True) -> set[str]:
    """What a module imports, absolutely named; `deep` includes imports inside functions."""
    tree, found = ast.parse(MODULES[module].read_text()), set()
    nodes = ast.walk(tree) if deep else _at_import_time(tree.body)
    for node in nodes:
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                here = ["trimtab", *module.split(".")]
                keep = len(here) - node.level + (MODULES[module].name == "__init__.py")
                base = ".".join([*here[:keep], *([base] if base else [])])
            found.add(base)
            if base == "trimtab":
                found |= {f"trimtab.{alias.name}" for alias in node.names}
    return found


def _at_import_time(body):
    """Statements run on import: not inside functions, nor under TYPE_CHECKING."""
    for node in body:
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            continue
        yield node
        if isinstance(node, ast.If | ast.Try | ast.With | ast.ClassDef):
            yield from _at_import_time(node.body)


def siblings(module: str) -> set[str]:
    """The other parts of trimtab a module imports."""
    parts = {name.split(".")[1] for name in imports(module) if name.startswith("trimtab.")}
    return (parts & LEVEL.keys()) - {package(module)}


def test_file_names_occur_once():
    names = [path.name for path in MODULES.values() if path.name != "__init__.py"]
    assert [name for name in set(names) if names.count(name) > 1] == []


def test_every_module_has_a_room():
    assert {package(module) for module in MODULES if module} <= LEVEL.keys() | {"__init__"}


@pytest.mark.parametrize("module", [m for m in MODULES if package(m) in LEVEL])
def test_doors_open_one_way(module):
    here = package(module)
    wrong = {other for other in siblings(module) if LEVEL[other] >= LEVEL[here] and (module, other) not in NOTEBOOK}
    assert not wrong, f"{module} imports {wrong}"


@pytest.mark.parametrize("module", [m for m in MODULES if package(m) in LIGHT or m in LIGHT_MODULES])
def test_light_modules_import_no_jax(module):
    heavy = ("jax", "equinox", "optax", "gymnax")
    assert not {name for name in imports(module, deep=False) if name.split(".")[0] in heavy}
    if package(module) in NEVER_JAX:
        assert not {name for name in imports(module) if name.split(".")[0] in heavy}


@pytest.mark.parametrize("module", ["anatomy", *(f"gradient.{name}" for name in ESTIMATORS)])
def test_estimators_need_numpy_and_scipy_only(module):
    """Nor any part of trimtab but themselves and the light core."""
    outside = {name.split(".")[0] for name in imports(module)} - set(sys.stdlib_module_names)
    assert outside <= {"numpy", "scipy", "jaxtyping", "trimtab"}
    own = {f"trimtab.gradient.{name}" for name in ESTIMATORS}
    assert {n for n in imports(module) if n.startswith("trimtab")} <= own | {
        "trimtab.core.estimate",
        "trimtab.core.errors",
    }


@pytest.mark.parametrize("module", [m for m in MODULES if package(m) == "torch"])
def test_the_meter_needs_estimators_and_the_core_only(module):
    """With `test_estimators_need_numpy_and_scipy_only`: importing it imports neither JAX nor polars."""
    own = {f"trimtab.gradient.{name}" for name in (*ESTIMATORS, "batch_sentence", "meter_report")}
    own |= {f"trimtab.core.{name}" for name in ("errors", "estimate")} | {"trimtab.gradient"}
    found = {n for n in imports(module) if n.startswith("trimtab.") and not n.startswith("trimtab.torch")}
    assert found <= own


@pytest.mark.parametrize("module", MODULES)
def test_no_module_is_a_mistake_long(module):
    assert len(MODULES[module].read_text().splitlines()) <= 700


@pytest.mark.parametrize("module", [m for m in MODULES if m != "config.algorithms"])
def test_no_algorithm_is_asked_for_by_its_name(module):
    compared = [node for node in ast.walk(ast.parse(MODULES[module].read_text())) if isinstance(node, ast.Compare)]
    words = {c.value for node in compared for c in ast.walk(node) if isinstance(c, ast.Constant)}
    assert not words & ALGORITHMS.keys(), "ask a property of Config, or add a trait"


TREE = ROOT.parent.parent
SCRIPTS = [path for folder in ("benchmarks", "docs", "examples") for path in sorted((TREE / folder).glob("*.py"))]


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.relative_to(TREE).as_posix())
def test_what_scripts_outside_the_package_import_is_there(script):
    """Benchmarks run for hours and seldom: they must not be the first to find out that a module has moved."""
    for node in ast.walk(ast.parse(script.read_text())):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("trimtab"):
            module = node.module.removeprefix("trimtab").removeprefix(".")
            for name in node.names:
                inside = MODULES.keys() & {f"{module}.{name.name}".removeprefix(".")}
                assert inside or (module in MODULES and name.name in MODULES[module].read_text()), ast.unparse(node)


def test_the_picture_of_the_rooms_is_their_order():
    text = (ROOT.parents[1] / "docs" / "architecture.md").read_text()
    line = text.partition("flowchart LR\n")[2].splitlines()[0]
    heights = [{LEVEL[room.strip()] for room in part.split(" & ")} for part in line.split(" --> ")]
    assert all(len(level) == 1 for level in heights)
    order = [level.pop() for level in heights]
    assert order == sorted(set(order)) and order[-1] == LEVEL["operations"]
