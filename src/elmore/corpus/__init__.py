"""A prepared corpus on disk: made from raw text, opened for reading, its held-out part apart."""
