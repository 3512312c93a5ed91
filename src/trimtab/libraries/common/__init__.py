"""What the files of all libraries share: translation, logs, networks, and the doctor of foreign logs."""
