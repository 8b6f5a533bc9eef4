"""The three representations a model passes through: Graph, Program, Plan."""
