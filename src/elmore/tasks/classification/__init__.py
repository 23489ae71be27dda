"""Classification of texts: the tasks `classify` and `sentiment`."""
