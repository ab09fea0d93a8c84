"""The quality job and what runs beside it."""
