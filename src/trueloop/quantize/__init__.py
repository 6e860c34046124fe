"""Fewer bits for the same answers: schemes, what each layer costs, and the choice of what stays in float."""
