"""The controllers, each a reader and writer of the API server alone, and one that is nobody of ours."""
