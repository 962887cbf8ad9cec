"""The report: one page of HTML with everything in it, and the same as JSON and Parquet."""
