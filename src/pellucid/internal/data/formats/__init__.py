"""What is inside files: lines of CSV and JSON, pages of Parquet, packed streams; lists and times in columns."""
