"""Science: known values of known things; one bad item costs no other; a service is asked once and replayed after."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from silva.cli.main import run as silva
from silva.curate.science import Transport, align, enzymes, molecules, proteins, recordings
from silva.curate.science.enzyme import KEGG
from silva.errors import UnreachableError, UsageError

INSULIN_B = "FVNQHLCGSHLVEALYLVCGERGFFYTPKT"


def test_a_protein_has_its_known_mass_and_a_bad_one_costs_no_other() -> None:
    pytest.importorskip("Bio", reason="silva[science] is not installed")
    result = proteins([f"insulin B={INSULIN_B}", "MKXX", "  "])
    assert result.status == "partial_success" and set(result.result) == {"insulin B"}
    told = result.result["insulin B"]
    assert told["length"] == 30 and told["mass_da"] == pytest.approx(3429.9, abs=0.5)
    assert 6.5 < told["isoelectric_point"] < 7.5
    (error,) = result.errors
    assert error.item == "MKXX" and "X: is none of the twenty" in error.why
    assert proteins(["123"]).status == "error"
    with pytest.raises(UsageError, match="1 to 10,000 items"):
        proteins([])


def test_molecules_that_are_the_same_come_to_the_same() -> None:
    pytest.importorskip("rdkit", reason="silva[science] is not installed")
    result = molecules(["CCO", "OCC", "CC(=O)[O-].[Na+]", "CC(O)=O", "C1CC"])
    assert result.result["CCO"]["formula"] == "C2H6O" and result.result["CCO"]["changed_by"] == []
    assert result.result["CC(=O)[O-].[Na+]"]["smiles"] == result.result["CC(O)=O"]["smiles"]
    assert set(result.result["CC(=O)[O-].[Na+]"]["changed_by"]) >= {"largest fragment", "uncharge"}
    assert result.metadata["same"] == [["CCO", "OCC"], ["CC(=O)[O-].[Na+]", "CC(O)=O"]]
    assert [error.item for error in result.errors] == ["C1CC"]


def test_an_enzyme_is_joined_from_three_services_offline(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("Bio", reason="silva[science] is not installed")
    assert silva(["science", "enzyme", "1.1.1.1", "--replay", "example", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    enzyme = told["result"]["1.1.1.1"]
    assert "alcohol dehydrogenase" in enzyme["names"] and "NADH" in enzyme["products"]
    assert enzyme["substances"]["NADH"]["formula"].startswith("C21H")
    assert {each["accession"] for each in enzyme["proteins"]} == {"P00330", "P07327"}
    assert all("replayed" in where for where in told["metadata"]["sources"].values())


def test_a_source_that_is_down_is_told_and_the_others_stand(tmp_path: Path) -> None:
    pytest.importorskip("Bio", reason="silva[science] is not installed")
    example = Transport("replay", "example")
    body = example.get(f"{KEGG}/ec:1.1.1.1").decode()
    for path in example._folder.iterdir():  # pyright: ignore[reportOptionalMemberAccess, reportPrivateUsage]
        if "uniprot" not in path.name:
            (tmp_path / path.name).write_bytes(path.read_bytes())
    result = enzymes(["1.1.1.1", "9.9"], Transport("replay", str(tmp_path)))
    assert result.status == "partial_success" and "proteins" not in result.result["1.1.1.1"] and body
    assert [(error.item, error.where) for error in result.errors] == [("9.9", ""), ("1.1.1.1", "UniProt")]
    assert "--record FOLDER" in result.errors[1].why
    (kept,) = [path for path in tmp_path.iterdir() if "kegg" in path.name]
    kept.write_text(json.dumps({"body": "<html>sorry</html>"}))
    assert enzymes(["1.1.1.1"], Transport("replay", str(tmp_path))).status == "error"


def test_what_is_asked_once_is_replayed(tmp_path: Path) -> None:
    import threading
    from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

    asked: list[str] = []

    class Service(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            busy = len(asked) == 1
            self.send_response(429 if busy else 200 if self.path == "/ok" else 404)
            self.send_header("Retry-After", "0")
            self.end_headers()
            self.wfile.write("ünïcode".encode())

        def log_message(self, format: str, *args: object) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), Service) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        base = f"http://127.0.0.1:{server.server_port}"
        recording = Transport("record", str(tmp_path / "kept"))
        assert recording.get(f"{base}/ok").decode() == "ünïcode" and asked == ["/ok", "/ok"], (
            "told to wait, asked again"
        )
        with pytest.raises(UnreachableError, match="404"):
            recording.get(f"{base}/no")
        server.shutdown()
    replaying = Transport("replay", str(tmp_path / "kept"))
    assert replaying.get(f"{base}/ok").decode() == "ünïcode"
    with pytest.raises(UnreachableError, match="no reply was kept"):
        replaying.get(f"{base}/no")
    with pytest.raises(UsageError, match="no such folder"):
        Transport("replay", str(tmp_path / "gone"))


def test_an_eeg_recordings_rhythm_and_bad_channels_are_found(tmp_path: Path) -> None:
    mne: Any = pytest.importorskip("mne", reason="silva[science] is not installed")
    rate, seconds = 128, 20
    clock = np.arange(rate * seconds) / rate
    noise = np.random.default_rng(0).normal(size=(4, clock.size)) * 1e-6
    noise[0] += 2e-5 * np.sin(2 * np.pi * 10 * clock)
    noise[1] = 0
    noise[2] *= 100
    info = mne.create_info(["O1", "Dead", "Loose", "Cz"], rate, "eeg")
    file = tmp_path / "rest_eeg.fif"
    mne.io.RawArray(noise, info, verbose="error").save(file, verbose="error")
    result = recordings([str(file), str(tmp_path / "gone.edf"), __file__])
    told = result.result[str(file)]
    assert told["bad_channels"] == {"Dead": "flat", "Loose": "loud"} and told["rate_hz"] == rate
    assert told["band_shares_by_channel"]["O1"]["alpha"] > 0.9 > told["band_shares_by_channel"]["Cz"]["alpha"]
    assert [error.item for error in result.errors] == [str(tmp_path / "gone.edf"), __file__]


def test_fields_in_other_units_grids_and_longitudes_align(tmp_path: Path) -> None:
    xarray: Any = pytest.importorskip("xarray", reason="silva[science] is not installed")

    def write(name: str, lats: Any, lons: Any, shift: float, units: str, axes: tuple[str, str]) -> str:
        values = (
            280 + np.add.outer(np.asarray(lats), np.where(np.asarray(lons) > 180, np.asarray(lons) - 360, lons)) / 10
        )
        field = xarray.DataArray(
            values + shift, coords={axes[0]: lats, axes[1]: lons}, dims=axes, attrs={"units": units}
        )
        field.to_dataset(name="t2m").to_netcdf(tmp_path / name, engine="h5netcdf")
        return str(tmp_path / name)

    first = write("a.nc", np.linspace(-10, 10, 5), np.linspace(-20, 20, 9), 0.0, "K", ("lat", "lon"))
    warm = np.concatenate([np.linspace(0, 30, 7), np.linspace(330, 355, 6)])
    other = write("b.nc", np.linspace(-12, 12, 13), warm, 1.5 - 273.15, "celsius", ("latitude", "longitude"))
    result = align([first, other], "t2m", str(tmp_path / "out.nc"))
    assert result.status == "success" and result.metadata["units"] == "K"
    told = result.result[other]
    assert told["bias"] == pytest.approx(1.5, abs=1e-6) and told["root_mean_square"] == pytest.approx(1.5, abs=1e-6)
    with xarray.open_dataset(tmp_path / "out.nc", engine="h5netcdf") as written:
        assert written["t2m"].sizes["source"] == 2
    bare = write("c.nc", [0.0, 1.0], [0.0, 1.0], 0.0, "", ("lat", "lon"))
    strange = write("d.nc", np.linspace(-12, 12, 13), np.linspace(-25, 25, 9), 0.0, "furlong", ("lat", "lon"))
    result = align([first, other, bare, strange], "t2m")
    assert {error.item: error.why.split(";")[0] for error in result.errors} == {
        bare: "t2m says no units",
        strange: "is in furlong, and no way from there to K is known",
    }
    with pytest.raises(UsageError, match="two sources"):
        align([first, bare], "t2m")
    with pytest.raises(UsageError, match="there already"):
        align([first, other], "t2m", str(tmp_path / "out.nc"))
