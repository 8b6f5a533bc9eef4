"""Packages for build systems: what is in them, and that nothing is named that is missing, or there without a name."""

import json
import re
from hashlib import sha256
from xml.etree import ElementTree

import pytest
from packages import DIGITS, digits, files_in, misfits, tiny

import qcgen
from qcgen.cli import main
from qcgen.options import FORMATS
from qcgen.package import Release, package

SAMPLE = {f"zephyr/samples/self_test/{name}" for name in ("CMakeLists.txt", "prj.conf", "sample.yaml", "src/main.c")}
OWN_FILES = {
    "cmake": {"CMakeLists.txt", "test/main.c"},
    "meson": {"meson.build", "test/main.c"},
    "zephyr": {"CMakeLists.txt", "zephyr/module.yml", "zephyr/Kconfig"} | SAMPLE,
    "esp-idf": {"CMakeLists.txt", "idf_component.yml"},
    "platformio": {"library.json", "examples/tiny/tiny.ino"},
    "arduino": {"library.properties", "examples/tiny/tiny.ino"},
    "cmsis-pack": {"local.tiny.pdsc"},
}
EVERYWHERE = {"README.md", "LICENSE", "tiny.cdx.json", "src/tiny.c", "src/tiny.h", "src/tiny_test.c", "src/tiny_test.h"}


def test_every_file_that_metadata_names_is_there_and_no_other(tmp_path):
    assert misfits(tiny(tmp_path)) == set()


@pytest.mark.parametrize("name", FORMATS)
def test_a_package_for_one_system_has_its_files_alone(name, tmp_path):
    folder = tiny(tmp_path, (name,))
    assert files_in(folder) == EVERYWHERE | OWN_FILES[name]


@pytest.mark.parametrize(
    "name",
    [*sorted(each for each in EVERYWHERE if each.startswith("src")), "zephyr/Kconfig", "test/main.c", "CMakeLists.txt"],
)
def test_a_missing_file_is_found(name, tmp_path):
    folder = tiny(tmp_path)
    folder.joinpath(name).unlink()
    assert name in misfits(folder)


def test_a_file_without_a_name_is_found(tmp_path):
    folder = tiny(tmp_path)
    folder.joinpath("src", "spare.c").touch()
    assert misfits(folder) == {"src/spare.c"}


def test_where_rows_are_pushed_there_is_no_self_test(tmp_path):
    folder = digits(tmp_path, input="rows", layout="nhwc")
    assert misfits(folder) == set()
    assert not [name for name in files_in(folder) if "test" in name]
    assert "digits_push_row(&arena, " in folder.joinpath("README.md").read_text()


def test_optimization_is_set_where_the_build_system_can(tmp_path):
    folder = tiny(tmp_path)
    for name in ("CMakeLists.txt", "meson.build", "library.json"):
        assert "-O2" in folder.joinpath(name).read_text()


def test_vendor_version_and_address_are_told_everywhere():
    artifact = qcgen.compile(DIGITS, name="digits")
    files = package(artifact, FORMATS, Release("acme", "1.2.3", "https://example.com/models"))
    pack = ElementTree.fromstring(files["digits/acme.digits.pdsc"])
    assert [pack.findtext(tag) for tag in ("vendor", "name", "url")] == ["acme", "digits", "https://example.com/models"]
    assert {each.attrib["Cversion"] for each in pack.iter("component")} == {"1.2.3"}
    assert json.loads(files["digits/library.json"])["version"] == "1.2.3"
    for name in ("CMakeLists.txt", "meson.build", "idf_component.yml", "library.properties"):
        assert "1.2.3" in files[f"digits/{name}"]
    for name in ("idf_component.yml", "library.properties"):
        assert "https://example.com/models" in files[f"digits/{name}"]


def test_the_package_description_has_what_packs_must_have(tmp_path):
    pack = ElementTree.parse(tiny(tmp_path) / "local.tiny.pdsc").getroot()
    assert re.fullmatch(r"\d+\.\d+\.\d+", pack.attrib["schemaVersion"])
    assert {"vendor", "name", "description", "url", "releases"} <= {each.tag for each in pack}
    for component in pack.iter("component"):
        assert {"Cclass", "Cgroup", "Cversion"} <= set(component.attrib)
        assert [each.tag for each in component] == ["description", "files"]


def test_the_bill_of_materials_names_the_model_the_tool_and_every_file(tmp_path):
    folder = tiny(tmp_path)
    bill = json.loads(folder.joinpath("tiny.cdx.json").read_text())
    model, *files = bill["components"]
    header = folder.joinpath("src", "tiny.h").read_text()
    assert f'_MODEL_SHA256 "{model["hashes"][0]["content"]}"' in header
    assert [each["version"] for each in bill["metadata"]["tools"]["components"]] == [qcgen.__version__]
    hashes = {each["name"]: each["hashes"][0]["content"] for each in files}
    assert hashes == {
        name: sha256(folder.joinpath(name).read_bytes()).hexdigest() for name in files_in(folder) - {"tiny.cdx.json"}
    }


def test_a_licence_is_told_where_metadata_has_a_place_for_it():
    files = package(qcgen.compile(DIGITS, name="digits"), FORMATS, Release(license="LicenseRef-Acme"))
    assert "License-Identifier: LicenseRef-Acme" in files["digits/LICENSE"]
    assert json.loads(files["digits/library.json"])["license"] == "LicenseRef-Acme"
    assert 'license: "LicenseRef-Acme"' in files["digits/idf_component.yml"]
    bill = json.loads(files["digits/digits.cdx.json"])
    assert bill["metadata"]["component"]["licenses"] == [{"expression": "LicenseRef-Acme"}]


@pytest.mark.parametrize(("target", "cores"), [("portable", "any core"), ("cortex-m4", "cortex-m4 and cores with")])
def test_metadata_says_which_cores_the_code_is_for(target, cores, tmp_path):
    assert f"as C for {cores}" in tiny(tmp_path, target=target).joinpath("library.properties").read_text()


@pytest.mark.parametrize(
    ("target", "cores"),
    [
        ("portable", None),
        ("scalar32", None),
        ("cortex-m0", "CPU_CORTEX_M"),
        ("cortex-m33", "CPU_CORTEX_M4 || CPU_CORTEX_M7 || CPU_CORTEX_M33 || CPU_CORTEX_M55 || CPU_CORTEX_M85"),
        ("cortex-m55", "CPU_CORTEX_M55 || CPU_CORTEX_M85"),
        ("rv32imc", "RISCV"),
    ],
)
def test_zephyr_offers_the_network_on_cores_that_have_its_instructions(target, cores, tmp_path):
    text = tiny(tmp_path, ("zephyr",), target=target).joinpath("zephyr", "Kconfig").read_text()
    first = text.split("_TEST")[0]
    assert re.findall(r"depends on (.*CORTEX.*|RISCV)", first) == ([cores] if cores else [])


def test_the_sample_for_twister_runs_on_these_cores_alone(tmp_path):
    sample = tiny(tmp_path, ("zephyr",), target="cortex-m55") / "zephyr" / "samples" / "self_test"
    text = sample.joinpath("sample.yaml").read_text()
    assert "    filter: CONFIG_CPU_CORTEX_M55 or CONFIG_CPU_CORTEX_M85\n" in text
    [expected] = re.findall(r'^ +- "(.*)"$', text, re.MULTILINE)
    assert f'printf("{expected}\\n")' in sample.joinpath("src", "main.c").read_text()
    options = tmp_path.joinpath("tiny", "zephyr", "Kconfig").read_text()
    assert set(re.findall(r"CONFIG_(QCGEN\w+)=y", sample.joinpath("prj.conf").read_text())) <= set(options.split())


@pytest.mark.parametrize(
    ("target", "arduino", "pack"),
    [
        ("portable", "*", []),
        ("cortex-m3", "sam,stm32", ["M3", "M4", "M7", "M33", "M55", "M85"]),
        ("cortex-m55", "renesas,stm32", ["M55", "M85"]),
        ("rv32imc", "esp32,ch32v", []),
    ],
)
def test_arduino_and_cmsis_pack_offer_it_on_cores_that_have_its_instructions(target, arduino, pack, tmp_path):
    folder = tiny(tmp_path, ("arduino", "cmsis-pack"), target=target)
    assert f"\narchitectures={arduino}\n" in folder.joinpath("library.properties").read_text()
    root = ElementTree.parse(folder / "local.tiny.pdsc").getroot()
    assert [each.attrib["Dcore"].removeprefix("Cortex-") for each in root.iter("accept")] == pack
    assert {each.attrib.get("condition") for each in root.iter("component")} == ({"core"} if pack else {None})
    assert root.findtext("license") == "LICENSE"


# --- the command


def test_several_models_become_a_folder_each(tmp_path, capsys):
    second = tmp_path / "second.onnx"
    second.write_bytes(DIGITS.read_bytes())
    assert main(["package", str(DIGITS), str(second), "--for", "cmake,meson", "-o", str(tmp_path / "out")]) == 0
    assert {path.name for path in tmp_path.joinpath("out").iterdir()} == {"digits_qop_s8", "second"}
    assert "10 files for cmake, meson" in capsys.readouterr().out


def test_packages_are_written_again_and_hand_written_files_are_left_alone(tmp_path, capsys):
    arguments = ["package", str(DIGITS), "--name", "digits", "-o", str(tmp_path)]
    assert main(arguments) == 0
    assert main(arguments) == 0
    tmp_path.joinpath("digits", "CMakeLists.txt").write_text("project(mine)\n")
    tmp_path.joinpath("digits", "src", "digits.c").unlink()
    assert main(arguments) == 1
    assert "digits/CMakeLists.txt: qcgen did not generate this file" in capsys.readouterr().err
    assert not tmp_path.joinpath("digits", "src", "digits.c").exists()
    assert main([*arguments, "--force"]) == 0


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--for", "cmake,bazel"], "'bazel' is not one of cmake, meson"),
        (["--vendor", "a b"], "'a b' is not a word"),
        (["--release", "1.0"], "'1.0' is not a version"),
        (["--license", "GPL v2"], "'GPL v2' is not an SPDX expression"),
        (["--url", "ftp://x"], "'ftp://x' is not an address"),
        (["--name", "a", str(DIGITS)], "it names a single model"),
        ([str(DIGITS)], "two models would be called digits_qop_s8"),
    ],
)
def test_wrong_usage_is_told(words, said, capsys):
    assert main(["package", *words, str(DIGITS)]) == 2
    assert said in capsys.readouterr().err


def test_a_rejected_model_writes_nothing(tmp_path, capsys):
    tmp_path.joinpath("broken.onnx").write_text("no model")
    assert main(["package", str(DIGITS), str(tmp_path / "broken.onnx"), "-o", str(tmp_path / "out")]) == 1
    assert "broken.onnx cannot be compiled" in capsys.readouterr().err
    assert not tmp_path.joinpath("out").exists()
