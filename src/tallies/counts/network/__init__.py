"""PLNNetwork: which species depend on which, given all others."""
