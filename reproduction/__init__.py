"""Comparing learners and making the paper's figures and tables again, from many runs of the plain loop."""
