"""Odd but plausible data and settings of every estimator, and what is asked of it: the parts of `fuzzing.py`."""
