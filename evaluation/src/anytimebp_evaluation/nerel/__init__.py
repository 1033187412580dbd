"""Joint entity typing and relation extraction on NEREL: does joint inference help, and does adaptive give it sooner?"""
