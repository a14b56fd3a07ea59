"""Plots (matplotlib, the extra `plots`): each function takes a fitted model and returns axes."""
