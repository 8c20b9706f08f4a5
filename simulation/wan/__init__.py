"""Clusters over a wide area, flow by flow: the papers' networks, their protocols and ours."""
