"""The Java and the PostgreSQL of the Spark tests."""

from __future__ import annotations

from tests.spark.conftest import java_home, postgres

__all__ = ["java_home", "postgres"]
