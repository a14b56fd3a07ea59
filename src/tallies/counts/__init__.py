"""PLN: correlated counts through a Gaussian layer."""
