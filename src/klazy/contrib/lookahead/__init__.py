"""Baselines that see f_t, and perhaps more, before they play round t. No learner may, so they are types of their own.

They say how good a decision could be with that knowledge, and stand beside learners only where a table says so.
"""
