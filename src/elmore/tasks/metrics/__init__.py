"""Metrics: a metric computes rows from predictions; score, interval and significance test follow from the rows."""
