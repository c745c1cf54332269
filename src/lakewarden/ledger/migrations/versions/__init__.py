"""One file a revision. A revision is never edited once released."""
