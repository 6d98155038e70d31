"""One recipe per figure, table and example of the papers."""
