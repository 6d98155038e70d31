"""What decoding the information sets costs, and which architectures a target needs."""
