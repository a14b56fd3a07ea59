"""AuthorConcept: which concept of an ontology a sentence speaks of, given who wrote it."""
