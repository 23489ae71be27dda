"""The common half of every training: a run drives whatever is a `Trainable`; it knows neither models nor data."""
