"""The SDN side of the controller: which switches there are, what they shall do, and what they say."""
