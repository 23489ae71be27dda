"""How several formats lay out one thing: options.json, the arrays of bilm-tf, the layers of AllenNLP's modules."""
