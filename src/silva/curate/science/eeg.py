"""EEG: what a recording holds, which channels are bad, and how strong each band is (MNE)."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from silva.curate.science.result import Result, each, made, package
from silva.tree import Json

BANDS = {"delta": (1.0, 4.0), "theta": (4.0, 8.0), "alpha": (8.0, 13.0), "beta": (13.0, 30.0), "gamma": (30.0, 45.0)}
"""In Hz."""
_FLAT, _LOUD = 1e-7, 5.0
"""A channel is flat below this standard deviation in volts, and loud above so many times the median of all."""


def recordings(files: Iterable[str], *, notch: float | None = None) -> Result:
    """Recordings (EDF, BDF, FIF, BrainVision, EEGLAB): channels, rate (Hz), length (s), events, channels that are flat
    or loud, and the share of each band in the power between 1 and 45 Hz, by good channel and over all (Welch 1967).

    Args:
        files: of the recordings.
        notch: the mains frequency to filter out, in Hz.

    Raises:
        MissingError: MNE is not installed.
        UsageError: there is no file.
    """
    mne: Any = package("mne", "eeg")
    found, errors = each(files, lambda item: _recording(mne, Path(item), notch))
    return made(found, errors, {"by": f"MNE {mne.__version__}", "bands_hz": {k: list(v) for k, v in BANDS.items()}})


def _recording(mne: Any, path: Path, notch: float | None) -> Json:
    if not path.is_file():
        raise ValueError("there is no such file")
    try:
        raw = mne.io.read_raw(path, preload=True, verbose="error")
    except Exception as fault:  # MNE's readers raise whatever their formats meet
        raise ValueError(f"cannot be read as a recording ({type(fault).__name__}: {fault})") from fault
    picks = mne.pick_types(raw.info, eeg=True, exclude=[])
    if not len(picks):
        raise ValueError(f"holds no EEG channel among its {len(raw.ch_names)}")
    if notch is not None:
        raw.notch_filter([notch], picks=picks, verbose="error")
    data, rate = raw.get_data(picks=picks), float(raw.info["sfreq"])
    names = [raw.ch_names[pick] for pick in picks]
    spread = data.std(axis=1)
    loud = _LOUD * float(np.median(spread[spread > _FLAT])) if (spread > _FLAT).any() else np.inf
    bad = {
        name: "flat" if each <= _FLAT else "loud"
        for name, each in zip(names, spread, strict=True)
        if each <= _FLAT or each > loud
    }
    good = [number for number, name in enumerate(names) if name not in bad]
    shares = {names[number]: _bands(mne, data[number], rate) for number in good}
    over_all = (
        {band: round(float(np.mean([each[band] for each in shares.values()])), 4) for band in BANDS} if shares else {}
    )
    return {
        "channels": names,
        "rate_hz": rate,
        "seconds": round(data.shape[1] / rate, 3),
        "events": sorted({str(each) for each in raw.annotations.description}),
        "bad_channels": bad,
        "band_shares": over_all,
        "band_shares_by_channel": shares,
    }


def _bands(mne: Any, signal: Any, rate: float) -> dict[str, float]:
    length = min(signal.size, int(2 * rate))
    power, hertz = mne.time_frequency.psd_array_welch(
        signal, sfreq=rate, fmin=1.0, fmax=min(45.0, rate / 2), n_fft=length, n_per_seg=length, verbose="error"
    )
    whole = float(power.sum()) or 1.0
    inside = {band: float(power[(hertz >= low) & (hertz < high)].sum()) for band, (low, high) in BANDS.items()}
    return {band: round(each / whole, 4) for band, each in inside.items()}
