"""What is inside files: pages of Parquet, packed streams."""
