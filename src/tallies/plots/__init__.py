"""Plots of fitted models (extra: matplotlib). Every function draws on an axes and returns it."""
