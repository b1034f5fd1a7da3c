"""What clocks and calendars say: the days of the calendar, and the zones of the world."""
