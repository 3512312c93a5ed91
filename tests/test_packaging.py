"""The wheel, built from the source archive, in a new environment that has never seen the source tree."""

import os
import re
import shutil
import subprocess
import sys
import tomllib
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import trimtab

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
SMALL = (
    "split FrozenLake-v1 --batch 16 --splits 4x4 --seeds 0 --quick --replicates 2 --total-timesteps 64 --preset none "
    "--hidden-sizes 4 --update-epochs 1 --json --quiet"
)


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """dist/: what `make dist` makes, from a copy of what is packaged, without fetching anything."""
    copy = tmp_path_factory.mktemp("source")
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, copy)
    shutil.copytree(ROOT / "src", copy / "src", ignore=shutil.ignore_patterns("*.egg-info", "__pycache__"))
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", "dist", "."]
    made = subprocess.run(command, cwd=copy, capture_output=True, text=True, timeout=900)
    assert made.returncode == 0, made.stdout + made.stderr
    return copy / "dist"


def needed() -> set[str]:
    """The distributions that installing this one without extras brings."""
    found, waiting = set[str](), list(map(Requirement, PROJECT["dependencies"]))
    while waiting:
        asked = waiting.pop()
        for text in metadata.distribution(asked.name).requires or ():
            each = Requirement(text)
            wanted = any(each.marker.evaluate({"extra": e}) for e in ("", *asked.extras)) if each.marker else True
            if wanted and canonicalize_name(each.name) not in found:
                waiting.append(each)
        found.add(canonicalize_name(asked.name))
    return found


def borrow(names: set[str], site: Path) -> None:
    """Links to the files of some distributions of this environment, and to no others."""
    for name in names:
        distribution = metadata.distribution(name)
        for entry in {file.parts[0] for file in distribution.files or () if file.parts[0] != ".."}:
            if not (site / entry).exists():
                (site / entry).symlink_to(Path(str(distribution.locate_file(entry))))


@pytest.fixture(scope="module")
def installed(built, tmp_path_factory):
    """A new environment with the wheel; what it says it depends on is borrowed from this one, and nothing else."""
    home = tmp_path_factory.mktemp("environment")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", home], check=True, timeout=900)
    (site,) = home.glob("lib/python*/site-packages")
    (wheel,) = built.glob("*.whl")
    pip = [sys.executable, "-m", "pip", "--python", home / "bin" / "python", "install", "--no-deps", "--no-index"]
    nothing_else = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    made = subprocess.run([*pip, wheel], env=nothing_else, capture_output=True, text=True, timeout=900)
    assert made.returncode == 0, made.stderr
    borrow(needed(), site)
    return home


def run(home: Path, words: str, folder: Path) -> str:
    environment = {"PATH": "/usr/bin:/bin", "HOME": str(folder), "XLA_FLAGS": os.environ["XLA_FLAGS"]}
    environment |= {name: os.environ[name] for name in ("NPROC", "TRIMTAB_CACHE")}
    command = [home / "bin" / "trimtab", *words.split()]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_archive_and_the_wheel_have_the_version(built):
    assert {path.name for path in built.iterdir()} == {
        f"trimtab-{trimtab.__version__}.tar.gz",
        f"trimtab-{trimtab.__version__}-py3-none-any.whl",
    }


def test_a_new_environment_runs_the_wheel_without_the_source_tree(installed, tmp_path):
    where = subprocess.run(
        [installed / "bin" / "python", "-c", "import trimtab; print(trimtab.__file__)"],
        cwd=tmp_path,
        env={},
        capture_output=True,
        text=True,
    )
    assert where.stdout.startswith(str(installed)), where
    package = Path(where.stdout.strip()).parent
    assert (package / "py.typed").is_file() and (package / "extras" / "live_view" / "assets" / "view.js").is_file()
    assert run(installed, "--version", tmp_path).strip() == trimtab.__version__
    assert "ppo/CartPole-v1" in run(installed, "presets", tmp_path).split()
    assert '"recommended"' in run(installed, SMALL, tmp_path)
    assert list(tmp_path.glob("runs/split-*/page.html"))


def test_every_extra_that_is_named_exists():
    extras = PROJECT["optional-dependencies"]
    pages = [ROOT / "README.md", ROOT / "CHANGELOG.md", ROOT / "CONTRIBUTING.md", *ROOT.glob("docs/**/*.md")]
    texts = [page.read_text() for page in (*pages, *ROOT.glob("src/**/*.py"))]
    named = {name for text in texts for found in re.findall(r"trimtab\[([\w,]+)\]", text) for name in found.split(",")}
    assert "envpool" in named and named <= extras.keys()


def test_every_pinned_package_is_pinned_once():
    names = [line.split("==")[0].lower().replace("_", "-") for line in (ROOT / "constraints.txt").read_text().split()]
    assert sorted(set(names)) == sorted(names) and "jax" in names
