"""Reckoning: a calculator, equations (SymPy), units, and Python in the sandbox."""

from __future__ import annotations

import json
import multiprocessing
import tempfile
from pathlib import Path
from typing import Any

from silva.envs.gyms.files.expression import Expressions
from silva.envs.gyms.files.tools.instrument import Bench
from silva.errors import MissingError, StoreError, UsageError
from silva.sandbox.limits import Limits
from silva.sandbox.protocol import WORKSPACE, Spec

PYTHON_SECONDS = 20.0
SOLVE_SECONDS = 30.0
"""How long equations may take; some keep SymPy busy for ever."""
_ANSWER = "/tmp/silva-result.json"
# What the name `result` is set to is the call's value; without it, what was printed.
_RUNNER = """
import json as _json
_names = _json.loads(open("/tmp/silva-names.json").read())
_space = {"__name__": "__main__", **_names}
exec(compile(open("/tmp/silva-code.py").read(), "code.py", "exec"), _space)
if "result" in _space and "result" not in _names:
    open("/tmp/silva-result.json", "w").write(_json.dumps(_space["result"]))
"""

# Each kind of quantity by its units: how many of the first one a unit is (temperature: slope and offset to kelvin).
UNITS: dict[str, dict[str, float]] = {
    "length": {
        "m": 1,
        "km": 1000,
        "cm": 0.01,
        "mm": 0.001,
        "inch": 0.0254,
        "foot": 0.3048,
        "yard": 0.9144,
        "mile": 1609.344,
        "nautical_mile": 1852,
    },
    "mass": {"kg": 1, "g": 0.001, "mg": 1e-6, "t": 1000, "ounce": 0.028349523125, "pound": 0.45359237},
    "volume": {
        "l": 1,
        "ml": 0.001,
        "cl": 0.01,
        "m3": 1000,
        "cup": 0.2365882365,
        "pint": 0.473176473,
        "gallon": 3.785411784,
        "tablespoon": 0.01478676478125,
        "teaspoon": 0.00492892159375,
    },
    "time": {"s": 1, "min": 60, "h": 3600, "day": 86400, "week": 604800},
    "area": {"m2": 1, "km2": 1e6, "hectare": 1e4, "acre": 4046.8564224, "square_foot": 0.09290304},
    "speed": {"m/s": 1, "km/h": 1 / 3.6, "mph": 0.44704, "knot": 1852 / 3600},
    "energy": {"j": 1, "kj": 1000, "kwh": 3.6e6, "kcal": 4184},
    "data": {"byte": 1, "kb": 1e3, "mb": 1e6, "gb": 1e9, "kib": 1024, "mib": 1048576, "gib": 1073741824},
}
_KELVIN = {"c": (1.0, 273.15), "f": (5 / 9, 273.15 - 32 * 5 / 9), "k": (1.0, 0.0)}


async def calculate(bench: Bench, expression: str) -> Any:
    """Work out an arithmetic expression, such as "(12.5 * 3 + 7) / 2" or "round(sqrt(r1), 2)"; earlier results are
    there by their names."""
    made = await Expressions(bench.names).value(expression)
    return round(made, 10) if isinstance(made, float) else made


def solve(bench: Bench, equations: list[str], unknowns: list[str]) -> list[dict[str, Any]]:
    """Solve equations such as ["2*x + y = 7", "x - y = 2"] for their unknowns, such as ["x", "y"]: every real
    solution."""
    import sympy
    from sympy.parsing.sympy_parser import implicit_multiplication_application, parse_expr, standard_transformations

    if not equations or len(equations) > 6 or not 0 < len(unknowns) <= 6:
        raise UsageError("solve: one to six equations, one to six unknowns")
    symbols = {name: sympy.Symbol(name, real=True) for name in unknowns if name.isidentifier()}
    if len(symbols) != len(unknowns):
        raise UsageError(f"solve: unknowns {unknowns}: plain names, such as x")
    how = (*standard_transformations, implicit_multiplication_application)
    sides: list[Any] = []
    for equation in equations:
        left, equals, right = equation.partition("=")
        # SymPy reads by eval, so what it is given holds nothing but numbers, the unknowns and a few functions.
        checked = [_formula(side, symbols) for side in (left, right if equals else "0")]
        try:
            one, other = (parse_expr(side, local_dict=dict(symbols), transformations=how) for side in checked)
        except Exception as error:
            raise UsageError(f"solve: {equation[:60]!r} cannot be read: {' '.join(str(error).split())[:80]}") from error
        sides.append(sympy.Eq(one, other))
    return _solved(sides, list(symbols.values()))


def convert_unit(bench: Bench, value: float, unit: str, to: str) -> float:
    """Convert a value from one unit to another of the same kind: m km cm mm inch foot yard mile, kg g mg t ounce pound,
    l ml cl m3 cup pint gallon tablespoon teaspoon, s min h day week, m2 km2 hectare acre, m/s km/h mph knot, C F K,
    J kJ kWh kcal, byte kB MB GB KiB MiB GiB."""
    one, other = _unit(unit), _unit(to)
    if one in _KELVIN and other in _KELVIN:
        (slope, offset), (back, off) = _KELVIN[one], _KELVIN[other]
        return round((value * slope + offset - off) / back, 10)
    for units in UNITS.values():
        if one in units and other in units:
            return round(value * units[one] / units[other], 10)
    known = {*_KELVIN, *(name for units in UNITS.values() for name in units)}
    missing = [given for given, name in ((unit, one), (to, other)) if name not in known]
    why = f"there is no unit {missing[0]!r}" if missing else f"{unit} and {to} are of different kinds"
    raise UsageError(f"convert_unit: {why}")


async def python(bench: Bench, code: str) -> Any:
    """Run Python (its standard library) in a sandbox without a network, in a folder with the files; earlier results are
    variables (r1, r2 and names you gave). Set `result` to give a value back; files you write are kept."""
    if bench.sandbox is None:
        raise UsageError("python: there is no sandbox here")
    try:
        names = json.dumps(bench.names)
        backend = await bench.sandbox()
        limits = Limits(memory=256 << 20, processes=16, wall=PYTHON_SECONDS, disk=64 << 20, output=64 << 10)
        async with await backend.create(Spec(limits=limits)) as sandbox:
            for name, content in bench.folder.items().items():
                await sandbox.put(content, f"{WORKSPACE}/{name}")
            await sandbox.put(names.encode(), "/tmp/silva-names.json")
            await sandbox.put(code.encode(), "/tmp/silva-code.py")
            await sandbox.put(_RUNNER.encode(), "/tmp/silva-run.py")
            done = await sandbox.exec(
                ["python3", "-B", "/tmp/silva-run.py"], seconds=PYTHON_SECONDS, variables={"PYTHONHASHSEED": "0"}
            )
            said = done.stdout.decode(errors="replace").strip()
            if not done.ok:
                lines = done.stderr.decode(errors="replace").strip().splitlines()
                raise UsageError(f"python: {done.reason or (lines[-1] if lines else f'exit code {done.code}')}"[:300])
            with tempfile.TemporaryDirectory(prefix="silva-files-") as scratch:
                place = Path(scratch) / "after"
                await sandbox.get_folder(WORKSPACE, place, most=64 << 20)
                found = {str(each.relative_to(place)): each for each in sorted(place.rglob("*"))}
                kept = {name: each.read_bytes() for name, each in found.items() if each.is_file()}
            bench.folder.replace(kept)
            try:
                return json.loads(await sandbox.get(_ANSWER, most=1 << 20))
            except (UsageError, ValueError):
                return said
    except (MissingError, StoreError) as error:
        raise UsageError(f"python: {error}") from error


def _unit(name: str) -> str:
    plain = name.strip().casefold().replace("°", "").replace("²", "2").replace("³", "3")
    twins = {
        "metre": "m", "meter": "m", "kilometre": "km", "kilometer": "km", "feet": "foot", "ft": "foot", "in": "inch",
        "inches": "inch", "litre": "l", "liter": "l", "millilitre": "ml", "milliliter": "ml", "gram": "g",
        "kilogram": "kg", "lb": "pound", "oz": "ounce", "hour": "h", "hr": "h", "minute": "min", "second": "s",
        "celsius": "c", "fahrenheit": "f", "kelvin": "k", "kmh": "km/h", "kph": "km/h", "ha": "hectare", "tonne": "t",
    }  # fmt: skip
    for form in (plain, plain.removesuffix("s"), plain.removesuffix("es")):
        if form in twins:
            return twins[form]
        if form in _KELVIN or any(form in units for units in UNITS.values()):
            return form
    return plain


_FUNCTIONS = ("sqrt", "exp", "log", "sin", "cos", "tan", "abs", "pi")


def _formula(side: str, symbols: dict[str, Any]) -> str:
    import re

    text = side.strip().replace("^", "**")
    if (
        len(text) > 200
        or not re.fullmatch(r"[\w\s+\-*/().]*", text)
        or re.search(r"\.\s*[A-Za-z_]|\*\*\s*\S*\*\*", text)
    ):
        raise UsageError(f"solve: {side.strip()[:60]!r}: numbers, the unknowns, + - * / ^ and ( )")
    for word in re.findall(r"[A-Za-z_]\w*", text):
        if word not in symbols and word not in _FUNCTIONS:
            raise UsageError(f"solve: there is no {word!r}; unknowns are {', '.join(symbols)}")
    if any(len(number) > 15 for number in re.findall(r"\d+", text)) or re.search(r"\*\*\s*\(?-?\d{3,}", text):
        raise UsageError("solve: a number is too large")
    return text


def _solved(sides: list[Any], symbols: list[Any]) -> list[dict[str, Any]]:
    """The solutions, found by a process of their own, which is the one thing that can be stopped whatever it does."""
    context = multiprocessing.get_context("fork")  # SymPy is loaded in it already
    receiving, sending = context.Pipe(duplex=False)
    child = context.Process(target=_solve, args=(sides, symbols, sending), daemon=True)
    child.start()
    sending.close()
    try:
        found = receiving.recv() if receiving.poll(SOLVE_SECONDS) else "they take too long; ask for less at once"
    except EOFError:
        found = "they take more memory than there is"  # the process has died
    finally:
        child.kill()
        child.join()
        receiving.close()
    if isinstance(found, str):
        raise UsageError(f"solve: no way to solve these is known ({found})")
    return found


def _solve(sides: list[Any], symbols: list[Any], sending: Any) -> None:
    import sympy

    try:
        found: Any = sympy.solve(sides, symbols, dict=True)
        sending.send([{str(name): _number(value) for name, value in each.items()} for each in found])
    except Exception as error:  # noqa: BLE001 - of equations it cannot solve SymPy may raise anything
        sending.send(" ".join(str(error).split())[:80] or type(error).__name__)


def _number(value: Any) -> Any:
    if not value.free_symbols and value.is_real:
        whole = int(value) if value.is_integer else None
        return whole if whole is not None else round(float(value), 10)
    return str(value)
