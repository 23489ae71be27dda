"""Files: text of any compression, atomic writes, output paths, and HDF5 output."""
