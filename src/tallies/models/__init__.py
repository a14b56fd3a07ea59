"""One file per model, all in the same order: story and equations, shapes, verbs, what users ask."""

# public name -> module, so that importing Tallies imports no model and `load` knows which classes exist
MODELS = {
    "FEM": "tallies.models.fem",
    "FEMNetwork": "tallies.models.fem_network",
    "GDA": "tallies.models.gda",
    "LDA": "tallies.models.lda",
    "NaiveBayes": "tallies.models.naive_bayes",
    "PLN": "tallies.models.pln",
}
