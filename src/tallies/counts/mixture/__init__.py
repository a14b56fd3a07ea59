"""PLNMixture: clusters of samples by their counts."""
