"""Climate: fields of several sources put on one grid and one calendar, in the same units (xarray)."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from silva.curate.science.result import ItemError, Result, each, made, package
from silva.errors import UsageError
from silva.tree import Json

NAMES = {
    "lat": ("latitude", "y", "nav_lat"),
    "lon": ("longitude", "x", "nav_lon"),
    "time": ("date", "valid_time", "t"),
}
"""What sources call the three axes, besides the names they are given here."""
UNITS = {
    ("K", "degC"): (1.0, -273.15),
    ("degC", "K"): (1.0, 273.15),
    ("mm day-1", "kg m-2 s-1"): (1 / 86400, 0.0),
    ("kg m-2 s-1", "mm day-1"): (86400.0, 0.0),
    ("hPa", "Pa"): (100.0, 0.0),
    ("Pa", "hPa"): (0.01, 0.0),
    ("m", "mm"): (1000.0, 0.0),
    ("mm", "m"): (0.001, 0.0),
}
"""From a unit to another: factor and offset."""
_ALIKE = {"C": "degC", "celsius": "degC", "°C": "degC", "kelvin": "K", "mm/day": "mm day-1", "kg/m2/s": "kg m-2 s-1"}


def align(files: Iterable[str], variable: str, output: str | None = None, *, method: str = "linear") -> Result:
    """Put one variable of several files (NetCDF) on the grid and the times of the first, in its units, and tell how
    far the others differ from it there (bias and root mean square, in those units, weighted by the cosine of latitude).

    Longitudes are taken to run from -180 to 180 degrees; only times and places that all sources cover are kept, and
    what was left out is told.

    Args:
        files: the first is what the others are aligned to.
        variable: its name, the same in all.
        output: a NetCDF file to write the aligned fields to.
        method: of interpolation, `linear` or `nearest`.

    Raises:
        MissingError: xarray is not installed.
        UsageError: fewer than two files can be read, or the output is there already.
    """
    xarray: Any = package("xarray", "climate")
    if output is not None and Path(output).exists():
        raise UsageError(f"{output}: is there already; choose another file")
    found, errors = each(files, lambda item: _field(xarray, Path(item), variable))
    if len(found) < 2:
        why = f" ({errors[0].item}: {errors[0].why})" if errors else ""
        raise UsageError(f"climate: aligning needs two sources that can be read, there are {len(found)}{why}")
    (first, target), *others = found.items()
    aligned: dict[str, Any] = {first: target}
    for name, field in others:
        try:
            aligned[name] = _onto(field, target, method)
        except ValueError as fault:
            errors.append(ItemError(item=name, why=str(fault), where="alignment"))
    common = _covered(xarray, aligned)
    told: Json = {name: _compared(field, common[first]) for name, field in common.items() if name != first}
    reference = common[first]
    metadata: Json = {
        "by": f"xarray {xarray.__version__}, {method}",
        "reference": first,
        "units": target.attrs["units"],
        "shape": dict(zip(reference.dims, reference.shape, strict=True)),
        "left_out": {name: int(field.size - reference.size) for name, field in aligned.items()},
    }
    if output is None:
        return made(told, errors, metadata)
    names = xarray.DataArray(list(common), dims="source", name="source")
    xarray.concat(list(common.values()), dim=names).to_dataset(name=variable).to_netcdf(output, engine="h5netcdf")
    return made(told, errors, metadata, [output])


def _field(xarray: Any, path: Path, variable: str) -> Any:
    if not path.is_file():
        raise ValueError("there is no such file")
    try:
        with xarray.open_dataset(path, engine="h5netcdf") as opened:
            data = opened.load()
    except (OSError, ValueError, KeyError) as fault:
        raise ValueError(f"cannot be read as NetCDF ({fault})") from fault
    if variable not in data:
        raise ValueError(f"has no variable {variable}; there are {', '.join(map(str, data.data_vars)) or 'none'}")
    field = data[variable]
    renamed = {old: new for new, olds in NAMES.items() for old in olds if old in field.dims and new not in field.dims}
    field = field.rename(renamed)
    missing = {"lat", "lon"} - set(field.dims)
    if missing:
        raise ValueError(f"{variable} has no axis {' and no axis '.join(sorted(missing))}")
    if not field.attrs.get("units"):
        raise ValueError(f"{variable} says no units; nothing is guessed")
    field.attrs["units"] = _ALIKE.get(str(field.attrs["units"]), str(field.attrs["units"]))
    field = field.assign_coords(lon=(field.lon + 180) % 360 - 180)
    axes = [name for name in ("time", "lat", "lon") if name in field.dims]
    return field.sortby(axes).transpose(*axes, ...)


def _onto(field: Any, target: Any, method: str) -> Any:
    own, wanted = field.attrs["units"], target.attrs["units"]
    if own != wanted:
        if (own, wanted) not in UNITS:
            raise ValueError(f"is in {own}, and no way from there to {wanted} is known")
        factor, offset = UNITS[own, wanted]
        field = (field * factor + offset).assign_attrs({**field.attrs, "units": wanted})
    if set(field.dims) != set(target.dims):
        raise ValueError(f"has the axes {', '.join(field.dims)}, the reference {', '.join(target.dims)}")
    return field.interp({name: target[name] for name in target.dims}, method=method).transpose(*target.dims)


def _covered(xarray: Any, fields: dict[str, Any]) -> dict[str, Any]:
    """The fields where all of them say something: whole times, latitudes and longitudes that one lacks are left out."""
    there = None
    for field in fields.values():
        there = field.notnull() if there is None else there & field.notnull()
    assert there is not None
    keep = {name: there[name][there.any([other for other in there.dims if other != name])] for name in there.dims}
    kept = {name: field.where(there).sel(keep) for name, field in fields.items()}
    if not next(iter(kept.values())).size:
        raise UsageError("climate: the sources have no time and place in common")
    return kept


def _compared(field: Any, reference: Any) -> Json:
    difference = field - reference
    weights = np.cos(np.deg2rad(reference.lat)) * difference.notnull()
    total = float(weights.broadcast_like(difference).sum()) or 1.0
    bias = float((difference * weights).sum()) / total
    square = float((difference**2 * weights).sum()) / total
    return {
        "bias": round(bias, 6),
        "root_mean_square": round(square**0.5, 6),
        "values": int(difference.notnull().sum()),
    }
