"""Leaves: functions of arrays, numbers in and numbers out."""
