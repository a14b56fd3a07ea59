"""GDA and naive Bayes: a law for each class, and Bayes' rule."""
