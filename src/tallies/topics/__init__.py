"""LDA: documents as mixtures of topics."""
