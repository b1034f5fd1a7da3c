"""Which of several processes takes a file of tests (`make test` has three of them)."""

from __future__ import annotations

import functools

from xdist.scheduler import LoadFileScheduling


class OneSpark(LoadFileScheduling):  # type: ignore[misc] # xdist's own types are loose
    """A process takes a file; and one of them all files that share the session of Spark: its Java is warm after a few,
    and each further session costs half a minute of a processor."""

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.partition("::")[0]
        return "spark" if self._shares(file) else file

    @functools.cache  # noqa: B019 - there is one of them
    def _shares(self, file: str) -> bool:
        path = self.config.rootpath / file
        return file.startswith("tests/spark/") or (path.is_file() and "spark: SparkSession" in path.read_text("utf-8"))
