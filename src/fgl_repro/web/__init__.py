"""The results as a web site: pages, interactive tables and charts. Nothing here runs or computes a result."""
