"""Text files on Spark, read cell for cell as the local engine reads them."""
