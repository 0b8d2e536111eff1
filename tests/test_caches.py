"""Files that are kept to save time, cut off or overwritten: computed again, or named in one line."""

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
TABLE = "judge,question_id,category,variant,model_a,model_b,verdict\n" + "".join(
    f"j,1,c,0,{pair},a\n" for pair in ("x,y", "y,z", "z,x")
)
DAMAGE: dict[str, Callable[[bytes], bytes]] = {
    "cut off": lambda data: data[: len(data) // 2],
    "zeros": lambda data: bytes(len(data)),
}
MODULE = """
from ppe.compiled import njit
@njit(cache=True)
def add(a, b):
    return a + b
print(add(2, 3))
"""


def damage(files: list[Path], how: str) -> None:
    assert files
    for file in files:
        file.write_bytes(DAMAGE[how](file.read_bytes()))


def called(folder: Path, *words: str, **options) -> subprocess.CompletedProcess:
    "`ppe` from the copy of the package in the folder."
    call = [sys.executable, "-c", "import sys; from ppe.cli.main import main; sys.exit(main())", *words]
    environment = {"PYTHONPATH": str(folder), "PATH": "", "HOME": str(folder)}
    return subprocess.run(call, cwd=folder, env=environment, capture_output=True, text=True, timeout=300)


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    "A folder with the package, what is compiled beside it, and a table."
    shutil.copytree(ROOT / "ppe", tmp_path / "ppe")
    (tmp_path / "verdicts.csv").write_text(TABLE)
    return tmp_path


@pytest.mark.parametrize(("kind", "how"), [("nbi", "cut off"), ("nbc", "zeros")])
def test_a_damaged_compiled_function_is_compiled_again(tmp_path: Path, kind: str, how: str):
    (tmp_path / "module.py").write_text(MODULE)
    call = [sys.executable, "module.py"]
    for _ in range(2):
        done = subprocess.run(call, cwd=tmp_path, capture_output=True, text=True)
        assert (done.returncode, done.stdout, done.stderr) == (0, "5\n", "")
        damage(sorted(tmp_path.rglob(f"*.{kind}")), how)
    subprocess.run(call, cwd=tmp_path, check=True, capture_output=True)
    assert all(file.read_bytes() != DAMAGE[how](file.read_bytes()) for file in tmp_path.rglob(f"*.{kind}"))


def test_a_damaged_copy_of_a_module_is_named(copy: Path):
    assert called(copy, "rank", "--help").returncode == 0
    (compiled,) = (copy / "ppe/cli/__pycache__").glob("verdicts.*.pyc")
    data = compiled.read_bytes()
    compiled.write_bytes(data[:16] + DAMAGE["cut off"](data[16:]))  # the first 16 bytes say whether it is current
    for _ in range(2):
        done = called(copy, "rank", "--help")
        assert (done.returncode, done.stdout, done.stderr.strip().count("\n")) == (2, "", 0), done.stderr
        assert f"ppe: error: {compiled}" in done.stderr and "interrupted" not in done.stderr
    compiled.unlink()
    assert called(copy, "rank", "--help").returncode == 0


def test_an_answer_has_the_same_digits_compiled_or_not():
    "A usual table is ranked with its ranges without numba; one process gives one answer."
    program = """
import sys
from ppe import compiled, load, rank
from ppe.rankers.davidson import davidson
from ppe.pool import win_tie_counts_from_table
names = ("mt-bench-gpt4", "vicuna80-gpt4", "prd-human")
counts = [win_tie_counts_from_table(load(name))[:2] for name in names]
def answers():
    return rank(load(names[0])).to_dict(), [davidson(*part).scores.tolist() for part in counts]
plain = answers()
assert "numba" not in sys.modules
compiled.LOADING = 0.0
print(answers() == plain and "numba" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "True\n"
