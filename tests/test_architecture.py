"""Which module may import which: the arrows of the design, read from the source."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent / "src" / "trimtab"
MODULES = {
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path
    for path in sorted(ROOT.rglob("*.py"))
}
LEAVES = ("returns", "objectives", "ewma", "normalize", "minibatch", "prng", "nets", "envs")
ALLOWED = {
    "rollout": LEAVES,
    "algos": (*LEAVES, "rollout", "config"),
    "evaluate": ("algos", "rollout", "envs", "config"),
    "snapshot": ("algos", "records", "config"),
    "engine": (*LEAVES, "rollout", "algos", "config", "device", "anatomy"),  # light probes while training
    "run": ("config", "records"),
    "records": (),
    "config": ("validation",),
    "validation": ("config",),  # for type checkers only
    "rescale_rules": ("config",),
    "rescaling": ("config", "rescale_rules"),
    "workers": ("records",),
    "stats": (),
    "playbook": ("config", "run", "stats", "records", "workers", "progress", "report"),
    "flags": ("config",),
    "sinks": (),
    "presets": ("config", "envs"),
}
WITHOUT_JAX = (
    "validation",
    "rescaling",
    "rescale_rules",
    "workers",
    "records",
    "stats",
    "config",
    "flags",
    "report",
    "run",
    "cli",
    "commands",
    "presets",
    "sinks",
    "seeds",
    "playbook",
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
    return parts - {package(module)}


@pytest.mark.parametrize("module", [m for m in MODULES if package(m) in LEAVES])
def test_leaf_mathematics_imports_no_other_part(module):
    assert siblings(module) == set()


@pytest.mark.parametrize("module", [m for m in MODULES if package(m) in ALLOWED])
def test_arrows_point_one_way(module):
    assert siblings(module) <= set(ALLOWED[package(module)])


def test_nothing_below_the_command_line_imports_it():
    above = {"cli", "commands"}
    for module in MODULES:
        if package(module) not in above:
            assert not siblings(module) & above, module


@pytest.mark.parametrize("module", [m for m in MODULES if package(m) in WITHOUT_JAX])
def test_light_modules_import_no_jax(module):
    heavy = ("jax", "equinox", "optax", "gymnax")
    shallow = imports(module, deep=False)
    assert not {name for name in shallow if name.split(".")[0] in heavy}
    if package(module) in ("records", "stats", "report", "config", "flags"):
        assert not {name for name in imports(module) if name.split(".")[0] in heavy}


@pytest.mark.parametrize("module", MODULES)
def test_no_module_is_a_mistake_long(module):
    assert len(MODULES[module].read_text().splitlines()) <= 500
