"""Readers of file formats that several tasks share. They return plain records and report errors by file and line."""
