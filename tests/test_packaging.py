"""What users install: the source archive and the wheel hold all that qcgen needs, and nothing else is needed."""

import os
import re
import subprocess
import sys
import sysconfig
import tarfile
import venv
import zipfile
from importlib import metadata
from pathlib import Path

import pytest
from documents import Command, steps
from emulated import require_core
from packages import attempt, succeeds, tool
from packaging.requirements import Requirement
from tools import require, require_modules

from qcgen.version import __version__

ROOT = Path(__file__).resolve().parents[1]
MODEL = ROOT / "tests" / "data" / "digits" / "digits_qop_s8.onnx"
TEMPLATES = {str(path.relative_to(ROOT / "templates")) for path in ROOT.joinpath("templates").rglob("*.jinja")}


@pytest.fixture(scope="module")
def archives(tmp_path_factory):
    """The source archive, and the wheel made from nothing but it."""
    require_modules("build", "hatchling")
    folder = tmp_path_factory.mktemp("dist")
    # Without isolation: the build backend is among the packages for development, and no registry is asked.
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", folder, ROOT]
    result = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout + result.stderr
    [sdist], [wheel] = folder.glob("*.tar.gz"), folder.glob("*.whl")
    return sdist, wheel


@pytest.fixture(scope="module")
def installed(archives, tmp_path_factory):
    """The folder of programs of an environment with the wheel and what the wheel says that it needs."""
    folder = tmp_path_factory.mktemp("bare")
    venv.create(folder, with_pip=False)
    packages = folder / Path(sysconfig.get_path("purelib")).relative_to(sys.prefix)
    for distribution in needed_by(archives[1]):
        link(distribution, packages)
    programs = folder / "bin"
    install = [sys.executable, "-m", "pip", "--python", programs / "python", "install", "--quiet", "--no-deps"]
    subprocess.run([*install, "--no-index", "--disable-pip-version-check", archives[1]], check=True)
    return programs


def needed_by(wheel):
    """The distributions that a wheel needs at run time, and those that they need, from this environment."""
    [name] = [name for name in zipfile.ZipFile(wheel).namelist() if name.endswith(".dist-info/METADATA")]
    requirements = metadata.PathDistribution(zipfile.Path(wheel, name.removesuffix("METADATA"))).requires or []
    found, left = {}, [Requirement(text) for text in requirements]
    while left:
        requirement = left.pop()
        if requirement.marker is not None and not requirement.marker.evaluate({"extra": ""}):
            continue
        if requirement.name.lower() not in found:
            distribution = metadata.distribution(requirement.name)
            assert requirement.specifier.contains(distribution.version, prereleases=True)
            found[requirement.name.lower()] = distribution
            left += [Requirement(text) for text in distribution.requires or []]
    return found.values()


def link(distribution, packages):
    """Makes a distribution of this environment importable from another one, by links to its files."""
    for top in {file.parts[0] for file in distribution.files}:
        if top not in ("..", "__pycache__") and not packages.joinpath(top).exists():
            packages.joinpath(top).symlink_to(distribution.locate_file(top))


def test_the_wheel_holds_the_templates_inside_the_package(archives):
    names = set(zipfile.ZipFile(archives[1]).namelist())
    assert {f"qcgen/_templates/{name}" for name in TEMPLATES} <= names


def test_the_wheel_holds_nothing_but_the_package_and_its_licence(archives):
    names = zipfile.ZipFile(archives[1]).namelist()
    assert {name.split("/")[0] for name in names} == {"qcgen", f"qcgen-{__version__}.dist-info"}
    assert f"qcgen-{__version__}.dist-info/licenses/LICENSE" in names


def test_the_source_archive_holds_the_templates_and_the_licence(archives):
    with tarfile.open(archives[0]) as archive:
        names = set(archive.getnames())
    root = f"qcgen-{__version__}"
    assert {f"{root}/templates/{name}" for name in TEMPLATES} | {f"{root}/LICENSE", f"{root}/README.md"} <= names


@pytest.mark.all
def test_the_bare_environment_has_no_package_for_development(installed):
    result = subprocess.run([installed / "python", "-c", "import pytest"], capture_output=True, text=True, check=False)
    assert "No module named 'pytest'" in result.stderr


@pytest.mark.all
def test_the_installed_command_tells_the_version(installed):
    result = subprocess.run([installed / "qcgen", "--version"], capture_output=True, text=True, check=True)
    assert result.stdout == f"qcgen {__version__}\n"


@pytest.mark.all
def test_the_installed_command_compiles_a_model_as_the_checkout_does(installed, tmp_path):
    import qcgen

    command = [installed / "qcgen", "compile", MODEL, "--node", "conv1_quant", "--name", "conv1"]
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
    expected = qcgen.compile(MODEL, node="conv1_quant", name="conv1").files
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == expected


@pytest.mark.all
def test_the_installed_command_verifies_packages_and_makes_an_example(installed, tmp_path):
    require("gcc")
    for words in (["verify", "--node", "max"], ["package"], ["example", "--board", "virt"]):
        command = [installed / "qcgen", *words, MODEL, *(() if words[0] == "verify" else ("-o", words[0]))]
        result = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert result.returncode == 0, result.stderr
    assert tmp_path.joinpath("package", "digits_qop_s8", "CMakeLists.txt").exists()
    assert tmp_path.joinpath("example", "main.c").exists()


@pytest.mark.all
def test_the_way_from_an_empty_folder_to_a_board_in_the_readme_is_passable(installed, tmp_path):
    require_core("cortex-m4", counting=False)
    tool("cmake")
    text = (ROOT / "README.md").read_text()
    [making] = re.findall(r"^```sh\n(python3 -m venv.*?)^```$", text, re.MULTILINE | re.DOTALL)
    # The fixture has made the environment and installed qcgen; onnxruntime is one more judge.
    assert making == "python3 -m venv venv && . venv/bin/activate\npip install ~/qcgen onnxruntime\n"
    tmp_path.joinpath(".home").mkdir()
    tmp_path.joinpath(".home", "qcgen").symlink_to(ROOT)
    path = os.pathsep.join([str(installed), os.environ["PATH"]])
    environment = {**os.environ, "PATH": path, "HOME": str(tmp_path / ".home")}
    lines = [step.line for step in steps(text) if isinstance(step, Command) and step.core]
    lines = [line for line in lines if not line.startswith("qcgen verify")]  # test_documents.py runs it
    printed = [succeeds(["bash", "-c", line], tmp_path, env=environment) for line in lines]
    kinds = ("cp", "qcgen compile", "qcgen example", "(cmake")
    assert [line.startswith(kind) for line, kind in zip(lines, kinds, strict=True)] == [True] * len(kinds)
    assert "digits: self-test passed" in printed[-1]


def test_types_are_told_to_those_who_check_theirs(archives):
    assert "qcgen/py.typed" in zipfile.ZipFile(archives[1]).namelist()


@pytest.mark.all
def test_every_file_has_a_license(tmp_path):
    assert attempt([tool("reuse"), "--root", ROOT, "lint"], ROOT).returncode == 0
    tmp_path.joinpath("file.py").write_text("x = 1\n")
    assert attempt([tool("reuse"), "--root", tmp_path, "lint"], tmp_path).returncode == 1
