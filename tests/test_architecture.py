"""Imports point down; below the drivers there is no clock, no socket, no global chance; a node process is light."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
import structure

import drom_net
from drom_net.algorithms import BUILTIN

ROOT = Path(drom_net.__file__).parent
BELOW_THE_DRIVERS = ("core", "algorithms", "data", "graph", "learning", "protocol", "simulation")


def modules(*under: str) -> list[Path]:
    """The package's files; or those of these modules and folders."""
    if not under:
        return sorted(ROOT.rglob("*.py"))
    found: list[Path] = []
    for name in under:
        folder, file = ROOT / name, ROOT / f"{name}.py"
        assert folder.is_dir() or file.is_file(), f"drom_net has no {name}: put this test right"
        found += sorted(folder.rglob("*.py")) if folder.is_dir() else [file]
    return found


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@cache
def package_structure() -> structure.Structure:
    return structure.measure(ROOT)


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def imports(path: Path) -> set[str]:
    """The full names that a file imports, wherever in it: ``zmq``, ``os.path``, ``drom_net.core.errors.Error``."""
    found: set[str] = set()
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{name_of(path)} imports relatively"
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def roots(path: Path) -> set[str]:
    return {name.partition(".")[0] for name in imports(path)}


def importers(*packages: str) -> set[str]:
    return {name_of(path) for path in modules() if roots(path) & set(packages)}


def dotted(node: ast.expr) -> str:
    """``np.random.rand`` of such an expression; empty for others."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        inner = dotted(node.value)
        return f"{inner}.{node.attr}" if inner else ""
    return ""


def names_used(path: Path) -> Iterator[str]:
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Attribute | ast.Name):
            yield dotted(node)


def imported_at_once(path: Path) -> set[str]:
    """The packages that a file imports when it is imported itself: not in functions, nor for the type checker."""
    found: set[str] = set()
    waiting: list[ast.AST] = [tree_of(path)]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found.add((node.module or "").partition(".")[0])
        elif isinstance(node, ast.If) and dotted(node.test) == "TYPE_CHECKING":
            waiting += node.orelse
        elif not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            waiting += ast.iter_child_nodes(node)
    return found


STANDARD = set(sys.stdlib_module_names)


def test_algorithms_import_numpy_and_nothing_else() -> None:
    """architecture.md: "the learners (NumPy alone)" (and `core`, for the fields of their parameters)."""
    for path in modules("algorithms"):
        assert roots(path) - STANDARD <= {"numpy", "drom_net"}, name_of(path)
        ours = {name for name in imports(path) if name.startswith("drom_net.")}
        assert all(name.startswith(("drom_net.algorithms.", "drom_net.core.")) for name in ours), name_of(path)
    assert {name for name in imports(ROOT / "core" / "fields.py") if name.partition(".")[0] not in STANDARD} == set()


def test_a_cluster_knows_no_learner_by_its_module_or_name() -> None:
    """CONTRIBUTING.md: "A learner is one module; nothing else needs to know of it". Those that do know some have a page
    on its experts, attacks on it, or what the paper says of it."""
    own = {learner.parameters.__module__.removesuffix(".learner") for learner in BUILTIN.values()}
    knows = {
        name_of(path)
        for path in modules()
        if any(f"{name}.".startswith(tuple(f"{one}." for one in own)) for name in imports(path))
    }
    assert {name for name in knows if not name.startswith("algorithms/")} == {
        *("results/attacks.py", "results/sharing.py", "plots/sharing.py", "cli/run.py"),
    }
    for path in modules("cluster", "node", "protocol", "learning", "simulation", "storage", "graph"):
        strings = {node.value for node in ast.walk(tree_of(path)) if isinstance(node, ast.Constant)}
        assert strings & {*BUILTIN} == set(), name_of(path)


def test_the_protocol_performs_no_io_and_reads_no_clock() -> None:
    """architecture.md: "open no socket and read no clock"."""
    forbidden = {
        *("zmq", "socket", "select", "selectors", "asyncio", "ssl"),
        *("time", "datetime", "random", "secrets", "uuid"),
        *("os", "io", "pathlib", "subprocess", "signal", "threading", "multiprocessing", "concurrent", "logging"),
    }
    for path in modules("protocol"):
        assert roots(path) & forbidden == set(), name_of(path)
        assert "open" not in set(names_used(path)), name_of(path)


def test_only_transport_and_live_sources_import_zmq() -> None:
    """architecture.md: "zmq in `transport`, `node/live` and the client"."""
    others = {name for name in importers("zmq") if not name.startswith(("transport/", "node/live/"))}
    assert others == {"client.py", "results/run_directory.py"}
    assert "zmq" not in imported_at_once(ROOT / "results" / "run_directory.py")
    assert "transport/base.py" in importers("zmq")


def test_only_the_topology_file_imports_yaml() -> None:
    """decisions.md: "yaml in `config`" (here with its reader)."""
    assert {name.partition("/")[0] for name in importers("yaml")} == {"config"}


def test_only_data_imports_scipy_sklearn_and_pyarrow() -> None:
    """architecture.md: "SciPy, scikit-learn, pyarrow and narwhals inside functions of `data`"; a run directory may be
    written with pyarrow, and a classifier for scikit-learn or river is one of theirs."""
    assert all(name.startswith(("data/", "api/")) for name in importers("scipy", "sklearn"))
    assert importers("narwhals") == {"data/formats/frames.py", "api/estimator.py"}
    assert importers("river") <= {"api/river.py", "comparison/outside.py"}
    for path in modules():
        assert not imported_at_once(path) & {"narwhals", "pandas", "polars"}, name_of(path)
    assert all(name.startswith(("data/", "results/")) for name in importers("pyarrow"))


def test_only_the_command_line_imports_rich_and_click() -> None:
    assert all(name.startswith("cli/") or name == "__main__.py" for name in importers("rich", "click"))


def test_only_plots_imports_matplotlib_and_only_to_draw() -> None:
    """Only `drom-net[plots]` has it, so a command that draws nothing must do without."""
    assert {name.partition("/")[0] for name in importers("matplotlib")} == {"plots"}
    for path in modules("plots"):
        assert "matplotlib" not in imported_at_once(path), name_of(path)


def test_only_topology_imports_networkx_and_only_to_draw_lots() -> None:
    assert importers("networkx") == {"graph/families.py"}
    assert "networkx" not in imported_at_once(ROOT / "graph" / "families.py")


def test_only_the_metrics_page_imports_prometheus_and_only_to_serve() -> None:
    """Only `drom-net[metrics]` has it, and a node that serves nothing must not pay for it."""
    assert importers("prometheus_client") == {"node/metrics_page.py"}
    assert "prometheus_client" not in imported_at_once(ROOT / "node" / "metrics_page.py")


def test_only_what_knows_a_layout_of_bytes_imports_msgpack() -> None:
    """codec.py: "the only module that knows the byte layout" of messages; a run names its version."""
    live = {"storage/journal.py", "node/live/service.py", "client.py"}
    assert importers("msgpack") <= {"protocol/codec.py", "storage/snapshot_codec.py", "results/run_directory.py"} | live


LAYERS: dict[str, str] = {
    "core": "",
    "algorithms": "core",
    "data": "core algorithms",
    "graph": "core algorithms",
    "learning": "core algorithms data graph",
    "protocol": "core algorithms graph learning",
    "simulation": "core algorithms graph protocol",
    "storage": "core algorithms data learning",
    "transport": "core protocol",
    "client": "core algorithms transport",
    "results": "core algorithms data graph learning protocol",
    "plots": "core algorithms graph results",
    "node": "core algorithms data graph learning protocol storage transport client results",
    "config": "core algorithms data graph protocol",
    "cluster": "core algorithms data graph learning protocol simulation storage transport results node config",
    "testing": "core algorithms data learning simulation storage results config cluster",
    "deploy": "core algorithms data graph protocol transport config cluster",
    "comparison": "core algorithms data graph learning protocol results plots config cluster",
    "reporting": "core algorithms learning node results plots config cluster",
    "api": "core algorithms data learning storage results plots node config cluster reporting",
    "cli": "core algorithms data graph learning protocol simulation storage transport results plots node config cluster"
    " deploy comparison reporting",
    "__main__": "core cli",
}
"""Each package, and those that it may import; they stand in an order in which nobody imports a later one."""


def packages_of(name: str) -> set[str]:
    """`drom_net.core.errors.ConfigError` -> {"core"}; nothing for the version and for others' packages."""
    parts = name.split(".")
    return {parts[1]} if parts[0] == "drom_net" and name != "drom_net.__version__" else set()


@pytest.mark.parametrize("layer", LAYERS)
def test_imports_point_down(layer: str) -> None:
    """architecture.md: "Imports point down"."""
    earlier = list(LAYERS)[: list(LAYERS).index(layer)]
    assert set(LAYERS[layer].split()) <= set(earlier)
    for path in modules(layer):
        ours: set[str] = set().union(*map(packages_of, imports(path)))
        assert ours <= {layer, *LAYERS[layer].split()}, name_of(path)


def test_every_module_is_in_a_layer() -> None:
    assert {path.relative_to(ROOT).parts[0].removesuffix(".py") for path in modules()} == {"__init__", *LAYERS}


def test_no_modules_import_each_other_in_a_circle() -> None:
    """Wherever in a module, and for the type checker too."""
    assert package_structure().circles == []


def test_circles_are_found(tmp_path: Path) -> None:
    package = tmp_path / "p"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "a.py").write_text("from p.b import x\n")
    (package / "b.py").write_text("def f():\n    from p import c\n")
    (package / "c.py").write_text("if TYPE_CHECKING:\n    import p.a\n")
    (package / "d.py").write_text("import p.a\n")
    assert structure.measure(package).circles == [["p.a", "p.b", "p.c"]]


LONGEST_MODULE = 500
LONGEST_FUNCTION = 60
MOST_ATTRIBUTES = 25


def longer(table: dict[str, int], most: int) -> dict[str, int]:
    return {name: number for name, number in table.items() if number > most}


def test_no_module_function_or_class_is_too_long_to_be_read() -> None:
    """As `scripts/structure.py` counts: lines with docstrings, and of a class its fields and what is set on `self`."""
    found = package_structure()
    assert longer(found.modules, LONGEST_MODULE) == {}
    assert longer(found.functions, LONGEST_FUNCTION) == {}
    assert longer(found.attributes, MOST_ATTRIBUTES) == {}


def test_whoever_writes_a_learner_has_little_to_know() -> None:
    assert package_structure().attributes["algorithms/base.py:Algorithm"] <= 13


@pytest.mark.parametrize("path", modules(*BELOW_THE_DRIVERS), ids=name_of)
def test_below_the_drivers_nothing_reads_a_clock_or_a_socket(path: Path) -> None:
    """style.md: "nothing below the drivers reads a clock, a socket or a global random generator"."""
    forbidden = {"time", "datetime", "socket", "zmq", "random", "secrets", "uuid", "threading", "asyncio"}
    if path.is_relative_to(ROOT / "simulation"):
        forbidden -= {"random"}  # its generators are fast, and seeded from a named stream
        assert {name for name in names_used(path) if name.startswith("random.")} <= {"random.Random"}
    if path.is_relative_to(ROOT / "data"):
        forbidden -= {"datetime"}  # dates in tables: what is not read is the clock
        asked = {name.rpartition(".")[2] for name in names_used(path)}
        assert asked & {"now", "today", "utcnow", "fromtimestamp", "localtime"} == set()
    assert roots(path) & forbidden == set()


@pytest.mark.parametrize("path", modules(*BELOW_THE_DRIVERS), ids=name_of)
def test_below_the_drivers_chance_comes_from_a_named_stream(path: Path) -> None:
    """architecture.md, rule 4: "Every random draw is from `stream(seed, name, ..)`"; seeding.py makes generators."""
    used = {name for name in names_used(path) if name.startswith(("np.random.", "numpy.random."))}
    allowed = {"np.random.Generator"}
    if name_of(path) == "core/seeding.py":
        allowed |= {"np.random.PCG64"}
    assert used <= allowed
    assert not any(name.startswith("numpy.random") for name in imports(path))


@pytest.mark.parametrize("path", modules(), ids=name_of)
def test_nothing_is_unpickled_or_evaluated(path: Path) -> None:
    """failures.md, 33: "no pickle anywhere, `allow_pickle=False` for files too"."""
    assert roots(path) & {"pickle", "cPickle", "dill", "marshal", "shelve", "joblib", "cloudpickle"} == set()
    for node in ast.walk(tree_of(path)):
        if not isinstance(node, ast.Call):
            continue
        called = dotted(node.func)
        assert called not in {"eval", "exec", "compile", "__import__"}
        assert called not in {"yaml.load", "yaml.unsafe_load", "yaml.full_load"} or any(
            keyword.arg == "Loader" for keyword in node.keywords
        )
        if called in {"np.load", "np.save", "numpy.load", "numpy.save"}:
            given = {keyword.arg: keyword.value for keyword in node.keywords}
            pickle = given.get("allow_pickle")
            assert isinstance(pickle, ast.Constant), f"line {node.lineno}"
            assert pickle.value is False, f"line {node.lineno}"


def test_the_package_by_itself_imports_nothing() -> None:
    """`import drom_net` has the Python API, and a node process imports it: modules come when they are first used."""
    script = "import sys\nbefore = {*sys.modules}\nimport drom_net\nprint(*({*sys.modules} - before))"
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert {name.partition(".")[0] for name in run.stdout.split()} - STANDARD == {"drom_net"}
    assert [name for name in run.stdout.split() if name.startswith("drom_net.")] == []


def test_every_name_of_the_package_is_there_and_typed() -> None:
    stub = ast.parse((ROOT / "__init__.pyi").read_text(encoding="utf-8"))
    typed = {alias.name: node.module for node in stub.body if isinstance(node, ast.ImportFrom) for alias in node.names}
    assert typed == drom_net._MODULES  # type: ignore[attr-defined]
    for name in drom_net.__all__:  # type: ignore[attr-defined]
        assert getattr(drom_net, name) is not None
    with pytest.raises(AttributeError, match="has no attribute 'fitt'"):
        drom_net.fitt  # type: ignore[attr-defined]  # noqa: B018


@pytest.mark.parametrize(
    "code",
    [
        "import drom_net.node.process",
        "import drom_net.node.process, drom_net.node.live.sources",
        "import drom_net.node.process, drom_net.node.spec; drom_net.node.spec.NodeSpec",
    ],
)
def test_a_node_process_is_light(code: str) -> None:
    """architecture.md: "A node process is light": "NumPy, zmq and msgpack"."""
    heavy = ("yaml", "click", "rich", "scipy", "sklearn", "pandas", "matplotlib", "networkx", "pyarrow", "jsonschema")
    heavy += ("prometheus_client", "http.server", "narwhals", "polars", "river")
    script = f"{code}\nimport json, sys\nprint(json.dumps(sorted(sys.modules)))"
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    loaded = set(json.loads(run.stdout))
    assert {"numpy", "zmq", "msgpack"} <= loaded
    assert loaded & set(heavy) == set()
    ours = {name for name in loaded if name.startswith("drom_net.")}
    assert not any(f"{name}.".startswith(("drom_net.cli.", "drom_net.cluster.", "drom_net.config.")) for name in ours)
    prepares = ("cells", "columns", "faults", "preprocessing", "scaling")
    data = {"drom_net.data", *(f"drom_net.data.{name}" for name in ("live", "stream", *prepares))}
    if "drom_net.node.live.sources" in ours:
        data |= {f"drom_net.data.{name}" for name in ("incoming", "labels", "opening", "row_lines", "tables")}
        data |= {name for name in ours if name.startswith("drom_net.data.formats")}
    assert {name for name in ours if name.startswith("drom_net.data")} <= data
