"""Deep Think: plan, research, report."""
