"""The hot functions. `selection` chooses among them; `reference` is the truth that the others must agree with."""
