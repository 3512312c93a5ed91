"""The ground: errors, reading files, fields, estimates, quantities. Imports nothing of the library but itself."""
