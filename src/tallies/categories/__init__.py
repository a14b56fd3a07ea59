"""FEM and FEMNetwork: how combinations of categories shape an outcome."""
