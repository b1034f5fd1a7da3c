"""Spark's daemon of Python workers, which has imported already what every worker of the tests would import for itself.

A worker whose task has failed is thrown away, and many tests are about failures.
"""

from __future__ import annotations

import importlib

WARM = ("numpy", "pandas", "pyarrow", "pellucid.spark.frames", "pellucid.spark.step")

if __name__ == "__main__":
    from pellucid.spark.daemon import manager

    for name in WARM:
        importlib.import_module(name)
    manager()
