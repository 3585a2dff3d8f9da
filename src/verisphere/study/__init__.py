"""Questions asked of many trainings: experiments, searches, cleaning, inversion, and the demo."""
