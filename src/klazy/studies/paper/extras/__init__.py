"""What an honest report must also show: each module makes one section, whose numbers come from its runs."""
