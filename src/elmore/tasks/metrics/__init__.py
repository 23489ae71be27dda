"""One file for each official score. Each gives a `Score`; none knows of files, models or torch."""
