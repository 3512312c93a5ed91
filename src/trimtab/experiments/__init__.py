"""Studies of the sources, each with its figures: the post, the paper, the notes, and our own."""
