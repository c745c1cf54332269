"""Real files of both formats, damaged in every way that can be thought of, against every reader there is."""
