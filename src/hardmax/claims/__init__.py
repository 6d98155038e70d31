"""Every statement of both papers as a check with a verdict and a certificate."""
