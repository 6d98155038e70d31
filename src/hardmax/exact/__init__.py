"""Numbers without rounding: rationals, products, double-double (signs: ``regions.engine.decide``)."""
