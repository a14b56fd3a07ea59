"""PLNDiscriminant: which class a sample belongs to, told by its counts."""
