"""What people read of a run: its report, and how it goes while it lasts."""
