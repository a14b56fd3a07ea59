"""FEMNetwork: which categories of a table depend on which."""
