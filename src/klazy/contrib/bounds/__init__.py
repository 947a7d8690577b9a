"""Bounds and certificates of the research learners."""
