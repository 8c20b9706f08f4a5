"""What the Python services share: HTTP, TLS, tokens, problems, certificates, the signalling's frames."""
