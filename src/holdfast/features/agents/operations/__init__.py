"""What the API says about agents."""
