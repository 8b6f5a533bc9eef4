"""Packages as the tools take them: built, packed, tested on emulated cores; and each tool notices a defect."""

import os
import re
import subprocess
from pathlib import Path

import pytest
from emulated import require_core
from packages import attempt, digits, files_in, spoil_test, succeeds, tiny, tool
from tools import require_modules

from qcgen.cores import TARGETS
from qcgen.emulate.image import _memory_symbols
from qcgen.render import templates

pytestmark = pytest.mark.all  # each starts compilers and build systems

CORE = "cortex-m4"
CONSUMER = """
cmake_minimum_required(VERSION 3.21)
project(consumer C)
{find}
add_executable(consumer main.c)
target_link_libraries(consumer PRIVATE digits::digits)
"""
MAIN = """
#include "digits_test.h"
int main(void)
{
    static digits_arena arena;
    return digits_test(&arena);
}
"""


def for_core(folder: Path) -> tuple[list[str], str]:
    """Flags that link programs for the emulated core, and the command that runs them."""
    require_core(CORE, counting=False)
    target, sources = TARGETS[CORE], templates() / "emulate"
    startup = folder / "_startup.o"
    command = [target.compiler, *target.flags, "-std=gnu99", "-O2", "-c", sources / "cortex_m.c", "-o", startup]
    succeeds(command, folder)
    script = folder / "memory.ld"  # the harness of qcgen's own emulations has other objects
    script.write_text(
        re.sub(r"^ *_(startup|driver)\.o.*\n", "", (sources / "memory.ld").read_text(), flags=re.MULTILINE)
    )
    link = ["-nostartfiles", "-T", str(script), *_memory_symbols(target.machine), str(startup)]
    run = [target.machine.emulator, *target.machine.arguments, "-display", "none", "-monitor", "none"]
    return link, [*run, "-serial", "none", "-semihosting-config", "enable=on,target=native", "-kernel"]


# --- CMake


def cmake(source: Path, build: Path, *options: str):
    """The outcome of configuring and building."""
    configured = attempt([tool("cmake"), "-S", source, "-B", build, "-G", "Ninja", *options], source)
    return attempt([tool("cmake"), "--build", build], source) if configured.returncode == 0 else configured


def toolchain(folder: Path) -> Path:
    """The toolchain file of the emulated core."""
    link, run = for_core(folder)
    target = TARGETS[CORE]
    path = folder / "toolchain.cmake"
    path.write_text(
        f"set(CMAKE_SYSTEM_NAME Generic)\nset(CMAKE_C_COMPILER {target.compiler})\n"
        f'set(CMAKE_C_FLAGS_INIT "{" ".join(target.flags)}")\n'
        f'set(CMAKE_EXE_LINKER_FLAGS_INIT "{" ".join(link)}")\n'
        "set(CMAKE_TRY_COMPILE_TARGET_TYPE STATIC_LIBRARY)\n"
        f"set(CMAKE_CROSSCOMPILING_EMULATOR {';'.join(run)})\n"
    )
    return path


def test_cmake_builds_for_a_core_and_ctest_runs_the_self_test_there(tmp_path):
    tool("ninja")
    folder, build = digits(tmp_path, target=CORE), tmp_path / "build"
    options = f"-DCMAKE_TOOLCHAIN_FILE={toolchain(tmp_path)}"
    assert cmake(folder, build, options, "-DCMAKE_EXPORT_COMPILE_COMMANDS=ON").returncode == 0
    assert re.search(r"-O2.* src/digits\.c|-O2 .*digits\.c", (build / "compile_commands.json").read_text())
    assert "100% tests passed, 0 tests failed out of 1" in succeeds(["ctest", "--test-dir", build], folder)
    spoil_test(folder, "digits")
    assert cmake(folder, build, options).returncode == 0
    assert "0% tests passed" in attempt(["ctest", "--test-dir", build], folder).stdout


@pytest.mark.parametrize("how", ["installed", "added"])
def test_cmake_finds_the_package(how, tmp_path):
    folder, app = digits(tmp_path), tmp_path / "app"
    app.mkdir()
    (app / "main.c").write_text(MAIN)
    find = "find_package(digits 1.0 REQUIRED)" if how == "installed" else "add_subdirectory(../digits digits)"
    (app / "CMakeLists.txt").write_text(CONSUMER.format(find=find))
    if how == "installed":
        assert cmake(folder, tmp_path / "build").returncode == 0
        succeeds([tool("cmake"), "--install", tmp_path / "build", "--prefix", tmp_path / "there"], folder)
    options = f"-DCMAKE_PREFIX_PATH={tmp_path / 'there'}"
    built = cmake(app, app / "build", options)
    assert built.returncode == 0, built.stderr
    succeeds([app / "build" / "consumer"], app)
    (app / "CMakeLists.txt").write_text(
        CONSUMER.format(find=find.replace("1.0", "2.0").replace("../digits", "../none"))
    )
    assert cmake(app, app / "build", options).returncode != 0


# --- Meson


def test_meson_builds_for_a_core_and_runs_the_self_test_there(tmp_path):
    meson, _ = tool("meson"), tool("ninja")
    folder, build = digits(tmp_path, target=CORE), tmp_path / "build"
    link, run = for_core(tmp_path)
    target = TARGETS[CORE]
    cross = tmp_path / "cross.ini"
    cross.write_text(
        f"[binaries]\nc = '{target.compiler}'\nar = '{target.tools}ar'\nexe_wrapper = {run}\n"
        f"[built-in options]\nc_args = {list(target.flags)}\nc_link_args = {[*target.flags, *link]}\n"
        "[host_machine]\nsystem = 'none'\ncpu_family = 'arm'\ncpu = 'cortex-m4'\nendian = 'little'\n"
        "[properties]\nskip_sanity_check = true\n"
    )
    succeeds([meson, "setup", build, "--cross-file", cross], folder)
    assert "Ok:                 1" in succeeds([meson, "test", "-C", build], folder)
    assert re.search(r"-O2.* \.\..*digits\.c", (build / "compile_commands.json").read_text())
    spoil_test(folder, "digits")
    assert "Fail:               1" in attempt([meson, "test", "-C", build], folder).stdout


def test_meson_takes_the_package_as_a_subproject(tmp_path):
    meson, _ = tool("meson"), tool("ninja")
    app = tmp_path / "app"
    folder = digits(app / "subprojects")
    (app / "main.c").write_text(MAIN)
    text = "project('app', 'c')\ntest('app', executable('app', 'main.c', dependencies: dependency('digits')))\n"
    (app / "meson.build").write_text(text.replace("dependency('digits')", "dependency('digits', fallback: 'digits')"))
    succeeds([meson, "setup", "build"], app)
    succeeds([meson, "test", "-C", "build"], app)
    folder.joinpath("src", "digits.c").unlink()
    assert attempt([meson, "setup", "other"], app).returncode != 0


# --- ESP-IDF and Zephyr, whose build systems are stood for by what a package calls of them

ESP_IDF = """
cmake_minimum_required(VERSION 3.21)
project(stub C)
set(ESP_PLATFORM 1)
macro(idf_component_register)
    cmake_parse_arguments(IDF "" "" "SRCS;INCLUDE_DIRS" ${ARGN})
    set(COMPONENT_LIB idf_digits)
    add_library(${COMPONENT_LIB} STATIC ${IDF_SRCS})
    target_include_directories(${COMPONENT_LIB} PUBLIC ${IDF_INCLUDE_DIRS})
endmacro()
add_subdirectory(../digits digits)
add_executable(app main.c)
target_link_libraries(app PRIVATE idf_digits)
"""

ZEPHYR = """
cmake_minimum_required(VERSION 3.21)
project(stub C)
set(CONFIG_QCGEN_DIGITS y)
set(CONFIG_QCGEN_DIGITS_TEST y)
set(CONFIG_QCGEN_DIGITS_SPEED y)
macro(zephyr_library_named name)
    add_library(${name} STATIC)
    set(ZEPHYR_CURRENT_LIBRARY ${name})
endmacro()
macro(zephyr_library_sources)
    target_sources(${ZEPHYR_CURRENT_LIBRARY} PRIVATE ${ARGN})
endmacro()
macro(zephyr_library_sources_ifdef feature)
    if(${feature})
        zephyr_library_sources(${ARGN})
    endif()
endmacro()
macro(zephyr_library_compile_options)
    target_compile_options(${ZEPHYR_CURRENT_LIBRARY} PRIVATE ${ARGN})
endmacro()
macro(zephyr_include_directories)
    target_include_directories(${ZEPHYR_CURRENT_LIBRARY} PUBLIC ${ARGN})
endmacro()
add_subdirectory(../digits digits)
add_executable(app main.c)
target_link_libraries(app PRIVATE digits)
"""


@pytest.mark.parametrize("stub", [ESP_IDF, ZEPHYR], ids=["esp-idf", "zephyr"])
def test_a_stub_of_the_build_system_builds_the_package(stub, tmp_path):
    tool("ninja")
    folder, app = digits(tmp_path), tmp_path / "app"
    app.mkdir()
    (app / "main.c").write_text(MAIN)
    (app / "CMakeLists.txt").write_text(stub)
    built = cmake(app, app / "build", "-DCMAKE_EXPORT_COMPILE_COMMANDS=ON")
    assert built.returncode == 0, built.stderr
    assert re.search(r"-O2 .*digits\.c", (app / "build" / "compile_commands.json").read_text())
    succeeds([app / "build" / "app"], app)
    folder.joinpath("src", "digits.c").unlink()
    assert cmake(app, app / "build").returncode != 0


def test_espressifs_component_manager_packs_the_component(tmp_path):
    compote, folder = tool("compote"), digits(tmp_path)
    pack = [compote, "component", "pack", "--name", "digits", "--dest-dir", tmp_path / "dist"]
    succeeds(pack, folder)
    assert tmp_path.joinpath("dist", "digits_1.0.0.tgz").exists()
    manifest = folder / "idf_component.yml"
    manifest.write_text(manifest.read_text().replace('version: "1.0.0"', 'version: "one"'))
    assert attempt(pack, folder).returncode != 0


TWISTER_KEYS = {"tags": str, "min_ram": int, "min_flash": int, "harness": str, "harness_config": dict}
"""Keys of twister's schema (scripts/schemas/twister in Zephyr), of the types that it asks for."""


def test_zephyrs_module_file_and_options_are_read(tmp_path):
    require_modules("kconfiglib", "ruamel.yaml")
    import kconfiglib
    from ruamel import yaml

    folder = digits(tmp_path)
    module = yaml.YAML(typ="safe").load(folder / "zephyr" / "module.yml")
    own = {"name": "digits", "build": {"cmake": ".", "kconfig": "zephyr/Kconfig"}, "samples": ["zephyr/samples"]}
    assert module == own
    sample = yaml.YAML(typ="safe").load(folder / "zephyr" / "samples" / "self_test" / "sample.yaml")
    assert sample.keys() == {"sample", "tests"}
    assert sample["sample"].keys() == {"name", "description"}
    [test] = sample["tests"].values()
    assert {name: type(value) for name, value in test.items()} == TWISTER_KEYS
    assert {name: type(value) for name, value in test["harness_config"].items()} == {"type": str, "regex": list}
    options = kconfiglib.Kconfig(str(folder / "zephyr" / "Kconfig"), warn_to_stderr=False)
    assert not options.warnings
    assert options.syms["QCGEN_DIGITS_TEST"].visibility == 0
    options.syms["QCGEN_DIGITS"].set_value("y")
    options.syms["QCGEN_DIGITS_TEST"].set_value("y")
    assert options.syms["QCGEN_DIGITS_TEST"].str_value == "y"
    broken = folder / "zephyr" / "Kconfig"
    broken.write_text(broken.read_text().replace("bool", "boole"))
    with pytest.raises(kconfiglib.KconfigError):
        kconfiglib.Kconfig(str(broken), warn_to_stderr=False)


# --- CycloneDX


def test_the_bill_of_materials_is_as_its_published_schema_says(tmp_path):
    require_modules("cyclonedx")
    from cyclonedx.schema import SchemaVersion
    from cyclonedx.validation.json import JsonStrictValidator

    text = tiny(tmp_path).joinpath("tiny.cdx.json").read_text()
    validator = JsonStrictValidator(SchemaVersion.V1_6)
    assert validator.validate_str(text) is None
    assert validator.validate_str(text.replace('"machine-learning-model"', '"network"')) is not None
    assert validator.validate_str(text.replace("SHA-256", "SHA-255", 1)) is not None


# --- PlatformIO


@pytest.mark.parametrize(("defect", "said"), [('"name"', "name"), ('"version"', "version")])
def test_platformio_packs_the_library(defect, said, tmp_path):
    pio, folder = tool("pio"), tiny(tmp_path)
    environment = {**os.environ, "PLATFORMIO_CORE_DIR": str(tmp_path / "core")}
    pack = [pio, "pkg", "pack", "-o", tmp_path / "tiny.tar.gz", "."]
    succeeds(pack, folder, env=environment)
    names = succeeds(["tar", "-tzf", tmp_path / "tiny.tar.gz"], folder).split()
    assert set(names) >= {name for name in files_in(folder) if name.startswith(("src/", "examples/"))}
    manifest = folder / "library.json"
    manifest.write_text(manifest.read_text().replace(f"  {defect}: ", '  "unknown": ', 1))
    result = attempt(pack, folder, env=environment)
    assert result.returncode != 0
    assert said in result.stdout + result.stderr


# --- Arduino


def arduino(folder: Path, build: Path):
    """The outcome of compiling and linking the example for an Arduino Mega."""
    tool("arduino-builder")
    hardware = ["/usr/share/arduino/hardware", "/usr/share/arduino-builder"]
    build.mkdir(exist_ok=True)
    command = ["arduino-builder", "-compile", *(word for path in hardware for word in ("-hardware", path))]
    command += ["-tools", "/usr/bin", "-libraries", folder.parent, "-fqbn", "arduino:avr:mega:cpu=atmega2560"]
    command += ["-prefs=compiler.cpp.extra_flags=-DDECIMAL_DIG=17", "-build-path", build]
    return attempt([*command, folder / "examples" / folder.name / f"{folder.name}.ino"], folder)


def test_the_arduino_example_runs_its_self_test_on_a_mega(tmp_path):
    simavr = tool("simavr")
    folder = tiny(tmp_path / "libraries")
    built = arduino(folder, tmp_path / "build")
    assert built.returncode == 0, built.stderr
    elf = tmp_path / "build" / "tiny.ino.elf"
    run = [simavr, "-m", "atmega2560", "-f", "16000000", str(elf)]
    with subprocess.Popen(run, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        lines = [next(process.stdout) for _ in range(3)]
        process.terminate()
    assert "self-test of tiny: 0" in "".join(lines)


def test_arduino_notices_a_library_without_a_name_and_a_missing_source(tmp_path):
    folder = tiny(tmp_path / "libraries")
    folder.joinpath("src", "tiny.c").unlink()
    assert arduino(folder, tmp_path / "build").returncode != 0
    again = tiny(tmp_path / "others")
    properties = again / "library.properties"
    properties.write_text(properties.read_text().replace("name=tiny", ""))
    assert arduino(again, tmp_path / "build2").returncode != 0
