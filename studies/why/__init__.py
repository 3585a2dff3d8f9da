"""Faults planted in sets, rows, lists, models and trainings of LFW: how many does `verisphere why` name first?"""
