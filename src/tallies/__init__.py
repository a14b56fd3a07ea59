"""Generative models for words, counts and categories."""
